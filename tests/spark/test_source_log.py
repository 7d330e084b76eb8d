"""Every file that Spark has taken into a batch is read, whatever its age, or the run says which one was not and why."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.fs
import pytest

from sash.errors import SourceError
from sash.io.files import FileSource, is_visible
from sash.runtime.job import Job
from sash.spark.source_log import batch_files, check_all_read, find_changed, heard_files, refuse_unread
from sash.spark.spark_run import run_on_spark


def run_spark(run, spark, files_per_batch=2):
    return run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch)[run.name]


def write_offsets(spark: Path, batch_id: int, *entries: int | None) -> None:
    (spark / "offsets").mkdir(parents=True, exist_ok=True)
    lines = ["-" if entry is None else json.dumps({"logOffset": entry}) for entry in entries]
    (spark / "offsets" / str(batch_id)).write_text("\n".join(["v1", "{}", *lines]))


def write_log(spark: Path, number: int, name: str, *files: tuple[str, int] | tuple[str, int, int]) -> None:
    """Files with the entries that they belong to, and when they were changed, if that matters."""
    directory = spark / "sources" / str(number)
    directory.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"path": path, "timestamp": time[0] if time else 1, "batchId": entry})
        for path, entry, *time in files
    ]
    (directory / name).write_text("\n".join(["v1", *lines]))


class TestLog:
    def test_files_of_a_batch(self, tmp_path):
        write_offsets(tmp_path, 0, None, 0)
        write_offsets(tmp_path, 1, 0, 2)
        write_log(tmp_path, 1, "0", ("file:///d/a.csv", 0))
        write_log(tmp_path, 1, "1", ("file:///d/b%20c.csv", 1), ("hdfs://host/d/e.csv", 1))
        write_log(tmp_path, 1, "2", ("file:/d/ü%25.csv", 2))
        assert batch_files(tmp_path, 0, 0) == []
        assert batch_files(tmp_path, 0, 1) == ["/d/a.csv"]
        assert batch_files(tmp_path, 1, 1) == ["/d/b c.csv", "hdfs://host/d/e.csv", "/d/ü%.csv"]

    def test_a_compact_entry_has_those_before_it_too(self, tmp_path):
        write_offsets(tmp_path, 8, 0, 8)
        write_offsets(tmp_path, 9, 0, 9)
        write_log(tmp_path, 1, "9.compact", ("file:///d/8.csv", 8), ("file:///d/9.csv", 9))
        assert batch_files(tmp_path, 9, 1) == ["/d/9.csv"]
        write_offsets(tmp_path, 7, 0, 7)
        assert batch_files(tmp_path, 8, 1) == ["/d/8.csv"]

    @pytest.mark.parametrize("name", ["4", "4.compact"])
    def test_an_entry_under_another_number_is_refused(self, tmp_path, name):
        """Spark would read the files of entry 3 once more."""
        write_offsets(tmp_path, 3, 0, 3)
        write_offsets(tmp_path, 4, 0, 4)
        write_log(tmp_path, 1, name, ("file:///d/3.csv", 3))
        with pytest.raises(SourceError, match=rf"sources/1/{name} is damaged: it holds entry 3 of the log; restore it"):
            batch_files(tmp_path, 4, 1)

    @pytest.mark.parametrize("content", ["", "v1\n{", "v1\n7", 'v1\n{"path": "x"}', "v2"])
    def test_an_entry_that_is_none_is_refused(self, tmp_path, content):
        write_offsets(tmp_path, 0, 0, 0)
        write_log(tmp_path, 1, "0")
        (tmp_path / "sources" / "1" / "0").write_text(content)
        with pytest.raises(SourceError, match=r"sources/1/0 is damaged: it is no log of files; restore it"):
            batch_files(tmp_path, 0, 1)

    def test_control_files_that_nobody_will_ask_for(self, tmp_path):
        write_offsets(tmp_path, 0, None)
        write_offsets(tmp_path, 1, 1)
        write_offsets(tmp_path, 2, 2)
        write_log(tmp_path, 0, "1.compact", ("file:///c/0", 0), ("file:///c/1", 1))
        write_log(tmp_path, 0, "2", ("file:///c/2", 2))
        assert heard_files(tmp_path) == []
        (tmp_path / "commits").mkdir()
        (tmp_path / "commits" / "1").touch()
        assert heard_files(tmp_path) == [], "batch 1 runs again if its commit gets lost"
        (tmp_path / "commits" / "2").touch()
        assert heard_files(tmp_path) == ["/c/0", "/c/1"]


class TestCheck:
    @pytest.fixture
    def taken(self, folder):
        """A run whose first batch has a file of stream `a`, which no reader has seen; and the file."""
        folder.write("a", ["1,x,1"])
        folder.write("b", ["1,x,1"])
        path, spark = folder.root / "a" / "001.csv", folder.root / "checkpoint"
        write_offsets(spark, 0, None, 0, None)
        write_log(spark, 1, "0", (path.as_uri(), 0))
        return folder.run("out"), spark, path

    def test_nothing_is_said_of_files_that_were_read(self, taken):
        run, spark, path = taken
        check_all_read(Job.alone(run), spark, 0, [str(path)])

    def test_a_file_that_is_gone(self, taken):
        run, spark, path = taken
        path.unlink()
        with pytest.raises(SourceError) as error:
            check_all_read(Job.alone(run), spark, 0, [])
        assert str(error.value) == (
            f"file `{path}` was taken into batch 0 and is gone; put it back under this name, repaired if it could not "
            "be read; to go on without it put a file without rows there, and give its rows another name"
        )

    def test_a_file_without_content_has_no_reader(self, taken):
        run, spark, path = taken
        path.write_text("")
        check_all_read(Job.alone(run), spark, 0, [])

    def test_a_file_that_was_empty_and_no_longer_is(self, taken):
        run, spark, _path = taken
        with pytest.raises(SourceError, match=r"001\.csv` was empty when batch 0 began and is not now; run again"):
            check_all_read(Job.alone(run), spark, 0, [])


class TestChanged:
    """A file is known to Spark by its name: what it holds later is not read."""

    @pytest.fixture
    def read(self, folder):
        """A run whose first batch has read two files of stream `a`, and whose second is not done with a third."""
        for _ in range(3):
            folder.write("a", ["1,x,1"])
        folder.write("b", ["1,x,1"])
        spark = folder.root / "checkpoint"
        write_offsets(spark, 0, None, 0, None)
        write_offsets(spark, 1, None, 1, None)
        (spark / "commits").mkdir()
        (spark / "commits" / "0").touch()
        one, two, three = ((folder.root / "a" / f"{number:03d}.csv") for number in (1, 2, 3))
        write_log(spark, 1, "0", (one.as_uri(), 0, 1_001_000), (two.as_uri(), 0, 1_002_500))
        write_log(spark, 1, "1", (three.as_uri(), 1, 77))
        os.utime(two, ns=(0, 1_002_500_123_456))
        return folder.run("out"), spark, one, two

    def test_nothing_is_said_of_files_as_they_were_read(self, read):
        run, spark, one, _two = read
        assert list(find_changed(Job.alone(run), spark)) == []
        os.utime(one, ns=(0, 1_001_300_000_000))
        assert list(find_changed(Job.alone(run), spark)) == [], "the file system of the log had whole seconds"

    def test_files_that_were_corrected_under_their_old_names(self, read):
        run, spark, one, two = read
        os.utime(two, ns=(0, 1_002_501_000_000))
        (note,) = find_changed(Job.alone(run), spark)
        assert note == (
            f"changed since stream `a` was read, and not read again: `{two}`; give each of them another name, with "
            "only the rows that are new"
        )
        one.write_text("id,k,ts\n")
        assert f": `{two}`, `{one}`; " in next(find_changed(Job.alone(run), spark))

    def test_a_first_run(self, folder):
        folder.write("a", ["1,x,1"])
        folder.write("b", ["1,x,1"])
        assert list(find_changed(Job.alone(folder.run("out")), folder.root / "checkpoint")) == []


def test_a_directory_of_sparks_own_sink_is_refused(folder):
    """Spark would read the files that the sink's log names, and leave out all others."""
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    refuse_unread(Job.alone(folder.run("out")))
    (folder.root / "b" / "_spark_metadata").mkdir()
    with pytest.raises(SourceError, match=r"`.*/b/_spark_metadata` says .* FROM '.*/b/\*\.\*'"):
        refuse_unread(Job.alone(folder.run("out")))
    by_glob = folder.script.replace("{root}/b'", "{root}/b/*.*'")
    refuse_unread(Job.alone(folder.run("out", by_glob)))


def test_a_stream_of_one_file_that_spark_would_not_read_is_refused(folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    (folder.root / "_b.csv").write_text("id,k,ts\n")
    run = folder.run("out", folder.script.replace("{root}/b'", "{root}/_b.csv'"))
    with pytest.raises(SourceError, match=r"`.*/_b\.csv`: Spark reads no file whose name starts with .*; rename it"):
        refuse_unread(Job.alone(run))


@pytest.mark.parametrize(
    ("path", "file", "is_seen"),
    [
        ("/d", "/d/x.csv", True),
        ("/d", "/d/e/x.csv", True),
        ("/d", "/d/_x.csv", False),
        ("/d", "/d/_k=1/x.csv", False),
        ("/d", "/d/_metadata", False),
        ("/_d/.e", "/_d/.e/x.csv", True),
        ("/d/*", "/d/_e/x.csv", False),
        ("/d/*/x.csv", "/d/.e/x.csv", False),
        ("/d/*/x.csv", "/d/e/x.csv", True),
        ("/d/_x.csv", "/d/_x.csv", True),
        ("mock:///d/*", "mock://host/d/_e/x.csv", False),
        ("mock:///d/*", "mock://host/d/e/x.csv", True),
    ],
)
def test_work_in_progress_has_a_hidden_name(path, file, is_seen):
    source = FileSource(path, "csv", pa.schema([("a", pa.int32())]))
    filesystem = pyarrow.fs.LocalFileSystem() if "://" in path else None
    source = replace(source, path=path.removeprefix("mock://")) if filesystem else source
    assert is_visible(source, file, filesystem) == is_seen


DAY = 86_400


def test_files_of_any_age_are_read(spark, folder, outputs):
    """By `rsync -a` and `tar x` they come with the times they had; and somebody's clock is years ahead."""
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    now, run = 20_000 * DAY, folder.run("spark")
    os.utime(folder.root / "a" / "001.csv", (now, now))
    os.utime(folder.root / "b" / "002.csv", (now + 9000 * DAY, now + 9000 * DAY))
    run_spark(run, spark)
    for age_days in (30, 8, -3):
        folder.write("a", [f"{age_days},x,{40 - age_days}"])
        then = now - age_days * DAY
        os.utime(folder.root / "a" / f"{folder._n_files:03d}.csv", (then, then))
        folder.write("b", [f"{age_days},x,{40 - age_days}"])
        assert run_spark(run, spark).n_read == 2, age_days
    changes, late = outputs(run)
    assert [row[:2] for row in changes] == [(-3, -3), (1, 1), (30, 30), (8, 8)]
    assert not any(late.values())


def test_what_spark_takes_for_more_than_work_in_progress(spark, folder, outputs):
    """It lists `_metadata` without reading it, and reads names with `=` and what a glob finds in hidden directories."""
    for directory in ("a", "a/_tmp", "a/_k=1"):
        (folder.root / directory).mkdir()
        (folder.root / directory / "1.csv").write_text("id,k,ts\n1,x,2026-01-01 00:00:01\n")
    (folder.root / "a" / "_metadata").write_text("something")
    folder.write("b", ["1,x,1"])
    for out, path in (("all", "{root}/a'"), ("glob", "{root}/a/*'")):
        run = folder.run(out, folder.script.replace("{root}/a'", path))
        assert run_spark(run, spark).n_read == 2
        assert len(outputs(run)[0]) == 1


def test_a_file_that_could_not_be_read_must_not_vanish(spark, folder, outputs):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    bad = folder.root / "b" / "bad.csv"
    bad.write_text("other,columns\n1,2\n")
    run = folder.run("spark")
    with pytest.raises(SourceError, match=r"bad\.csv"):
        run_spark(run, spark, 100)
    bad.unlink()
    with pytest.raises(SourceError, match=r"bad\.csv` was taken into batch 0 and is gone; put it back"):
        run_spark(run, spark, 100)
    assert not (folder.root / "spark").exists()
    bad.write_text("id,k,ts\n7,x,2026-01-01 00:00:02\n")
    assert run_spark(run, spark, 100).n_read == 3
    assert [row[:2] for row in outputs(run)[0]] == [(1, 1), (1, 7)]


def test_a_file_without_rows_may_stand_for_one_that_could_not_be_read(spark, folder, outputs):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    bad = folder.root / "b" / "bad.csv"
    bad.write_text("other,columns\n1,2\n")
    run = folder.run("spark")
    with pytest.raises(SourceError, match=r"bad\.csv"):
        run_spark(run, spark, 100)
    bad.write_text("")
    assert run_spark(run, spark, 100).n_read == 2
    assert [row[:2] for row in outputs(run)[0]] == [(1, 1)]
