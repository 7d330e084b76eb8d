"""What `sash.sql` takes in this process, and what it refuses."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, cast

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import sash

QUERY = "SELECT A.k, A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 MICROSECONDS"
A = {"k": [1, 2, 1], "v": ["p", "q", "r"], "ts": [0, 3, 4]}
B = {"k": [1, 1], "v": ["s", "t"], "ts": [2, 8]}


def table(columns: dict) -> pa.Table:
    return pa.table(columns | {"ts": pa.array(columns["ts"], pa.timestamp("us"))})


FRAMES = {
    "arrow": table,
    "record batch": lambda columns: table(columns).to_batches()[0],
    "pandas": lambda columns: table(columns).to_pandas(),
    "polars": lambda columns: pl.from_arrow(table(columns)),
    "lazy polars": lambda columns: cast(pl.DataFrame, pl.from_arrow(table(columns))).lazy(),
    "dictionaries": lambda columns: table(columns | {"v": pa.array(columns["v"]).dictionary_encode()}),
    "pandas by time": lambda columns: table(columns).to_pandas().set_index("ts"),
    "nanoseconds": lambda columns: table(columns).to_pandas().astype({"ts": "datetime64[ns]"}),
}


@pytest.mark.parametrize("kind", ["arrow", "pandas", "polars"])
def test_a_column_may_have_any_name(kind: str) -> None:
    """Also one that an attribute of ours has."""
    rows = FRAMES[kind]({"frame": [1, 2], "time": [3, 4], "ts": [0, 1]})
    for given in (rows, sash.stream(rows, time="ts")):
        changes = sash.sql("SELECT frame, time FROM s", s=given)
        assert [(row["frame"], row["time"]) for row in changes.to_pylist()] == [(1, 3), (2, 4)]
    assert sash.query("SELECT frame FROM s", s=rows).plan.schema.names[0] == "frame"


@pytest.mark.parametrize("kind", FRAMES)
def test_every_kind_of_frame_gives_the_same_changes(kind):
    changes = sash.sql(QUERY, a=FRAMES[kind](A), b=FRAMES[kind](B))
    pairs = [(row["v"], row["w"], row["_ts"].microsecond, row["_expires"].microsecond) for row in changes.to_pylist()]
    assert pairs == [("p", "s", 2, 5), ("r", "s", 4, 7), ("r", "t", 8, 9)]


def test_integers_tell_time_when_named():
    changes = sash.sql(QUERY, a=sash.stream(pa.table(A), time="ts"), b=sash.stream(pa.table(B), time="ts"))
    assert changes.column("_ts").to_pylist() == [2, 4, 8]


def test_a_recording_may_be_in_any_order_but_a_declared_slack_counts():
    disordered = table({name: [values[i] for i in (2, 0, 1)] for name, values in A.items()})
    assert sash.sql(QUERY, a=disordered, b=table(B)).num_rows == 3
    with pytest.warns(sash.SashWarning, match="1 of 3 rows of stream `a` came later than its slack allows"):
        late = sash.sql(QUERY, a=sash.stream(disordered, slack="1 microsecond"), b=table(B))
    assert late.num_rows == 2


@pytest.mark.slow
def test_spark_is_not_started_for_frames_of_this_process():
    program = "import sash, sys; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


MISTAKES = {
    "`a` is a builtins.set": {"a": {1}, "b": table(B)},
    "row 0 of `a` is a int; give a dictionary for each row": {"a": [1], "b": table(B)},
    "row 1 of stream `a` has no time": {"a": table(A | {"ts": [0, None, 1]}), "b": table(B)},
    "row 0 of stream `a` has no time: `ts` is -9223372036854775808, the least of all 64-bit integers": {
        "a": sash.stream(pa.table({"k": [1], "v": ["x"], "ts": [-(2**63)]}), time="ts"),
        "b": table(B),
    },
    "which column of stream `a` is its time? it has 2 timestamp columns": {
        "a": table(A).append_column("at", table(A).column("ts")),
        "b": table(B),
    },
    "stream `a` has no time column `tz`; there is `k`, `ts`, `v`": {
        "a": sash.stream(table(A), time="tz"),
        "b": table(B),
    },
    "column `v` of stream `a` is string": {"a": sash.stream(table(A), time="v"), "b": table(B)},
    "stream `a` has no column `w` to break ties": {"a": sash.stream(table(A), tie="w"), "b": table(B)},
    "does not fit into microseconds": {
        "a": pd.DataFrame(A | {"ts": pd.to_datetime([0, 1, 1500], unit="ns")}),
        "b": table(B),
    },
}


@pytest.mark.parametrize("reason", MISTAKES)
def test_a_frame_that_cannot_be_a_stream_is_refused(reason):
    with pytest.raises(sash.SashError) as failure:
        sash.sql(QUERY, **MISTAKES[reason])
    assert reason in str(failure.value)


def test_a_query_is_fed_batch_by_batch():
    query = sash.query(QUERY, a=table(A).schema, b=table(B).schema)
    assert query.push("a", table(A).slice(0, 2)).num_rows == 0
    assert query.push("B", table(B).slice(0, 1)).num_rows == 0
    assert query.push("b", table(B).slice(1)).num_rows == 1
    assert query.push("a", table(A).slice(2)).num_rows == 0
    assert [row["v"] for row in query.finish().to_pylist()] == ["r", "r"]
    with pytest.raises(sash.BindError, match="the query reads no stream `c`"):
        query.push("c", table(B))
    with pytest.raises(sash.SourceError, match="a batch of `a` lacks the column `ts`"):
        query.push("a", table(A).select(["k", "v"]))


def test_a_row_without_a_time_is_rejected_and_the_first_instants_are_times():
    query = sash.query("SELECT v FROM a", a=sash.stream(pa.schema({"v": pa.int64(), "ts": pa.int64()}), time="ts"))
    timeless = pa.table({"v": [1, 2], "ts": pa.array([None, -(2**63)], pa.int64())})
    with pytest.warns(sash.SashWarning, match="2 rows of stream `a` were rejected; the first: `ts` is NULL"):
        query.push("a", timeless)
    assert query.n_rejected == {"a": 2}
    changes = query.push("a", pa.table({"v": [1, 2], "ts": [-(2**63) + 1, -(2**63) + 2]}))
    assert pa.concat_tables([changes, query.finish()])["v"].to_pylist() == [1, 2]


def test_an_array_is_no_limit():
    with pytest.raises(sash.BindError, match=r"`ahead` is array.*, which does not say of which unit"):
        sash.stream(table(A), ahead=cast(Any, np.array([1, 2])))


def test_a_schema_is_enough_to_explain():
    assert "WindowJoin" in sash.explain(QUERY, a=table(A).schema, b=table(B).schema)


def test_an_alias_that_stands_for_identities_is_refused():
    with pytest.raises(sash.BindError, match="the alias `_id` is one that Sash uses itself"):
        sash.sql("SELECT _id.v FROM a _id [ROWS 2]", a=table(A))


def test_the_last_representable_instants_do_not_wrap():
    last = 2**63 - 3
    rows = sash.stream(pa.table({"v": [1, 2], "ts": [last - 1, last]}), time="ts")
    changes = sash.sql("SELECT A.v, B.v AS w FROM s A, s B WHERE A.v < B.v WINDOW 5 MICROSECONDS", s=rows)
    assert changes.to_pylist() == [{"v": 1, "w": 2, "_op": 1, "_ts": last, "_expires": None}]


def test_times_in_an_index_without_a_name_are_pointed_out():
    times = pd.DataFrame({"v": [1]}, index=pd.to_datetime(["2026-01-01"]))
    with pytest.raises(sash.BindError, match=r"give its index a name, as in `s\.rename_axis\('ts'\)`"):
        sash.sql("SELECT v FROM s [ROWS 1]", s=times)
    with pytest.raises(sash.BindError, match="give its index a name"):
        sash.sql("SELECT v FROM s [ROWS 1]", s=sash.stream(times))
    assert sash.sql("SELECT v FROM s [ROWS 1]", s=times.rename_axis("ts")).num_rows == 1


def test_two_frames_of_one_name_are_refused():
    with pytest.raises(sash.BindError, match="`a` and `A` are one name to SQL; rename one"):
        sash.sql(QUERY, a=table(A), A=table(B), b=table(B))
    with pytest.raises(sash.BindError, match="`a` and `A` are one name to SQL; rename one"):
        sash.query(QUERY, a=table(A), A=table(B), b=table(B))


def test_bytes_of_one_length_are_bytes():
    rows = table({"k": pa.array([b"ab", b"cd", None], pa.binary(2)), "ts": [0, 1, 2]})
    text = "SELECT x.k, y.k AS other FROM a x LEFT JOIN a y ON x.k = y.k AND x.ts < y.ts WINDOW 5 MICROSECONDS"
    assert sash.sql(text, a=rows).column("k").to_pylist() == [b"ab", b"cd", None]
    assert sash.verify(text, a=rows)


def test_a_query_that_is_no_text_is_refused():
    with pytest.raises(sash.SashError, match="the query is a NoneType; give its text"):
        sash.sql(cast(Any, None))


class TestVariables:
    """Tables that a query names and that are not passed."""

    @pytest.mark.parametrize("kind", FRAMES)
    def test_they_are_the_caller_s_variables(self, kind):
        a, b = FRAMES[kind](A), FRAMES[kind](B)
        assert sash.sql(QUERY).num_rows == 3
        assert sash.explain(QUERY) == sash.explain(QUERY, a=a, b=b)

    def test_declared_ones_and_those_of_a_module_too(self):
        a = sash.stream(pa.table(A), time="ts")
        variables = {"sash": sash, "a": a, "b": sash.stream(pa.table(B), time="ts"), "text": QUERY}
        exec("def ask():\n    return sash.sql(text).num_rows\nn_rows = ask()", variables)
        assert variables["n_rows"] == 3

    def test_what_is_passed_goes_first(self):
        a, b = table(A), table(B)
        assert sash.sql(QUERY, a=a.slice(0, 0)).num_rows == 0
        assert sash.sql(QUERY, A=a.slice(0, 0), b=b).num_rows == 0

    def test_a_local_one_hides_that_of_the_module(self):
        variables = {"sash": sash, "a": table(A), "b": table(B), "text": QUERY, "empty": table(A).slice(0, 0)}
        exec("def ask():\n    a = empty\n    return sash.sql(text).num_rows\nn_rows = ask()", variables)
        assert variables["n_rows"] == 0

    def test_only_tables_are_looked_up(self):
        k, v, w, named = [1], 5, table(A), "nothing"
        a, b = table(A), table(B)
        text = f"WITH named AS (SELECT * FROM a) {QUERY.replace('a A', 'named A')}"
        assert sash.sql(text).num_rows == 3
        assert all(each is not None for each in (k, v, w, named, a, b))

    def test_what_is_no_frame_is_refused(self):
        a, b = table(A), [{"k": 1}]
        with pytest.raises(
            sash.BindError, match="the query reads `b`, and your variable of that name is no frame but a list"
        ):
            sash.sql(QUERY)
        assert len(b) == a.num_rows - 2

    def test_where_there_is_no_variable_of_that_name(self):
        a = table(A)
        with pytest.raises(sash.BindError, match="there is no stream or table `b`; there is `a`"):
            sash.sql(QUERY)
        assert a.num_rows == 3
