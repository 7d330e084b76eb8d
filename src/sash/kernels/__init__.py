"""Loops over rows, compiled by numba: arrays in, arrays out, no Python objects, no I/O."""
