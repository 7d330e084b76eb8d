"""PQRS traces: the b-model across mini-intervals, four probabilities within them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sash.errors import PlanError
from sash.lab.workloads.arrivals import START_US
from sash.lab.workloads.pqrs import MAX_SHARE, Pqrs, draw_pqrs, pqrs_trace, split_duration

SECOND = 1_000_000


def trace(pqrs: Pqrs, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    times, keys = zip(*pqrs_trace(seed, pqrs))
    return np.concatenate(times), np.concatenate(keys)


def test_a_trace_has_exactly_its_tuples_in_order_and_follows_from_the_seed():
    pqrs = Pqrs(rate=333, duration_us=7 * SECOND)
    times, keys = trace(pqrs)
    assert len(times) == len(keys) == 2331
    assert np.all(np.diff(times) >= 0)
    assert START_US <= times[0] <= times[-1] < START_US + 7 * SECOND
    assert 0 <= keys.min() <= keys.max() < pqrs.n_keys
    assert all(np.array_equal(ours, theirs) for ours, theirs in zip((times, keys), trace(pqrs)))
    assert not np.array_equal(keys, trace(pqrs, seed=2)[1])


def test_mini_intervals_are_those_of_the_paper():
    """4 hours at 200 tuples per second and a bias of 0.6: no mini-interval has more than 70,000."""
    _, counts, n_levels = split_duration(1, Pqrs(duration_us=4 * 3600 * SECOND))
    assert counts.sum() == 2_880_000
    assert (n_levels, len(counts)) == (8, 256)
    assert 70_000 * 0.6 < counts.max() <= 70_000 == round(MAX_SHARE * 2_880_000)


@pytest.mark.slow
def test_long_traces_come_in_parts_of_whole_mini_intervals():
    pqrs = Pqrs(rate=10_000, duration_us=64 * SECOND, bias=0.5)
    parts = [times for times, _ in pqrs_trace(1, pqrs)]
    assert len(parts) > 3
    assert sum(len(times) for times in parts) == 640_000
    assert all(earlier[-1] < later[0] for earlier, later in pairwise(parts))
    ends = [(later[0] - START_US) // SECOND for later in parts[1:]]
    assert [(earlier[-1] - START_US) // SECOND + 1 for earlier in parts[:-1]] == ends


def test_the_bias_says_how_tuples_are_spread_over_the_duration():
    for bias in (0.5, 0.8):
        times, _ = trace(Pqrs(rate=1000, duration_us=100 * SECOND, bias=bias))
        share = np.mean(times < START_US + 50 * SECOND)
        assert max(share, 1 - share) == pytest.approx(bias, abs=0.001)


def test_quarters_have_their_probabilities_at_every_level():
    pqrs = Pqrs(n_keys=1 << 8, p=0.5, q=0.1, r=0.1, s=0.3)
    moments, keys = draw_pqrs(3, pqrs, 200_000)
    for level in range(1, 5):
        second = (moments * 2**level).astype(np.int64) % 2
        upper = keys >> (8 - level) & 1
        seen = np.bincount(2 * second + upper, minlength=4) / len(keys)
        assert seen == pytest.approx([0.5, 0.1, 0.1, 0.3], abs=0.005)


def test_streams_are_likely_to_have_the_same_keys_at_the_same_time():
    """Within a mini-interval, time and key go together if p and s outweigh q and r."""
    moments, keys = draw_pqrs(3, Pqrs(p=0.5, q=0.0, r=0.0, s=0.5), 50_000)
    assert np.corrcoef(moments, keys)[0, 1] > 0.99
    moments, keys = draw_pqrs(3, Pqrs(p=0.25, q=0.25, r=0.25, s=0.25), 50_000)
    assert np.corrcoef(moments, keys)[0, 1] == pytest.approx(0, abs=0.02)


@pytest.mark.parametrize("options", [{"p": 0.9}, {"p": -0.1, "s": 0.8}, {"bias": 1.0}, {"n_keys": 0}, {"rate": 0}])
def test_mistakes_have_reasons(options):
    with pytest.raises(PlanError, match="but must be"):
        Pqrs(**options)
