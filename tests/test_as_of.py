"""Tables whose rows have a time of validity, read as of the time of a stream."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sash
from sash.embedded.run_to_end import run_files
from sash.errors import BindError, SourceError
from sash.io.sink import read_sink
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script
from sash.testing import assert_changes

NOON = datetime(2026, 1, 1, 12)
TEXT = "SELECT S.k, P.price, S.ts FROM s S [RANGE 3 SECONDS] JOIN p FOR SYSTEM_TIME AS OF S.ts AS P ON P.k = S.k"
BY_HAND = """
    SELECT S.k, P.price, S.ts FROM s S [RANGE 3 SECONDS] JOIN p P ON P.k = S.k
    WHERE (P.since IS NULL OR P.since <= S.ts) AND (P.until IS NULL OR S.ts < P.until)
"""
SCRIPT = """
CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 's' FORMAT csv;
CREATE TABLE p (k INT, price INT, since TIMESTAMP, until TIMESTAMP) VALID FROM since TO until FROM 'p.csv' FORMAT csv;
CREATE QUERY q AS
  SELECT S.k, P.price FROM s S [RANGE 3 SECONDS] JOIN p FOR SYSTEM_TIME AS OF S.ts AS P ON P.k = S.k
  INTO '{out}' FORMAT csv;
"""
TIMES = {
    "timestamps": (pa.timestamp("us"), pa.timestamp("us")),
    "zones": (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC")),
    "a zone": (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    "nanoseconds": (pa.timestamp("ns"), pa.timestamp("ns")),
    "integers": (pa.int64(), pa.int64()),
    "dates": (pa.timestamp("us"), pa.date32()),
}
SECONDS = st.integers(0, 8)
STREAM = st.lists(st.tuples(st.integers(1, 2), SECONDS), max_size=8)
ROWS = st.lists(
    st.tuples(st.none() | st.integers(1, 2), st.integers(0, 9), st.none() | SECONDS, st.none() | SECONDS), max_size=8
)


def times(seconds: list[int | None], dtype: pa.DataType) -> pa.Array:
    step = 86_400_000_000 if pa.types.is_date(dtype) else 1_000_000
    known = pa.array([None if each is None else each * step for each in seconds], pa.int64())
    return known if pa.types.is_int64(dtype) else known.cast(pa.timestamp("us")).cast(dtype)


def frames(stream: list[tuple], rows: list[tuple], dtypes: tuple[pa.DataType, pa.DataType]) -> dict:
    keys, seconds = (list(column) for column in (list(zip(*stream)) or [(), ()]))
    own, prices, since, until = (list(column) for column in (list(zip(*rows)) or [(), (), (), ()]))
    bounds = {"since": times(since, dtypes[1]), "until": times(until, dtypes[1])}
    prices = pa.table({"k": pa.array(own, pa.int64()), "price": pa.array(prices, pa.int64()), **bounds})
    arrivals = pa.table({"k": pa.array(keys, pa.int64()), "ts": times(seconds, dtypes[0])})
    return {"s": sash.stream(arrivals, time="ts"), "p": sash.relation(prices, "since", "until")}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TIMES)
@given(STREAM, ROWS)
def test_it_is_a_range_join(kind, stream, rows):
    given_ = frames(stream, rows, TIMES[kind])
    assert_changes(sash.sql(TEXT, **given_), sash.sql(BY_HAND, **given_))
    assert sash.verify(TEXT, None, **given_)


@pytest.mark.slow
@pytest.mark.parametrize("hint", ["", "/*+ partitioned_hash */", "/*+ mesh */"])
@pytest.mark.parametrize("kind", ["LEFT", "SEMI", "ANTI"])
@pytest.mark.parametrize("period", [" FOR SYSTEM_TIME AS OF S.ts", ""])
@given(STREAM, ROWS)
def test_outer_joins_look_for_valid_rows_alone(hint, kind, period, stream, rows):
    shown = ", P.price" if kind == "LEFT" else ""
    text = f"SELECT {hint} S.k{shown}, S.ts FROM s S [RANGE 3 SECONDS] {kind} JOIN p{period} P ON P.k = S.k"
    given_ = frames(stream, rows, TIMES["timestamps"])
    assert sash.verify(text, None, **given_)
    if period:
        valid = "(P.since IS NULL OR P.since <= S.ts) AND (P.until IS NULL OR S.ts < P.until)"
        by_hand = f"{text.replace(period, '')} AND {valid}"
        assert_changes(sash.sql(text, **given_), sash.sql(by_hand, **given_))
        said = " ".join(sash.explain(text, **given_).split())
        assert "LookupJoin S.k = P.k and P.since <= S.ts < P.until" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    "items",
    [
        "p FOR SYSTEM_TIME AS OF S.ts P RIGHT JOIN s S [RANGE 3 SECONDS] ON P.k = S.k",
        "s S [RANGE 3 SECONDS] LEFT JOIN p FOR SYSTEM_TIME AS OF S.ts P ON P.k = S.k AND P.price > 4 "
        "LEFT JOIN p FOR SYSTEM_TIME AS OF S.ts Q ON Q.k = P.k",
        "s S [RANGE 3 SECONDS] JOIN p FOR SYSTEM_TIME AS OF S.ts P ON P.k = S.k LEFT JOIN s B [ROWS 2] ON S.k = B.k",
        "s S [RANGE 3 SECONDS] LEFT JOIN (s B [ROWS 2] JOIN p FOR SYSTEM_TIME AS OF B.ts P ON B.k = P.k) ON S.k = P.k",
        "s B [ROWS 2] LEFT JOIN s S [RANGE 3 SECONDS] ON S.k < B.k "
        "LEFT JOIN p FOR SYSTEM_TIME AS OF S.ts P ON P.k = B.k",
        "p FOR SYSTEM_TIME AS OF S.ts P, s S [RANGE 3 SECONDS] LEFT JOIN s B [ROWS 2] ON S.k = B.k",
    ],
)
@given(STREAM, ROWS)
def test_the_join_in_which_a_period_stands_asks_for_it(items, stream, rows):
    given_ = frames(stream, rows, TIMES["timestamps"])
    assert sash.verify(f"SELECT S.k, P.price, S.ts FROM {items}", None, **given_)


@given(STREAM, ROWS)
def test_using_finds_the_columns_before_it(stream, rows):
    given_ = frames(stream, rows, TIMES["timestamps"])
    using = TEXT.replace("ON P.k = S.k", "USING (k)")
    assert_changes(sash.sql(using, **given_), sash.sql(TEXT, **given_))


def test_explain_says_it():
    given_ = frames([(1, 1)], [(1, 5, 0, 9)], TIMES["timestamps"])
    assert "LookupJoin S.k = P.k and P.since <= S.ts < P.until" in " ".join(sash.explain(TEXT, **given_).split())
    said = sash.explain(TEXT, verbose=True, **given_)
    assert "as of      P.since <= S.ts < P.until, where a NULL is no bound" in said
    assert "binary search among the rows of each key by P.since" in said


def test_times_that_are_compared_as_they_are():
    """Dates are not cut to microseconds: the condition stays as it is written."""
    given_ = frames([(1, 1)], [(1, 5, 0, 9)], TIMES["dates"])
    said = sash.explain(TEXT, verbose=True, **given_)
    assert "residual   ((P.since IS NULL OR P.since <= S.ts)) AND ((P.until IS NULL OR S.ts < P.until))" in said


def test_a_session_and_a_query_that_is_fed():
    given_ = frames([(1, 1), (1, 5)], [(1, 5, 0, 4), (1, 6, 4, None)], TIMES["timestamps"])
    expected = sash.sql(TEXT, **given_)
    assert expected.column("price").to_pylist() == [5, 6]
    session = sash.Session()
    session.stream("s", given_["s"].frame, time="ts")
    session.relation("p", given_["p"].frame, valid_from="since", valid_to="until")
    session.query("q", TEXT)
    assert_changes(session.run()["q"], expected)
    fed = sash.query(TEXT, **given_)
    assert_changes(pa.concat_tables([fed.push("s", given_["s"].frame), fed.finish()]), expected)


class TestDeclarations:
    def test_both_columns_or_none(self):
        with pytest.raises(BindError, match="`valid_from` and `valid_to` go together; name both columns, or neither"):
            sash.relation(pa.table({"since": [1]}), valid_from="since")

    def test_columns_that_are_not_there_or_no_times(self):
        table = pa.table({"since": [1], "until": ["x"]})
        stream = sash.stream(pa.table({"ts": [1]}), time="ts")
        with pytest.raises(BindError, match="relation `p` has no column `sinc`; did you mean `since`"):
            sash.sql("SELECT ts FROM s", s=stream, p=sash.relation(table, "sinc", "until"))
        with pytest.raises(BindError, match="`until` of relation `p` is no time but string; make it a timestamp"):
            sash.sql("SELECT ts FROM s", s=stream, p=sash.relation(table, "since", "until"))

    def test_times_that_cannot_be_compared(self):
        given_ = frames([(1, 1)], [(1, 5, 0, 9)], (pa.timestamp("us"), pa.int64()))
        with pytest.raises(BindError, match=r"TIMESTAMP(.|\n)*AS OF S.ts"):
            sash.sql(TEXT, **given_)


KEYED = """
CREATE STREAM s (k INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 's' FORMAT parquet;
CREATE TABLE p (k INT, price INT, since TIMESTAMP) VALID FROM since KEY (k) FROM 'p.parquet' FORMAT parquet;
CREATE QUERY q AS
  SELECT S.k, P.price, P.valid_to FROM s S [RANGE 3 SECONDS] JOIN p FOR SYSTEM_TIME AS OF S.ts AS P ON P.k = S.k
  INTO 'out' FORMAT parquet;
"""
VERSIONS = st.dictionaries(st.tuples(st.none() | st.integers(1, 2), st.none() | SECONDS), st.integers(0, 9), max_size=8)


class TestKeys:
    """A row is valid until the next one of its key begins."""

    @given(STREAM, VERSIONS, st.randoms())
    def test_the_newest_row_that_is_not_after_the_tuple(self, tmp_path_factory, stream, versions, chance):
        place = tmp_path_factory.mktemp("keyed")
        rows = [(key, price, since, None) for (key, since), price in versions.items()]
        chance.shuffle(rows)
        given_ = frames(stream, rows, TIMES["timestamps"])
        (place / "s").mkdir()
        pq.write_table(_as_declared(given_["s"].frame.sort_by("ts")), place / "s" / "1.parquet")
        pq.write_table(_as_declared(given_["p"].frame.drop_columns(["until"])), place / "p.parquet")
        script = KEYED.replace("FROM 's'", f"FROM '{place}/s'").replace("'p.parquet'", f"'{place}/p.parquet'")
        (run,) = bind_script(script.replace("INTO 'out'", f"INTO '{place}/out'")).runs()
        run_files(Job.alone(run), lambda name, tally: None)
        expected = []
        for key, second in stream:
            valid = [(-1 if since is None else since, price) for (own, since), price in versions.items() if own == key]
            expected += [(key, price) for _, price in sorted(each for each in valid if each[0] <= second)[-1:]]
        assert sorted(row[:2] for row in rows_of(run)) == sorted(expected)

    def test_rows_that_begin_at_once(self, place):
        Path("p.csv").write_text(f"k,price,since\n1,5,{NOON}\n2,6,{NOON}\n1,7,{NOON}\n")
        script = bind_script(KEYED.replace("'p.parquet' FORMAT parquet", "'p.csv' FORMAT csv"))
        with pytest.raises(SourceError) as raised:
            script.relations()
        assert str(raised.value) == (
            "table `p`: two rows of k = 1 begin at 2026-01-01 12:00:00, and neither comes after the other; keep one of "
            "them, or declare until when each is valid (`VALID FROM … TO …`)"
        )

    def test_the_column_is_seen(self, place):
        Path("p.csv").write_text(f"k,price,since\n1,5,{NOON}\n1,7,\n")
        script = bind_script(KEYED.replace("'p.parquet' FORMAT parquet", "'p.csv' FORMAT csv"))
        assert script.relations()["p"].column("valid_to").to_pylist() == [None, NOON]


def _as_declared(table: pa.Table) -> pa.Table:
    fields = [(field.name, pa.int32() if field.type == pa.int64() else field.type) for field in table.schema]
    return table.cast(pa.schema(fields))


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("s").mkdir()
    rows = [f"{number % 2},{NOON + timedelta(seconds=number)}" for number in range(8)]
    for number in range(2):
        Path(f"s/{number}.csv").write_text("\n".join(["k,ts", *rows[4 * number : 4 * number + 4], ""]))
    prices = [f"0,10,,{NOON + timedelta(seconds=3)}", f"0,11,{NOON + timedelta(seconds=3)},", f"1,20,{NOON},{NOON}"]
    Path("p.csv").write_text("\n".join(["k,price,since,until", *prices, ""]))
    return tmp_path


def run_of(out: str) -> QueryRun:
    (run,) = bind_script(SCRIPT.format(out=out)).runs()
    return run


def rows_of(run: QueryRun) -> list[tuple]:
    return sorted((tuple(row.values()) for row in read_sink(run.sink, run.plan.schema).to_pylist()), key=repr)


def test_scripts(place):
    run = run_of("out")
    run_files(Job.alone(run), lambda name, tally: None)
    assert [(k, price) for k, price, *_ in rows_of(run)] == [(0, 10), (0, 10), (0, 11), (0, 11)]


def test_on_spark(place, spark):
    from sash.spark.spark_run import run_on_spark

    expected, run = run_of("embedded"), run_of("spark")
    run_files(Job.alone(expected), lambda name, tally: None)
    run_on_spark([Job.alone(run)], spark, lambda name, tally: None, 1)
    assert rows_of(run) == rows_of(expected)
