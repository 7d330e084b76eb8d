"""Partitions that are split: every key stays in one, those that are new come last, and none is too large that can be
cut.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sash.papers.exact.hash_directory import HashDirectory
from sash.papers.exact.key_fences import KeyFences

KEYS = st.lists(st.integers(-20, 20) | st.sampled_from([-(2**63), 2**63 - 1]), max_size=60)


@given(st.sampled_from(["hash", "range"]), KEYS, st.lists(KEYS, max_size=4), st.integers(1, 5))
def test_what_is_split_keeps_its_keys(kind, first, more, theta):
    rows = np.array(first, np.int64)
    partitions = HashDirectory(len(rows), theta) if kind == "hash" else KeyFences(rows, theta)
    for keys in more:
        rows = np.concatenate([rows, np.array(keys, np.int64)])
        n_before, before = partitions.n_parts, partitions.segments_of(rows)
        for segment in range(n_before):
            own = np.sort(rows[before == segment])
            if len(own) > 2 * theta:
                n_parts = partitions.n_parts
                partitions.split(segment, own, theta)
                assert set(partitions.segments_of(own).tolist()) <= {segment, *range(n_parts, partitions.n_parts)}
                _check_sizes(own, partitions.segments_of(own), theta)
        after = partitions.segments_of(rows)
        assert ((after == before) | (after >= n_before)).all()
        assert after.max(initial=0) < partitions.n_parts


def _check_sizes(keys: np.ndarray, segments: np.ndarray, theta: int) -> None:
    """Larger than 2θ is only what one key has; by range, with others that would be less than θ."""
    for segment in np.unique(segments):
        own = keys[segments == segment]
        n_most = np.unique(own, return_counts=True)[1].max()
        assert len(own) <= 2 * theta or n_most + 2 * theta > len(own)


def test_range_segments_have_theta_to_two_theta():
    keys = np.random.default_rng(1).permutation(1000)
    sizes = np.bincount(KeyFences(keys, 30).segments_of(keys))
    assert sizes.min() >= 30
    assert sizes.max() < 60


def test_nothing_is_one_segment():
    nothing = np.empty(0, np.int64)
    for partitions in (HashDirectory(0, 5), KeyFences(nothing, 5)):
        assert partitions.n_parts == 1
        assert partitions.segments_of(np.array([-(2**63), 0, 2**63 - 1])).tolist() == [0, 0, 0]
