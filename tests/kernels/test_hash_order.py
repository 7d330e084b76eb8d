"""The order of keys by hash is that of a plain sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.kernels.hash_order import HIGH_PILE, order_by_hash
from support.key_hashes import hash_keys

KEYS = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)


def check(keys: np.ndarray) -> None:
    expected = np.argsort(hash_keys(keys), kind="stable")
    order, hashes = order_by_hash(keys)
    assert order.tolist() == expected.tolist()
    assert hashes.tolist() == hash_keys(keys)[expected].tolist()


@given(st.lists(KEYS, max_size=200))
def test_the_order_is_that_of_a_plain_sort(keys: list[int]) -> None:
    check(np.array(keys, np.int64))


@pytest.mark.parametrize("n_keys", [0, 1, HIGH_PILE, 1000, 100_000])
@pytest.mark.parametrize("n_distinct", [1, 2, 50, 2**62])
def test_keys_that_come_often(n_keys: int, n_distinct: int) -> None:
    check(np.random.default_rng(1).integers(0, n_distinct, n_keys))


def test_hashes_are_one_to_one() -> None:
    """So what has the hash of a key is of that key: segments are searched by hash alone."""
    keys = np.random.default_rng(2).integers(-(2**63), 2**63 - 1, 1000)
    z = hash_keys(keys)
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        z = z ^ (z >> np.uint64(shift)) ^ (z >> np.uint64(2 * shift))
        z = z * np.uint64(pow(factor, -1, 2**64))
    assert z.view(np.int64).tolist() == keys.tolist()
