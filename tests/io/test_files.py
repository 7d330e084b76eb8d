"""Which files a source has and in which order, and what is said when they cannot be reached."""

from __future__ import annotations

import os
import pickle

import pyarrow as pa
import pytest

from sash.errors import PlanError, SourceError
from sash.io import FileSource, StreamFile, list_files, read_file

SCHEMA = pa.schema([("a", pa.int64())])


def put(directory, *names: str, modified_us: int = 1_000_000):
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("a\n1\n")
        os.utime(path, ns=(0, modified_us * 1000))


def listed(directory, pattern: str = "") -> list[str]:
    files = list_files(FileSource(f"{directory}/{pattern}".rstrip("/"), "csv", SCHEMA))
    return [os.path.relpath(file.path, directory) for file in files]


def test_files_arrive_by_time_then_path(tmp_path):
    put(tmp_path, "b.csv", "c.csv", modified_us=5)
    put(tmp_path, "d.csv", modified_us=4)
    put(tmp_path, "a.csv", modified_us=6)
    assert listed(tmp_path) == ["d.csv", "b.csv", "c.csv", "a.csv"]
    assert list_files(FileSource(str(tmp_path), "csv", SCHEMA))[0] == StreamFile(f"{tmp_path}/d.csv", 4)


def test_a_directory_stands_for_all_files_below_it(tmp_path):
    put(tmp_path, "a.csv", "day=1/b.csv", "day=1/hour=2/c.csv", "other/d.csv")
    put(tmp_path, ".a.csv.crc", "_SUCCESS", "_temporary/e.csv", ".staging/f.csv", "day=1/_g.csv", ".h=1/i.csv")
    assert listed(tmp_path) == ["a.csv", "day=1/b.csv", "day=1/hour=2/c.csv", "other/d.csv"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("*.csv", ["a.csv", "b.csv"]),
        ("[b]*", ["b.csv"]),
        ("?/*.csv", ["x/c.csv"]),
        ("*/*", ["x/c.csv", "x/d.json"]),
        ("*", ["a.csv", "b.csv", "x/c.csv", "x/d.json"]),
        ("none*", []),
        ("a.csv", ["a.csv"]),
    ],
)
def test_globs(tmp_path, pattern, names):
    put(tmp_path, "a.csv", "b.csv", "x/c.csv", "x/d.json", ".y/e.csv", "x/_f.csv")
    assert listed(tmp_path, pattern) == names


def test_a_name_with_wildcards_that_exists_is_that_file(tmp_path):
    put(tmp_path, "a[1].csv", "a1.csv")
    assert listed(tmp_path, "a[1].csv") == ["a[1].csv"]


def test_a_uri_names_the_same_files(tmp_path):
    put(tmp_path, "a.csv")
    source = FileSource(f"file://{tmp_path}", "csv", SCHEMA)
    [file] = list_files(source)
    assert file.path == f"{tmp_path}/a.csv"
    assert [len(records.rows) for records in read_file(source, file.path)] == [1]


def test_a_relative_path_is_listed_as_an_absolute_one(tmp_path, monkeypatch):
    put(tmp_path, "d/a.csv")
    monkeypatch.chdir(tmp_path)
    [file] = list_files(FileSource("d", "csv", SCHEMA))
    assert file.path == f"{tmp_path}/d/a.csv"


def test_a_source_travels_to_workers():
    source = FileSource("d", "csv", SCHEMA, (("header", "false"),))
    assert pickle.loads(pickle.dumps(source)) == source


def test_missing_paths(tmp_path):
    with pytest.raises(SourceError) as error:
        listed(tmp_path, "none")
    assert str(error.value) == f"`{tmp_path}/none` does not exist; check the path or create the directory"
    with pytest.raises(SourceError) as error:
        listed(tmp_path, "none/*.csv")
    assert str(error.value) == (
        f"`{tmp_path}/none/*.csv` matches nothing: there is no directory `{tmp_path}/none`; check the path or create it"
    )
    with pytest.raises(SourceError) as error:
        list(read_file(FileSource(str(tmp_path), "csv", SCHEMA), f"{tmp_path}/gone.csv"))
    assert str(error.value).startswith(f"file `{tmp_path}/gone.csv` cannot be read as `csv`: ")


def test_an_unknown_file_system():
    with pytest.raises(SourceError, match="`what://x/y` is not the address of a file system that can be used"):
        list_files(FileSource("what://x/y", "csv", SCHEMA))


def test_no_permission_to_list(tmp_path, faulty):
    def fail(operation, path):
        if operation == "list":
            raise PermissionError(13, "Permission denied")

    with pytest.raises(SourceError) as error:
        list_files(FileSource(str(tmp_path), "csv", SCHEMA), faulty(fail))
    assert str(error.value) == (
        f"`{tmp_path}` may not be read: [Errno 13] Permission denied; give this user the right to read it"
    )


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("broken", ["open_input_file", "read"])
def test_a_disk_that_fails(tmp_path, faulty, format, broken):
    def fail(operation, path):
        if operation == broken:
            raise OSError(5, "Input/output error")

    (tmp_path / "f").write_text("a\n" + "1\n" * 50)
    with pytest.raises(SourceError) as error:
        list(read_file(FileSource(str(tmp_path), format, SCHEMA), f"{tmp_path}/f", faulty(fail)))
    assert str(error.value) == (
        f"file `{tmp_path}/f` cannot be read as `{format}`: [Errno 5] Input/output error; "
        "repair it where it is, or put a file without rows in its place"
    )


def test_no_permission_to_read(tmp_path, faulty):
    def fail(operation, path):
        if operation == "open_input_file":
            raise PermissionError(13, "Permission denied")

    put(tmp_path, "f")
    with pytest.raises(SourceError, match=r"may not be read: .* Permission denied; give this user the right to read"):
        list(read_file(FileSource(str(tmp_path), "csv", SCHEMA), f"{tmp_path}/f", faulty(fail)))


@pytest.mark.parametrize(
    ("format", "schema", "options", "message"),
    [
        ("cvs", SCHEMA, (), "there is no format `cvs`; did you mean `csv`?"),
        ("json", SCHEMA, (("header", "true"),), "format `json` has no option `header`; it takes none"),
        ("csv", pa.schema([]), (), "there is no column; declare at least one"),
        (
            "csv",
            pa.schema([("a", pa.int64()), ("A", pa.int64())]),
            (),
            "column `a` appears 2 times; give every column a name of its own",
        ),
        (
            "csv",
            pa.schema([("a", pa.binary())]),
            (),
            "column `a` is binary, which `csv` cannot hold; use `parquet`",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_when_declared(format, schema, options, message):
    with pytest.raises(PlanError) as error:
        FileSource("d", format, schema, options)
    assert str(error.value) == message
