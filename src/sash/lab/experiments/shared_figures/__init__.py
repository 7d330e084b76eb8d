"""Figures of the paper on shared window joins."""
