"""Loops over rows of the papers on exact joins, compiled by numba, over arrays and nothing else."""
