"""Which key a tuple has: all equally likely, by Zipf's law, or by the b-model.

Keys are numbers from 0 to `n_keys` − 1; with skew, the lower ones are the likelier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from sash.lab.workloads.law import Law, Seed, check_bias, parse_law, require


def even_keys(seed: Seed, n_keys: int, n_rows: int) -> np.ndarray:
    """All keys are equally likely."""
    return np.random.default_rng(seed).integers(0, n_keys, n_rows)


def zipf_keys(seed: Seed, n_keys: int, n_rows: int, exponent: float = 1.0) -> np.ndarray:
    """Key k is as likely as (k + 1)^−`exponent` says."""
    _check_exponent(exponent)
    drawn = np.random.default_rng(seed).random(n_rows)
    return np.searchsorted(_zipf_distribution(n_keys, exponent), drawn, side="right").astype(np.int64)


def bmodel_keys(seed: Seed, n_keys: int, n_rows: int, bias: float = 0.7) -> np.ndarray:
    """Of any half of the keys, and of any half of that, the lower half has the share `bias` of its tuples (Exact §7.6).

    The domain is halved until 2^n parts have at most one key each; a key has what its parts have.
    """
    check_bias(bias)
    left = np.random.default_rng(seed).random(n_rows)
    n_levels = (n_keys - 1).bit_length()
    parts = np.zeros(n_rows, np.int64)
    for _ in range(n_levels):
        is_upper = left >= bias
        parts = 2 * parts + is_upper
        left = np.where(is_upper, (left - bias) / (1 - bias), left / bias)
    return parts * n_keys >> n_levels


def parse_skew(text: str) -> Callable[[Seed, int, int], np.ndarray]:
    """What draws keys by the law that a text names, such as `zipf:1.1`."""
    return parse_law("skew", text, LAWS)


@lru_cache(maxsize=4)
def _zipf_distribution(n_keys: int, exponent: float) -> np.ndarray:
    """How likely a key is at most k."""
    weights = np.cumsum(np.arange(1, n_keys + 1, dtype=np.float64) ** -exponent)
    return weights / weights[-1]


def _check_exponent(exponent: float) -> None:
    require(exponent >= 0, "exponent", exponent, "0 or more")


LAWS = {
    "none": Law(even_keys),
    "zipf": Law(zipf_keys, "exponent", _check_exponent),
    "bmodel": Law(bmodel_keys, "bias", check_bias),
}
