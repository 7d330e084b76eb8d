"""Law 5: Spark and embedded give the same changes. The input reaches Spark as streaming frames over Parquet files."""

from __future__ import annotations

import os
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.errors import SourceError
from support.generated.cases_for_spark import cases_for_spark
from support.generated.data import Table
from support.profiles import SEED, by_profile, everyday, volume

StreamingQueryException = pytest.importorskip("pyspark.errors").StreamingQueryException

SECOND = 1_000_000
N_FILES = by_profile(dev=2, ci=2, deep=3)
"""Each brings two batches, with the one that follows when the watermark has moved."""
TIMESTAMP = pa.timestamp("us", "UTC")


def readings(seed: int, n_rows: int = 60) -> pa.Table:
    """Rows in order of time with ties, keys of many types, and NULLs."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, 5, n_rows)
    gone = rng.random(n_rows) < 0.1
    return pa.table(
        {
            "k": pa.array(number, pa.int64(), mask=gone),
            "name": pa.array([f"n{value}" for value in number], pa.string(), mask=gone),
            "price": pa.array([Decimal(int(value)) / 2 for value in number], pa.decimal128(12, 2), mask=gone),
            "v": pa.array(rng.integers(0, 100, n_rows), pa.int32()),
            "tags": pa.array([[f"t{value}", None] for value in number], pa.list_(pa.string())),
            "ts": pa.array(np.sort(rng.integers(0, 40, n_rows)) * SECOND, TIMESTAMP),
        }
    )


def write_files(table: pa.Table, directory: Path, n_files: int) -> str:
    """A stream directory whose files arrive in the order of the table's rows."""
    directory.mkdir(parents=True)
    bounds = np.linspace(0, table.num_rows, n_files + 1).astype(int)
    for number, (low, high) in enumerate(pairwise(bounds)):
        path = directory / f"{number}.parquet"
        pq.write_table(table.slice(low, high - low), path)
        os.utime(path, (1000 + number, 1000 + number))
    return str(directory)


def stream_frame(spark, table: pa.Table, directory: Path, files_per_batch: int = 1, n_files: int = 3):
    path = write_files(table, directory, n_files)
    schema = spark.read.parquet(path).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", files_per_batch).parquet(path)


def run_frame(out, checkpoint: Path) -> list[tuple]:
    """All changes of a streaming frame over finished input."""
    rows: list[tuple] = []
    query = (
        out.writeStream.option("checkpointLocation", str(checkpoint))
        .foreachBatch(lambda batch, _: rows.extend(plain(batch.toArrow())))
        .start()
    )
    try:
        query.processAllAvailable()
        sash.complete(out)
        query.processAllAvailable()
    finally:
        query.stop()
    return sorted(rows, key=repr)


def plain(changes: pa.Table) -> list[tuple]:
    return [tuple(repr(value) for value in row.values()) for row in changes.to_pylist()]


QUERIES = {
    "time": "SELECT A.k, A.v, B.v AS w, A.tags FROM a A, b B WHERE A.k = B.k AND A.v > 20 WINDOW 5 SECONDS",
    "windows": "SELECT A.v, B.v AS w, B.ts FROM a A [RANGE 3 SECONDS] JOIN b B [NOW] "
    "ON A.name = B.name AND A.price = B.price",
    "theta": "SELECT A.v, B.v AS w FROM a A, b B WHERE A.v < B.v AND A.k <> B.k WINDOW 2 SECONDS",
    "rows": "SELECT A.v, B.v AS w FROM a A [ROWS 3], b B [RANGE 4 SECONDS] WHERE A.k = B.k",
    "partitioned rows": "SELECT A.k, A.v, B.v AS w FROM a A [PARTITION BY k ROWS 2], b B [PARTITION BY k ROWS 1] "
    "WHERE A.k = B.k",
    "emit changes": "SELECT A.k, A.v, B.v AS w FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS EMIT CHANGES",
    "relation": "SELECT A.v, R.label FROM a A [RANGE 5 SECONDS] JOIN r R ON A.k = R.id WHERE R.label <> 'two'",
    "left join with a relation": "SELECT A.v, R.label FROM a A [RANGE 5 SECONDS] LEFT JOIN r R ON A.k = R.id "
    "AND A.v > 20 WHERE R.label IS NULL OR R.label <> 'two'",
    "left join": "SELECT A.k, A.v, B.v AS w FROM a A [RANGE 6 SECONDS] LEFT JOIN b B [RANGE 2 SECONDS] ON A.k = B.k "
    "AND B.v > 40",
    "full join": "SELECT k, A.v, B.v AS w FROM a A FULL JOIN b B USING (k) WINDOW 2 SECONDS EMIT CHANGES",
    "left join by any condition": "SELECT A.v, B.v AS w FROM a A LEFT JOIN b B ON A.k = B.k AND A.v < B.v "
    "WINDOW 3 SECONDS",
    "asof join": "SELECT A.k, A.v, B.v AS w FROM a A [RANGE 6 SECONDS] ASOF LEFT JOIN b B [RANGE 2 SECONDS] "
    "ON A.k = B.k AND A.ts >= B.ts",
    "asof join without keys": "SELECT A.v, B.v AS w FROM a A ASOF JOIN b B ON A.ts > B.ts WINDOW 3 SECONDS "
    "EMIT CHANGES",
    "final left join": "SELECT A.k, A.v, B.v AS w FROM a A [RANGE 3 SECONDS] LEFT JOIN b B [RANGE 2 SECONDS] "
    "ON A.k = B.k AND B.v > 40 EMIT FINAL",
    "unbounded join": "SELECT A.k, A.v, B.v AS w FROM a A LEFT JOIN b B ON A.k = B.k WITH UNBOUNDED STATE",
    "unbounded distinct": "SELECT A.k, COUNT(DISTINCT A.v) AS n FROM a A GROUP BY A.k WITH UNBOUNDED STATE",
    "semi and anti join": "SELECT A.k, A.v FROM a A SEMI JOIN r R ON A.k = R.id ANTI JOIN b B ON A.k = B.k "
    "AND A.v < B.v WINDOW 3 SECONDS",
    "self-join": "SELECT X.v, Y.v AS w FROM a X, a Y WHERE X.k = Y.k AND X.v < Y.v WINDOW 3 SECONDS",
    "three streams": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND B.k = C.k WINDOW 2 SECONDS",
    "two keys": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, b C WHERE A.k = B.k AND B.v = C.v WINDOW 5 SECONDS "
    "EMIT CHANGES",
    "two keys and rows": "SELECT A.v, B.v AS w, C.name FROM a A [PARTITION BY name ROWS 2], b B [RANGE 4 SECONDS], "
    "a C [ROWS 9] WHERE A.k = B.k AND B.name = C.name",
    "global aggregate": "SELECT count(*) AS n, sum(A.price) AS total, count(DISTINCT B.name) AS names FROM a A, b B "
    "WHERE A.k = B.k WINDOW 3 SECONDS",
    "global aggregate in parts": "SELECT count(*) AS n, sum(A.price) AS total, avg(B.v) AS mean FROM a A, b B "
    "WHERE A.k = B.k HAVING count(*) > 2 WINDOW 3 SECONDS EMIT CHANGES",
    "landmark": "SELECT A.name, count(*) AS n, sum(A.price) AS total, max(A.v) AS most FROM a A [UNBOUNDED] "
    "GROUP BY A.name",
    "group by": "SELECT A.name, count(*) AS n, avg(A.v) AS mean, min(A.price) AS least, max(A.name) AS name2, "
    "median(A.v) AS middle, first(A.v) AS earliest FROM a A GROUP BY A.name HAVING count(*) > 1 WINDOW 9 SECONDS",
    "aggregates in an order": "SELECT A.name, list(A.v ORDER BY A.price DESC) AS vs, string_agg(A.name, '-') AS names, "
    "mode(A.k) AS k, quantile_cont(A.v, [0.1, 0.9]) AS spread, arg_min(A.v, A.price) AS cheapest, "
    "sum(DISTINCT A.k) AS ks, count(*) FILTER (WHERE A.v > 50) AS high FROM a A GROUP BY ALL WINDOW 9 SECONDS",
    "parts of some of the rows": "SELECT count(*) FILTER (WHERE A.v > 20) AS n, sum(A.price) FILTER (WHERE B.v > 20) "
    "AS total, count_if(A.v > 50) AS high FROM a A, b B WHERE A.k = B.k WINDOW 3 SECONDS EMIT CHANGES",
    "aggregate over aggregate": "SELECT s.n, count(*) AS names FROM "
    "(SELECT A.name, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.name) s GROUP BY s.n "
    "WINDOW 5 SECONDS EMIT CHANGES",
    "except": "SELECT A.k, A.name FROM a A [RANGE 9 SECONDS] EXCEPT SELECT B.k, B.name FROM b B [RANGE 2 SECONDS]",
    "intersect all": "SELECT A.k FROM a A INTERSECT ALL SELECT B.k FROM b B WINDOW 4 SECONDS EMIT CHANGES",
    "distinct union": "SELECT A.name FROM a A [ROWS 5] UNION SELECT B.name FROM b B [RANGE 2 SECONDS]",
    "not in": "SELECT A.v FROM a A WHERE A.k NOT IN (SELECT B.k FROM b B WHERE B.v > 50 AND B.k IS NOT NULL) "
    "WINDOW 4 SECONDS",
    "exists": "SELECT DISTINCT A.name FROM a A WHERE EXISTS (SELECT 1 FROM b B WHERE B.k = A.k AND B.v > 70) "
    "WINDOW 4 SECONDS EMIT CHANGES",
    "value of the whole": "SELECT A.name, sum(A.price) / (SELECT sum(price) FROM a) AS share FROM a A GROUP BY A.name "
    "HAVING sum(A.v) > (SELECT min(v) FROM b) WINDOW 4 SECONDS",
    "value compared with the outside": "SELECT A.v, (SELECT count(*) FROM b B WHERE B.k = A.k) AS n, "
    "(SELECT max(id) FROM r WHERE label <> 'two') AS most FROM a A WINDOW 3 SECONDS EMIT CHANGES",
    "subqueries of a relation": "SELECT A.v, (SELECT max(label) FROM r WHERE id = A.k) AS label FROM a A "
    "WHERE A.k NOT IN (SELECT id FROM r WHERE label = 'two') OR A.v > 50",
    "exists by more than equality": "SELECT A.v FROM a A WHERE EXISTS (SELECT 1 FROM b B WHERE B.v < A.v AND B.k = A.k)"
    " AND (A.v > 30 OR A.k IN (SELECT k FROM b)) WINDOW 3 SECONDS",
    "slide": "SELECT A.k, count(*) AS n FROM a A [RANGE 6 SECONDS SLIDE 2 SECONDS] GROUP BY A.k",
    "negative tuples": "SELECT /*+ nta */ A.name, sum(B.v) AS total FROM a A, b B WHERE A.k = B.k GROUP BY A.name "
    "WINDOW 5 SECONDS",
    "join of aggregates": "SELECT x.k, x.n, y.n AS m FROM (SELECT A.k, count(*) AS n FROM a A GROUP BY A.k) x, "
    "(SELECT B.k, count(*) AS n FROM b B GROUP BY B.k) y WHERE x.k = y.k WINDOW 5 SECONDS",
    "pairs": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND B.k = C.k "
    "WINDOW (A, B) = 3 SECONDS AND WINDOW (B, C) = 2 SECONDS",
    "directed pairs": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, b C WHERE A.name = B.name AND C.price = B.price "
    "DWINDOW (A, B) = 5 SECONDS AND DWINDOW (B, C) = 2 SECONDS EMIT CHANGES",
    "intervals": "SELECT A.v, B.v AS w FROM a A JOIN b B ON A.k = B.k "
    "AND B.ts BETWEEN A.ts - INTERVAL 1 SECOND AND A.ts + INTERVAL 2 SECONDS",
    "intervals with two keys": "SELECT C.name, count(*) AS n FROM a A, b B, a C "
    "WHERE A.k = B.k AND B.v % 10 = C.v % 10 AND B.ts >= A.ts AND "
    "B.ts < A.ts + INTERVAL 3 SECONDS AND C.ts - B.ts BETWEEN INTERVAL 1 SECOND AND "
    "INTERVAL 4 SECONDS GROUP BY C.name",
    "tumble": "SELECT window_start, A.name, count(*) AS n, sum(A.price) AS total "
    "FROM TUMBLE(a, ts, INTERVAL '5 seconds') A GROUP BY window_start, A.name",
    "hop": "SELECT A.window_end, A.v, B.v AS w FROM TABLE(HOP(TABLE a, DESCRIPTOR(ts), INTERVAL '2' SECONDS, "
    "INTERVAL '6' SECONDS)) A JOIN b B [RANGE 3 SECONDS] ON A.k = B.k EMIT CHANGES",
    "window close": "SELECT window_start, count(*) AS n, max(A.v) AS most FROM HOP(a, ts, 2 s, 6 s) A "
    "GROUP BY window_start HAVING count(*) > 3 EMIT ON WINDOW CLOSE",
    "pairs with two keys": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.k = B.k AND B.v % 10 = C.v % 10 "
    "WINDOW (A, B) = 4 SECONDS AND DWINDOW (C, B) = 9 SECONDS",
    "pairs without keys": "SELECT A.v, B.v AS w, C.v AS x FROM a A, b B, a C WHERE A.v < B.v "
    "AND A.v - C.v BETWEEN -3 AND 3 WINDOW (A, B) = 2 SECONDS AND WINDOW (A, C) = 3 SECONDS",
    "aggregate over pairs": "SELECT A.name, count(*) AS n, sum(B.v) AS total FROM a A, b B, a C, r R WHERE A.k = B.k "
    "AND B.k = C.k AND C.k = R.id GROUP BY A.name WINDOW (A, B) = 3 SECONDS AND WINDOW (A, C) = 4 SECONDS",
    "first rows": "SELECT A.k, A.v, B.v AS w FROM a A, b B WHERE A.k = B.k QUALIFY rank() OVER "
    "(PARTITION BY A.k ORDER BY A.v DESC) <= 2 WINDOW 3 SECONDS",
    "first groups": "SELECT A.name, count(*) AS n, sum(A.v) AS total FROM a A GROUP BY A.name "
    "ORDER BY n DESC, A.name LIMIT 2 WINDOW 4 SECONDS",
    "first by their number": "SELECT k, v, n FROM (SELECT A.k, A.v, row_number() OVER "
    "(PARTITION BY A.k ORDER BY A.ts DESC) AS n FROM a A [RANGE 6 SECONDS]) WHERE n <= 2",
    "over": "SELECT A.k, A.v, lag(A.v) OVER (PARTITION BY A.k ORDER BY A.ts) AS earlier, sum(A.price) OVER "
    "(PARTITION BY A.k ORDER BY A.ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS total FROM a A [RANGE 5 SECONDS]",
    "over everything": "SELECT A.v, B.v AS w, rank() OVER (ORDER BY A.v + B.v) AS place FROM a A, b B WHERE A.k = B.k "
    "WINDOW 2 SECONDS EMIT CHANGES",
    "sessions": "SELECT A.name, window_start, window_end, count(*) AS n, sum(A.price) AS total "
    "FROM SESSION(a PARTITION BY name, ts, INTERVAL '2 seconds') A GROUP BY A.name, window_start, window_end",
    "sessions that are over": "SELECT A.k, window_start, count(*) AS n FROM SESSION(a PARTITION BY k, ts, 1 s) A "
    "GROUP BY A.k, window_start, window_end EMIT ON WINDOW CLOSE",
    "days of a zone": "SELECT window_start, A.name, count(*) AS n "
    "FROM TUMBLE(a, ts, INTERVAL '1 day', 'Asia/Kathmandu') A GROUP BY window_start, A.name",
    "single": "SELECT A.k * 2 AS twice, upper(A.name) AS name FROM a A WHERE A.v % 2 = 0 WINDOW 10 SECONDS",
}


OFTEN = (
    *("time", "partitioned rows", "relation", "global aggregate in parts", "aggregate over aggregate"),
    *("except", "distinct union", "not in", "slide", "directed pairs", "left join", "asof join"),
    *("value compared with the outside", "first groups", "over", "sessions"),
)
"""One for each operator at least, in one group and in many, in one fragment and in several."""


@pytest.mark.parametrize("name", everyday(OFTEN, QUERIES))
def test_spark_and_embedded_agree(spark, tmp_path, name):
    a, b = readings(1), readings(2)
    r = pa.table({"id": pa.array([1, 2, 3, 3], pa.int64()), "label": ["one", "two", "three", "III"]})
    expected = sash.sql(QUERIES[name], a=a, b=b, r=sash.relation(r))
    out = sash.sql(
        QUERIES[name],
        a=stream_frame(spark, a, tmp_path / "a", 1, N_FILES),
        b=stream_frame(spark, b, tmp_path / "b", 2, N_FILES),
        r=spark.createDataFrame(r.to_pandas()),
    )
    assert expected.num_rows > 5
    assert run_frame(out, tmp_path / "checkpoint") == sorted(plain(expected), key=repr)


def test_a_table_may_have_megabytes(spark, tmp_path):
    """Spark itself cannot hand such a thing to a stage: its worker on the driver knows of no broadcast."""
    a, ids = readings(1), np.arange(100_000)
    r = pa.table({"id": ids, "label": [f"label {number}" for number in ids]})
    assert r.nbytes > 2 << 20
    expected = sash.sql(QUERIES["left join with a relation"], a=a, r=sash.relation(r))
    out = sash.sql(
        QUERIES["left join with a relation"], a=stream_frame(spark, a, tmp_path / "a", N_FILES), r=sash.relation(r)
    )
    assert run_frame(out, tmp_path / "checkpoint") == sorted(plain(expected), key=repr)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        pytest.param("SELECT A.v // 0 AS x FROM a A", "Division by zero", id="division by zero"),
        pytest.param(
            f"SELECT sum(CAST({'9' * 38} AS DECIMAL(38, 0))) AS x FROM a A WINDOW 9 SECONDS",
            "beyond 38 digits",
            marks=pytest.mark.deep,
            id="overflow",
        ),
    ],
)
def test_what_fails_on_a_row_fails_alike(spark, tmp_path, query, reason):
    a = readings(1)
    with pytest.raises(SourceError) as embedded:
        sash.sql(query, a=a)
    assert reason in str(embedded.value)
    out = sash.sql(query, a=stream_frame(spark, a, tmp_path / "a"))
    with pytest.raises(StreamingQueryException) as on_spark:
        run_frame(out, tmp_path / "checkpoint")
    assert str(embedded.value) in str(on_spark.value)


def test_a_watermark_is_the_slack_and_late_rows_are_written_and_counted(spark, tmp_path):
    """Micro-batch by micro-batch: 10 seconds have been seen when 7 and 5 come; 7 is within the slack, 5 is not."""
    rows = pa.table({"k": [1, 2, 3, 4], "ts": pa.array([10 * SECOND, 7 * SECOND, 5 * SECOND, 11 * SECOND], TIMESTAMP)})
    path = tmp_path / "a"
    path.mkdir()
    for number, (low, length) in enumerate([(0, 1), (1, 3)]):
        pq.write_table(rows.slice(low, length), path / f"{number}.parquet")
        os.utime(path / f"{number}.parquet", (1000 + number, 1000 + number))
    frame = spark.readStream.schema("k long, ts timestamp").option("maxFilesPerTrigger", 1).parquet(str(path))
    late = tmp_path / "late"
    stream = sash.stream(frame.withWatermark("ts", "4 seconds"), late=str(late))
    out = sash.sql("SELECT A.k FROM a A [RANGE 1 SECOND]", a=stream)
    changes = run_frame(out, tmp_path / "checkpoint")
    assert [row[0] for row in changes] == ["1", "2", "4"]
    assert pq.read_table(late).column("k").to_pylist() == [3]
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    run_frame(out, tmp_path / "checkpoint")
    assert pq.read_table(late).column("k").to_pylist() == [3], "a batch that is repeated replaces what it wrote"
    run_frame(sash.sql("SELECT A.k FROM a A [RANGE 1 SECOND]", a=stream), tmp_path / "another")
    assert pq.read_table(late).column("k").to_pylist() == [3, 3], "another query leaves it as it is"


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(
            "SELECT A.v, B.v AS w, A.ts FROM a A, b B WHERE A.k = B.k WINDOW 4 SECONDS",
            marks=pytest.mark.deep,
            id="one fragment",
        ),
        pytest.param(
            "SELECT A.v, B.v AS w, C.ts FROM a A, b B, a C WHERE A.k = B.k AND B.v % 10 = C.v % 10 WINDOW 9 SECONDS",
            id="two fragments",
        ),
    ],
)
def test_a_query_goes_on_from_its_checkpoint(spark, tmp_path, query):
    """A new stream reader, a new plan, the same checkpoint: what was joined before is not joined again."""
    a, b = readings(3), readings(4)
    first = {"a": a.slice(0, 20), "b": b.slice(0, 20)}
    changes: list[tuple] = []
    for number, part in enumerate((first, {"a": a.slice(20), "b": b.slice(20)})):
        for name, rows in part.items():
            (tmp_path / name).mkdir(exist_ok=True)
            pq.write_table(rows, tmp_path / name / f"{number}.parquet")
            os.utime(tmp_path / name / f"{number}.parquet", (1000 + number, 1000 + number))
        frames = {
            name: spark.readStream.schema(spark.read.parquet(str(tmp_path / name)).schema).parquet(str(tmp_path / name))
            for name in part
        }
        out = sash.sql(query, **frames)
        running = (
            out.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
            .foreachBatch(lambda batch, _: changes.extend(plain(batch.toArrow())))
            .trigger(availableNow=True)
            .start()
        )
        running.awaitTermination()
    expected = sash.sql(query, a=a, b=b)
    assert sorted(changes, key=repr) == sorted(plain(expected), key=repr)


@pytest.mark.parametrize("number", range(volume(dev=1, ci=1, deep=20)))
def test_spark_and_embedded_agree_on_any_query(spark, tmp_path, number):
    case, expected = next(cases_for_spark(1000 * (number + 100 * (SEED - 1))))
    rng = np.random.default_rng(number)
    frames = {name: spark_frame(spark, table, tmp_path / name, rng) for name, table in case.tables.items()}
    out = sash.sql(case.text, params=case.params, **frames)
    assert run_frame(out, tmp_path / "checkpoint") == sorted(plain(expected), key=repr), str(case)


def spark_frame(spark, table: Table, directory: Path, rng: np.random.Generator):
    """A table of a case as Spark reads it, some files at a time; a recording comes in order of time."""
    if not table.is_stream:
        write_files(table.rows, directory, 1)
        return spark.read.parquet(str(directory))
    frame = stream_frame(spark, table.arrivals, directory, int(rng.integers(1, 4)), int(rng.integers(1, 6)))
    return sash.stream(frame, time="ts", slack=f"{table.slack_us or 0} us", tie=table.tie)
