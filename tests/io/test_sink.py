"""What `INTO` writes: each batch once, all at a time, and readable as it was written, whatever breaks in between."""

from __future__ import annotations

import glob
import itertools
import math
import os
from datetime import date, datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pyarrow.fs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.errors import PlanError, ResourceError, SourceError
from sash.io import FileSink, read_sink

FORMATS = ["csv", "json", "parquet"]
SCHEMA = pa.schema([("a", pa.int64())])


def rows(*values: int) -> pa.Table:
    return pa.table({"a": values}, schema=SCHEMA)


def published(sink: FileSink) -> list[int]:
    return read_sink(sink, SCHEMA)["a"].to_pylist()


def files_below(directory) -> list[str]:
    return sorted(
        os.path.relpath(f"{root}/{name}", directory) for root, _, names in os.walk(directory) for name in names
    )


@pytest.fixture
def sink(tmp_path) -> FileSink:
    return FileSink(f"{tmp_path}/out", "parquet")


@pytest.mark.parametrize("format", FORMATS)
def test_parts_become_visible_when_published(tmp_path, format):
    sink = FileSink(f"{tmp_path}/out", format)
    staged = [sink.write_part(0, "p0", rows(1, 2)), sink.write_part(0, "p1", rows(3))]
    assert not os.path.exists(sink.path)
    sink.publish(0, staged)
    assert files_below(tmp_path) == [f"out/batch=0/p0.{format}", f"out/batch=0/p1.{format}"]
    assert published(sink) == [1, 2, 3]


def test_batches_come_in_order_of_their_ids(sink):
    for batch_id in (9, 10, 2):
        sink.publish(batch_id, [sink.write_part(batch_id, "p", rows(batch_id))])
    assert published(sink) == [2, 9, 10]


def test_nothing_staged_makes_no_directory(sink):
    sink.publish(0, [])
    assert not os.path.exists(sink.path)
    assert published(sink) == []


def test_a_failed_attempt_is_left_out_and_removed(sink, tmp_path):
    sink.write_part(3, "attempt-0", rows(666))
    sink.write_part(2, "attempt-0", rows(666))
    later = sink.write_part(4, "attempt-0", rows(4))
    sink.publish(3, [sink.write_part(3, "attempt-1", rows(3))])
    assert published(sink) == [3]
    assert files_below(tmp_path) == [os.path.relpath(later.path, tmp_path), "out/batch=3/attempt-1.parquet"]


def test_a_replayed_batch_stays_as_it_is(sink, tmp_path):
    sink.publish(0, [sink.write_part(0, "attempt-0", rows(1))])
    sink.publish(0, [sink.write_part(0, "attempt-1", rows(1))])
    assert files_below(tmp_path) == ["out/batch=0/attempt-0.parquet"]


def test_publishing_twice_changes_nothing(sink):
    staged = [sink.write_part(0, "p", rows(1))]
    sink.publish(0, staged)
    sink.publish(0, staged)
    assert published(sink) == [1]


class CrashError(Exception):
    """The process ends here."""


@pytest.mark.parametrize("is_replayed", [False, True])
@pytest.mark.parametrize("n_done", range(20))
def test_a_crash_at_any_point_of_publish_loses_and_doubles_nothing(sink, tmp_path, faulty, n_done, is_replayed):
    """After a crash the driver publishes again: the same parts, or those of a replay."""
    operations = []

    def fail(operation, path):
        operations.append(operation)
        if len(operations) > n_done:
            raise CrashError

    staged = [sink.write_part(0, f"first-{idx}", rows(idx)) for idx in range(3)]
    sink.write_part(0, "failed", rows(666))
    try:
        sink.publish(0, staged, faulty(fail))
    except CrashError:
        assert published(sink) in ([], [0, 1, 2])
        if is_replayed:
            staged = [sink.write_part(0, f"second-{idx}", rows(idx)) for idx in range(3)]
        sink.publish(0, staged)
    assert published(sink) == [0, 1, 2]
    assert len(files_below(tmp_path)) == 3


@pytest.mark.parametrize("pattern", ["*/*.parquet", "**/*.parquet", "**"])
def test_globs_see_published_files_alone(sink, faulty, pattern):
    """At every step of `publish`, also for DuckDB, whose globs enter hidden directories."""
    sink.publish(0, [sink.write_part(0, "p", rows(0))])
    staged = [sink.write_part(1, "p", rows(1)), sink.write_part(1, "q", rows(2))]
    seen = []

    def look(operation, path):
        found = duckdb.execute(f"SELECT file FROM glob('{sink.path}/{pattern}')").fetchall()
        seen.append(sorted(os.path.relpath(path, sink.path) for (path,) in found))
        assert seen[-1] == sorted(path for path in python_glob(pattern) if path.endswith(".parquet"))

    def python_glob(pattern):
        return glob.glob(pattern, root_dir=sink.path, recursive=True)

    sink.publish(1, staged, faulty(look))
    before, after = ["batch=0/p.parquet"], ["batch=0/p.parquet", "batch=1/p.parquet", "batch=1/q.parquet"]
    assert [files for files, _ in itertools.groupby(seen)] == [before, after]


def test_a_full_disk(sink, faulty):
    def fail(operation, path):
        if operation == "open_output_stream":
            raise OSError(28, "No space left on device")

    with pytest.raises(ResourceError) as error:
        sink.write_part(0, "p", rows(1), faulty(fail))
    staged = f"{os.path.dirname(sink.path)}/.out.staging/batch=0/p.parquet.staged"
    assert str(error.value) == f"`{staged}`: the disk is full; make room, and run again"


def test_a_directory_on_another_device(sink, faulty):
    def fail(operation, path):
        if operation == "move" and path.endswith("batch=0"):
            raise OSError(18, "Invalid cross-device link")

    staged = [sink.write_part(0, "p", rows(1))]
    with pytest.raises(SourceError) as error:
        sink.publish(0, staged, faulty(fail))
    assert str(error.value) == (
        f"batch 0 cannot be published in `{sink.path}`: [Errno 18] Invalid cross-device link; "
        "the directory above it must be writable and on the same device"
    )


def test_an_object_store_is_refused():
    with pytest.raises(PlanError) as error:
        FileSink("bucket/out", "parquet").publish(0, [], pyarrow.fs.S3FileSystem(anonymous=True, region="x"))
    assert str(error.value) == (
        "`INTO 'bucket/out'` needs a file system that renames directories and `s3` does not; "
        "write to a local or HDFS directory"
    )


def test_a_changed_file_is_an_error(tmp_path):
    sink = FileSink(f"{tmp_path}/out", "csv")
    sink.publish(0, [sink.write_part(0, "p", rows(1))])
    (tmp_path / "out/batch=0/p.csv").write_text("a\nx\n")
    with pytest.raises(SourceError) as error:
        published(sink)
    assert str(error.value) == (
        f"file `{tmp_path}/out/batch=0/p.csv`, line 2: field `a`: 'x' is not a BIGINT; was it changed?"
    )


def test_what_a_format_cannot_hold_is_refused(tmp_path):
    with pytest.raises(PlanError, match=r"column `a` is list<item: int64>, which `csv` cannot hold; use `parquet`"):
        FileSink(f"{tmp_path}/out", "csv").write_part(0, "p", pa.table({"a": [[1]]}))
    with pytest.raises(PlanError, match="there is no format `xml`"):
        FileSink(f"{tmp_path}/out", "xml")


VALUES = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-128, 127),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.string(): st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('",\n\r\\ \0'), max_size=8),
    pa.decimal128(38, 10): st.decimals(-(10**27), 10**27, places=10),
    pa.decimal128(38, 0): st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal),
    pa.decimal128(5, 5): st.decimals("-0.99999", "0.99999", places=5),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(),
}
NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs"]) | st.sampled_from("'\",`"), min_size=1, max_size=4)


@st.composite
def tables(draw) -> pa.Table:
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique_by=str.lower))
    types = [draw(st.sampled_from(list(VALUES))) for _ in names]
    n_rows = draw(st.integers(0, 5))
    cells = [draw(st.lists(st.none() | VALUES[dtype], min_size=n_rows, max_size=n_rows)) for dtype in types]
    schema = pa.schema(list(zip(names, types, strict=True)))
    return pa.table([pa.array(column, dtype) for column, dtype in zip(cells, types, strict=True)], schema=schema)


def same(left: pa.Table, right: pa.Table) -> bool:
    """Equal, where NaN equals NaN and -0.0 does not equal 0.0."""
    return left.schema == right.schema and repr(left.to_pylist()) == repr(right.to_pylist())


@pytest.mark.parametrize("format", FORMATS)
@given(tables())
@example(pa.table({"a": pa.array([None, ""])}))
@example(pa.table({"a": [math.nan, math.inf, -math.inf, -0.0, 5e-324, None]}))
@example(pa.table({"a": pa.array([date(1, 1, 1)]), "b": pa.array([datetime(1, 1, 1)], pa.timestamp("us"))}))
def test_what_is_written_is_what_is_read(tmp_path_factory, format, table):
    sink = FileSink(str(tmp_path_factory.mktemp("round") / "out"), format)
    sink.publish(0, [sink.write_part(0, "p", table)])
    assert same(read_sink(sink, table.schema), table)
