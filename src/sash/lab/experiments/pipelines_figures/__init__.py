"""Figures of the paper on pipelines of window operators."""
