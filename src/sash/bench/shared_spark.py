"""`sash bench shared` on Spark."""

from __future__ import annotations


def bench_shared_spark(*a):
    raise NotImplementedError
