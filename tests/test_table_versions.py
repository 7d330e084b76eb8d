"""What a query looks rows up in is pinned: going on with another content is refused by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.errors import SourceError
from sash.plan.physical import Plan
from sash.runtime.job import Job
from sash.runtime.script import bind_script
from sash.runtime.table_versions import version_of
from sash.spark.checkpoint import Checkpoint
from sash.spark.group import Group
from sash.testing import assert_changes

TEXT = "SELECT A.v, R.name FROM a A [RANGE 3 SECONDS], r R WHERE A.k = R.k"
ROWS = pa.table({"k": [1, 2, 1], "v": [10, 20, 30], "ts": pa.array([0, 1_000_000, 2_000_000], pa.timestamp("us"))})
NAMES = pa.table({"k": [1, 2], "name": ["one", "two"]})
OTHERS = pa.table({"k": [1, 2], "name": ["one", "too"]})
VALUES = st.lists(
    st.tuples(st.none() | st.integers(0, 2), st.none() | st.sampled_from("abc"), st.none() | st.just([1]))
)


def as_table(rows: list[tuple[int | None, str | None, list[int] | None]]) -> pa.Table:
    columns = list(zip(*rows)) or [(), (), ()]
    return pa.table(dict(zip("kst", map(pa.array, columns, (pa.int64(), pa.string(), pa.list_(pa.int64()))))))


@given(VALUES, VALUES, st.randoms())
def test_tables_have_the_same_version_iff_they_hold_the_same_rows(one, other, chance):
    shuffled = chance.sample(one, len(one))
    assert version_of(as_table(one)) == version_of(as_table(shuffled))
    is_same = sorted(map(repr, one)) == sorted(map(repr, other))
    assert (version_of(as_table(one)) == version_of(as_table(other))) == is_same


def test_what_is_under_a_null_does_not_matter():
    hidden = [
        pa.Array.from_buffers(pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array(each).buffers()[1]])
        for each in ([1, 5], [1, 9])
    ]
    assert len({version_of(pa.table({"k": each})) for each in hidden}) == 1


def make_query(names: pa.Table, text: str = TEXT) -> sash.Query:
    return sash.query(text, a=sash.stream(ROWS.schema), r=sash.relation(names))


def test_a_snapshot_is_not_restored_beside_another_table():
    taken = make_query(NAMES)
    taken.push("a", ROWS.slice(0, 2))
    reason = (
        r"^table `r` has changed since the query began: it had 2 rows, \w{12}; it has 2 rows, \w{12}; put back what it "
        r"held, or begin anew$"
    )
    with pytest.raises(SourceError, match=reason):
        make_query(OTHERS).restore(taken.snapshot())


def test_rows_of_a_table_may_come_in_another_order():
    """What is taken back after a restart was numbered before it."""
    named = "SELECT A.v, R.name FROM a A [ROWS 1], r R WHERE A.k = R.k"
    text = f"SELECT * FROM ({named}) X, (SELECT k FROM a B [RANGE 1 HOUR]) Y"
    expected = sash.sql(text, a=sash.stream(ROWS, time="ts"), r=sash.relation(NAMES))
    first = make_query(NAMES, text)
    parts = [first.push("a", ROWS.slice(0, 2))]
    second = make_query(NAMES.take(pa.array([1, 0])), text)
    second.restore(first.snapshot())
    parts += [second.push("a", ROWS.slice(2)), second.finish()]
    assert_changes(pa.concat_tables(parts), expected)


def test_a_group_does_not_go_on_beside_another_table():
    plan = Plan.alone(make_query(NAMES).plan)
    before, after = (
        Group(plan, plan.fragment_pipeline(0, {"r": each}), 0, 0, 1, {"r": version_of(each)})
        for each in (NAMES, OTHERS)
    )
    assert before.goes_on(before.head())
    assert not after.goes_on(before.head())
    with pytest.raises(
        SourceError, match=r"table `r` has changed .* or give the query a checkpoint directory of its own"
    ):
        after.restore(before.head(), {})


def test_a_checkpoint_pins_what_its_query_looks_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A table that the query does not read may change."""
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    for name in ("r", "unread"):
        Path(f"{name}.csv").write_text("k,name\n1,one\n2,two\n")
    tables = [f"CREATE TABLE {name} (k INT, name VARCHAR) FROM '{name}.csv' FORMAT csv;" for name in ("r", "unread")]
    stream = "CREATE STREAM a (k INT, v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;"
    script = bind_script("\n".join([stream, *tables, f"CREATE QUERY named AS {TEXT} INTO 'out' FORMAT csv;"]))

    def check() -> None:
        job = Job.alone(*script.runs())
        Checkpoint(job.checkpoint).check_before_start(job)

    job = Job.alone(*script.runs())
    Checkpoint(job.checkpoint).open(job, 1)
    Path("unread.csv").write_text("k,name\n")
    Path("r.csv").write_text("name,k\ntwo,2\none,1\n")
    check()
    Path("r.csv").write_text("k,name\n1,one\n")
    reason = r"table `r` has changed .*: it had 2 rows, \w+; it has 1 row, \w+; put back .*, or run with --fresh"
    with pytest.raises(SourceError, match=reason):
        check()
