"""Workloads, benchmarks and experiments. Nothing imports them but the commands that run them."""
