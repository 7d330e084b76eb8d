"""Keys follow their law, and the join workload draws what it always drew."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest

from sash.errors import PlanError
from sash.lab.workloads.arrow_columns import read_times
from sash.lab.workloads.join_streams import JoinWorkload
from sash.lab.workloads.key_choice import bmodel_keys, even_keys, parse_skew, zipf_keys
from sash.lab.workloads.retail import Retail, sales

N_ROWS = 200_000


@pytest.mark.parametrize("n_keys", [1, 2, 7, 1000])
@pytest.mark.parametrize("skew", ["none", "zipf", "zipf:1.5", "bmodel", "bmodel:0.9"])
def test_keys_are_in_their_domain_and_follow_from_the_seed(skew, n_keys):
    draw = parse_skew(skew)
    keys = draw(5, n_keys, 20_000)
    assert keys.dtype == np.int64
    assert (keys.min(), keys.max() < n_keys) == (0, True)
    assert np.array_equal(keys, draw(np.random.default_rng(5), n_keys, 20_000))


def test_even_keys_are_equally_likely():
    assert np.bincount(even_keys(1, 10, N_ROWS)) / N_ROWS == pytest.approx(np.full(10, 0.1), rel=0.03)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 1.5])
def test_zipf_keys_have_the_frequencies_of_the_law(exponent):
    law = np.arange(1, 21) ** -exponent
    seen = np.bincount(zipf_keys(1, 20, N_ROWS, exponent), minlength=20) / N_ROWS
    assert seen == pytest.approx(law / law.sum(), rel=0.1)


@pytest.mark.parametrize("bias", [0.5, 0.7, 0.8])
def test_bmodel_keys_have_the_bias_at_every_bit(bias):
    keys = bmodel_keys(1, 1 << 10, N_ROWS, bias)
    for bit in range(10):
        assert np.mean(keys >> bit & 1 == 0) == pytest.approx(bias, abs=0.005)
    high, low = keys >> 9 & 1, keys >> 8 & 1
    assert np.corrcoef(high, low)[0, 1] == pytest.approx(0, abs=0.01)


def test_bmodel_keys_of_any_domain_reach_all_of_it():
    counts = np.bincount(bmodel_keys(1, 1000, N_ROWS, 0.6), minlength=1000)
    assert np.all(counts > 0)
    assert counts[:500].sum() / N_ROWS == pytest.approx(0.6, abs=0.01)


@pytest.mark.parametrize(
    ("skew", "digests"),
    [(0.0, ["d0c6d2a5fa45376d", "c4ae258ad820789e"]), (1.1, ["85a81894283ec8b2", "68886405ad0ba54f"])],
)
def test_the_join_workload_gives_the_rows_it_always_gave(skew, digests):
    """Benchmarks of different versions are over the same rows."""
    workload = JoinWorkload(3000, 1_000_000, skew=skew, payload="wide" if skew else "none", batch_rows=400)
    assert [_digest(pa.concat_tables(workload.generate(stream))) for stream in "ab"] == digests


def test_retail_gives_the_rows_it_always_gave():
    retail = Retail(rate=3, duration_us=150_000_000, seed=3)
    assert [_digest(sales(retail, letter)) for letter in "AB"] == ["66eaf5531066a62a", "04c3d2515c94cfed"]


def _digest(rows: pa.Table) -> str:
    """A hash of the values, by column."""
    times = rows.set_column(rows.schema.get_field_index("ts"), "ts", pa.array(read_times(rows["ts"])))
    text = "\n".join(str([str(value) for value in times[name].to_pylist()]) for name in times.column_names)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("zpif:1", "`skew` is `zpif:1`, but there is no `zpif`; did you mean `zipf`?"),
        ("none:1", "`skew` is `none:1`, but `none` takes no number; leave `:1` out"),
        ("zipf:-1", "`exponent` is -1.0, but must be 0 or more"),
        ("bmodel:2", "`bias` is 2.0, but must be at least 0.5"),
    ],
)
def test_mistakes_have_reasons(text, reason):
    with pytest.raises(PlanError) as raised:
        parse_skew(text)
    assert str(raised.value).startswith(reason)
