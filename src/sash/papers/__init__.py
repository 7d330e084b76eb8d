"""Algorithms of the papers that run by hint and in experiments, each with its kernels."""
