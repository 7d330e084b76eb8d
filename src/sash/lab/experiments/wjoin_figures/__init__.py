"""Figures of the W-join paper."""
