"""Tables that are read as of arrival: a row of a stream meets the version of the batch that it comes in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.embedded.running_job import RunningJob
from sash.errors import BindError, PlanError
from sash.io.table_version import Gather, KnownVersion, TableVersion, gather_in_memory
from sash.plan.physical import Plan
from sash.plan.planner import plan_query
from sash.runtime.arrival_rows import forget_before, meet_version, rows_seen_by, without_rows
from sash.runtime.arrival_tables import ArrivalSource, ArrivalTables
from sash.sql.bind import bind
from sash.sql.catalog import RelationInfo, StreamInfo
from sash.sql.parse import parse_query
from support.profiles import volume

ROWS = pa.schema([("k", pa.int64()), ("price", pa.float64())])
VALUES = st.tuples(st.none() | st.integers(0, 2), st.sampled_from([0.0, -0.0, 1.5, float("nan")]) | st.none())
VERSIONS = st.lists(st.lists(VALUES, max_size=5), max_size=6)


def table(rows: list[tuple]) -> pa.Table:
    columns = list(zip(*rows)) or [(), ()]
    return pa.table([pa.array(list(each), field.type) for each, field in zip(columns, ROWS)], schema=ROWS)


def counted(rows: pa.Table) -> Counter:
    return Counter(map(repr, rows.to_pylist()))


@given(VERSIONS)
def test_every_batch_sees_its_version(versions):
    held = without_rows(ROWS)
    for batch, rows in enumerate(versions):
        held = meet_version(held, table(rows), batch)
    for batch, rows in enumerate(versions):
        assert counted(rows_seen_by(held, batch)) == counted(table(rows))
    oldest = len(versions) // 2
    for batch in range(oldest, len(versions)):
        assert counted(rows_seen_by(forget_before(held, oldest), batch)) == counted(table(versions[batch]))


def test_what_stays_keeps_its_number():
    held = meet_version(without_rows(ROWS), table([(1, 1.0), (2, 2.0)]), 0)
    held = meet_version(held, table([(3, 3.0), (2, 2.0)]), 1)
    assert sorted(zip(held["k"].to_pylist(), held["_seen_id"].to_pylist(), held["_seen_until"].to_pylist())) == [
        (1, 0, 1),
        (2, 1, None),
        (3, 2, None),
    ]


class Changing:
    """A table that has another content at every poll."""

    path = None
    no_versions = None

    def __init__(self, versions: list[pa.Table]):
        self.versions = versions
        self.n_polled = 0

    def read(self, name: str) -> pa.Table:
        return self.versions[0]

    def poll(self, name: str, known: KnownVersion | None, gather: Gather = gather_in_memory) -> TableVersion:
        number = min(self.n_polled, len(self.versions) - 1)
        self.n_polled += 1
        version = f"version {number}"
        return TableVersion(version, None if known and version == known.name else self.versions[number])


STREAM = StreamInfo(pa.schema([("k", pa.int64()), ("n", pa.int64()), ("ts", pa.int64())]), "ts", slack_us=3, tie=("n",))
CATALOG = {"s": STREAM, "b": STREAM, "r": RelationInfo(ROWS, no_versions=None)}
TEXTS = {
    "inner": "SELECT S.n, R.price FROM s S [RANGE 4 MICROSECONDS] JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON R.k = S.k",
    "left": "SELECT S.n, R.price FROM s S [RANGE 4 MICROSECONDS] "
    "LEFT JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON R.k = S.k",
    "no window": "SELECT S.n, R.price FROM s S JOIN r FOR SYSTEM_TIME AS OF ARRIVAL R ON R.k = S.k",
}
ARRIVALS = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 12)), max_size=4), min_size=1, max_size=6)


def run(text: str, batches: list[list[tuple]], versions: list[list[tuple]], other: Sequence[tuple] = ()) -> pa.Table:
    """The changes of a query over batches, each beside the version of its number."""
    plan = plan_query(bind(parse_query(text), CATALOG))
    alone = Plan.alone(plan)
    source = Changing([table(rows) for rows in versions])
    job, parts, n_rows = RunningJob(alone, {}), [plan.schema.empty_table()], 0
    tables = ArrivalTables({"r": ArrivalSource("r", source, ROWS, None)}, alone, is_in_order=True, holder=job.arrived)
    for batch, rows in enumerate(batches):
        tables.enter(batch)
        job.meet(batch)
        arrived = [{"k": k, "n": n_rows + place, "ts": ts} for place, (k, ts) in enumerate(rows)]
        n_rows += len(rows)
        parts += [changes for _, changes in job.push("s", pa.Table.from_pylist(arrived, STREAM.schema))]
        if "b" in plan.streams and batch == 0:
            rows_b = [{"k": k, "n": n, "ts": ts} for n, (k, ts) in enumerate(other)]
            parts += [changes for _, changes in job.push("b", pa.Table.from_pylist(rows_b, STREAM.schema))]
        tables.leave(batch, job.intake.clock, job.intake.newest_us)
    parts += [changes for _, changes in job.finish()]
    assert sum(map(len, job.intake.late.get("s", []))) == 0
    return pa.concat_tables(parts)


def sorted_times(batches: list[list[tuple]]) -> list[list[tuple]]:
    """The same rows with times that are never late."""
    newest, found = 0, []
    for rows in batches:
        kept = []
        for k, step in rows:
            newest = max(newest, newest + step - 3)
            kept.append((k, max(newest - (step % 3), 0)))
        found.append(kept)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", TEXTS)
@settings(max_examples=volume(dev=8, ci=20, deep=500))
@given(ARRIVALS, VERSIONS.filter(bool))
def test_a_row_meets_the_version_of_its_batch(kind, batches, versions):
    batches = sorted_times(batches)
    found = run(TEXTS[kind], batches, versions)
    expected, n = Counter(), 0
    for batch, rows in enumerate(batches):
        version = versions[min(batch, len(versions) - 1)]
        for k, _ in rows:
            partners = [price for own, price in version if own == k] or ([None] if kind == "left" else [])
            expected.update(repr((n, price)) for price in partners)
            n += 1
    assert Counter(repr((row["n"], row["price"])) for row in found.to_pylist() if row["_op"] > 0) == expected


SHAPES = {
    "group": "SELECT R.price, count(*) AS n FROM {s} JOIN {r} ON R.k = S.k GROUP BY R.price EMIT CHANGES",
    "rows": "SELECT S.n, R.price FROM s S [ROWS 2] JOIN {r} ON R.k = S.k EMIT CHANGES",
    "join above": "SELECT S.n, B.n AS m, R.price FROM s S [ROWS 2], {r}, b B [RANGE 30 MICROSECONDS] "
    "WHERE R.k = S.k AND S.k = B.k EMIT CHANGES",
    "distinct": "SELECT DISTINCT S.k, R.price FROM {s} LEFT JOIN {r} ON R.k = S.k EMIT CHANGES",
    "nta": "SELECT /*+ nta */ S.n, R.price FROM {s} JOIN {r} ON R.k = S.k EMIT CHANGES",
    "join below": "SELECT S.n, B.n AS m, R.price FROM {s}, b B [RANGE 6 MICROSECONDS], {r} "
    "WHERE R.k = S.k + B.k - B.k AND S.k = B.k EMIT CHANGES",
    "outer join below": "SELECT S.n, B.n AS m, R.price FROM {s} LEFT JOIN b B [RANGE 6 MICROSECONDS] ON S.k = B.k "
    "LEFT JOIN {r} ON R.k = S.k EMIT CHANGES",
    "in a subquery": "SELECT D.n, D.price FROM (SELECT S.n, R.price FROM {s} JOIN {r} ON R.k = S.k) D EMIT CHANGES",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", SHAPES)
@settings(max_examples=volume(dev=8, ci=12, deep=500))
@given(ARRIVALS, VERSIONS.filter(bool), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6)), max_size=3))
def test_whatever_stands_above_or_below_it_takes_back_what_it_gave(kind, batches, versions, other):
    """The same as if the version that a row meets were a column of it, in a table of all versions."""
    batches, other = sorted_times(batches), sorted(other, key=lambda row: row[1])
    text = SHAPES[kind].format(s="s S [RANGE 4 MICROSECONDS]", r="r FOR SYSTEM_TIME AS OF ARRIVAL OF S R")
    found = run(text, batches, versions, other)
    assert answers_at_all_instants(found) == answers_at_all_instants(by_hand(kind, batches, versions, other))


def by_hand(kind: str, batches: list[list[tuple]], versions: list[list[tuple]], other: list[tuple]) -> pa.Table:
    """Every row of the stream has its batch in its key, and the table has all versions."""
    moved = [[(k + 10 * batch, ts) for k, ts in rows] for batch, rows in enumerate(batches)]
    rows = [
        (k + 10 * batch, price)
        for batch in range(len(batches))
        for k, price in versions[min(batch, len(versions) - 1)]
        if k is not None
    ]
    text = SHAPES[kind].format(s="s S [RANGE 4 MICROSECONDS]", r="r R")
    text = text.replace("S.k = B.k", "S.k % 10 = B.k").replace("DISTINCT S.k", "DISTINCT S.k % 10 AS k")
    plan = plan_query(bind(parse_query(text), CATALOG))
    job, parts, n_rows = RunningJob(Plan.alone(plan), {"r": table(rows)}), [plan.schema.empty_table()], 0
    for batch, arrived in enumerate(moved):
        found = [{"k": k, "n": n_rows + place, "ts": ts} for place, (k, ts) in enumerate(arrived)]
        n_rows += len(arrived)
        parts += [changes for _, changes in job.push("s", pa.Table.from_pylist(found, STREAM.schema))]
        if "b" in plan.streams and batch == 0:
            rows_b = [{"k": k, "n": n, "ts": ts} for n, (k, ts) in enumerate(other)]
            parts += [changes for _, changes in job.push("b", pa.Table.from_pylist(rows_b, STREAM.schema))]
    parts += [changes for _, changes in job.finish()]
    return pa.concat_tables(parts)


def answers_at_all_instants(changes: pa.Table) -> list[Counter]:
    rows = [(repr(tuple(row.values())[:-3]), row["_op"], row["_ts"]) for row in changes.to_pylist()]
    answers = []
    for instant in range(-1, 40):
        counts: Counter = Counter()
        for row, op, ts in rows:
            counts[row] += op if ts <= instant else 0
        answers.append(+counts)
        assert not -counts
    return answers


class TestRefused:
    @pytest.mark.parametrize(
        ("items", "error", "reason"),
        [
            ("s S, p FOR SYSTEM_TIME AS OF ARRIVAL P", PlanError, "`p` cannot be read as of arrival: it is a frame"),
            (
                "s S, b FOR SYSTEM_TIME AS OF ARRIVAL B",
                BindError,
                "`B` is no table, and only tables are read as",
            ),
            ("s S, b B, r FOR SYSTEM_TIME AS OF ARRIVAL R", BindError, "write `ARRIVAL OF S` or `ARRIVAL OF B`"),
            ("s S, r FOR SYSTEM_TIME AS OF ARRIVAL OF X R", BindError, "write `ARRIVAL OF S`"),
            (
                "a A, r FOR SYSTEM_TIME AS OF ARRIVAL R",
                BindError,
                "has a column `arrival`, too; write `ARRIVAL OF A`",
            ),
            ("s S, h FOR SYSTEM_TIME AS OF ARRIVAL H", BindError, "has a column `_seen_from`, whose name Sash gives"),
        ],
    )
    def test_at_binding(self, items, error, reason):
        others = {
            "p": RelationInfo(ROWS),
            "a": StreamInfo(pa.schema([("arrival", pa.int64())]), "arrival"),
            "h": RelationInfo(pa.schema([("_seen_from", pa.int64())]), no_versions=None),
        }
        with pytest.raises(error, match=reason):
            bind(parse_query(f"SELECT 1 AS one FROM {items} WINDOW 5 SECONDS"), CATALOG | others)

    def test_what_is_hidden_has_no_name(self):
        with pytest.raises(BindError, match="`S` has no column `_arrival`"):
            bind(parse_query(TEXTS["inner"].replace("S.n", "S._arrival")), CATALOG)
        bound = bind(parse_query(TEXTS["inner"].replace("S.n, R.price", "*")), CATALOG)
        assert [output.name for output in bound.outputs] == ["k", "n", "ts", "k_1", "price"]

    def test_a_column_of_that_name_is_still_a_time(self):
        info = StreamInfo(pa.schema([("arrival", pa.int64())]), "arrival")
        text = "SELECT 1 AS one FROM a A, r FOR SYSTEM_TIME AS OF ARRIVAL OF A R"
        assert bind(parse_query(text), CATALOG | {"a": info})
        with pytest.raises(BindError, match="nothing says when rows of `r` are valid"):
            bind(parse_query(text.replace("ARRIVAL OF A", "A.arrival")), CATALOG | {"a": info})
