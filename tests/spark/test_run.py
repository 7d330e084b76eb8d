"""`sash run` on Spark: from files to files, with late rows, rejects, restarts and damaged checkpoints."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from sash.errors import SourceError
from sash.runtime.checkpoint_mark import FORMAT
from sash.runtime.job import Job, QueryRun, Tally
from sash.spark.checkpoint import MANIFEST, Checkpoint
from sash.spark.spark_run import run_on_spark


def run_spark(run: QueryRun, spark: SparkSession, files_per_batch: int = 2) -> Tally:
    return run_on_spark([Job.alone(run)], spark, lambda name, tally: None, files_per_batch)[run.name]


def write_disordered(folder) -> None:
    """Rows within the slack, beyond it within their file (id 6), and beyond it because of an earlier file (9, 12)."""
    folder.write("a", ["1,x,1", "2,x,3", "3,y,2", "4,x,8", "5,y,7", "6,x,2"])
    folder.write("b", ["1,x,2", "2,y,4", "3,x,9"])
    folder.write("a", ["7,x,14", "8,y,13"])
    folder.write("b", ["4,y,12", "5,x,10", "6,x,13"])
    folder.write("a", ["9,x,9", "10,x,12", "11,y,16"])
    folder.write("b", ["7,y,15", "8,x,20"])
    folder.write("a", ["12,y,3", "13,x,18", "14,x,19"])


@pytest.mark.parametrize("files_per_batch", [1, 3, 100])
def test_what_is_late_does_not_depend_on_batches(spark, folder, outputs, files_per_batch):
    write_disordered(folder)
    expected, expected_tally = folder.run_embedded("embedded")
    run = folder.run("spark")
    tally = run_spark(run, spark, files_per_batch)
    assert outputs(run) == outputs(expected)
    assert [row[0] for row in outputs(run)[1]["a"]] == [12, 6, 9]
    assert (tally.n_read, tally.n_late, tally.n_accepted) == (22, 3, 19)
    assert (tally.n_read, tally.n_late, tally.n_changes) == (
        expected_tally.n_read,
        expected_tally.n_late,
        expected_tally.n_changes,
    )


def test_records_that_cannot_be_read_are_put_aside_with_their_line(spark, folder, outputs):
    folder.write("a", ["1,x,1", "two,x,2", "3,x", "4,x,not a time", "5,x,", "6,x,6"])
    folder.write("b", ["1,x,3"])
    run = folder.run("spark")
    tally = run_spark(run, spark)
    assert (tally.n_read, tally.n_rejected, tally.n_late) == (7, 4, 0)
    rejected = sorted(path for path in (folder.root / "spark.rejects").glob("*/*.json"))
    text = "".join(path.read_text() for path in rejected)
    assert all(f'"line":{line}' in text.replace(" ", "") for line in (3, 4, 5, 6))
    assert [row[:2] for row in outputs(run)[0]] == [(1, 1), (6, 1)]


def test_a_strict_run_stops_at_the_first_reject_and_publishes_nothing_of_its_batch(spark, folder):
    folder.write("a", ["1,x,1", "two,x,2"])
    folder.write("b", ["1,x,1"])
    with pytest.raises(SourceError, match=r"001\.csv, line 3: .*--strict"):
        run_spark(folder.run("spark", is_strict=True), spark)
    assert not (folder.root / "spark").exists()


def test_a_second_run_goes_on_where_the_first_ended(spark, folder, outputs):
    folder.write("a", ["1,x,1", "2,x,4"])
    folder.write("b", ["1,x,3"])
    run = folder.run("spark")
    run_spark(run, spark)
    folder.write("b", ["2,x,6", "3,x,4"])
    folder.write("a", ["3,x,7"])
    tally = run_spark(run, spark)
    assert tally.n_read == 3
    changes, late = outputs(run)
    assert [row[:2] for row in changes] == [(1, 1), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert [row[0] for row in late["b"]] == [3]


def test_an_empty_stream_does_not_stop_the_others(spark, folder, outputs):
    (folder.root / "b").mkdir()
    folder.write("a", ["1,x,1"])
    run = folder.run("spark")
    assert run_spark(run, spark).n_read == 1
    assert outputs(run)[0] == []


def test_a_checkpoint_of_another_query_is_refused(spark, folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run_spark(folder.run("spark"), spark)
    other = folder.run("spark", folder.script.replace("5 SECONDS", "6 SECONDS"))
    with pytest.raises(
        SourceError, match=r"spark\.checkpoint.sash\.json belongs to another query(.|\n)*5 SECONDS(.|\n)*6 SECONDS"
    ):
        run_spark(other, spark)


def test_a_damaged_checkpoint_is_refused(spark, folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run = folder.run("spark")
    run_spark(run, spark)
    log = folder.root / "spark.checkpoint" / "spark" / "sources" / "1" / "0"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(bytes(content))
    with pytest.raises(SourceError, match=r"sources.1.0 is damaged"):
        run_spark(run, spark)


def test_a_file_that_cannot_be_read_stops_the_run_with_its_name(spark, folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    (folder.root / "b" / "bad.csv").write_text("other,columns\n1,2\n")
    with pytest.raises(SourceError, match=r"bad\.csv"):
        run_spark(folder.run("spark"), spark)


def test_a_checkpoint_of_an_older_version_is_refused(spark, folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run = folder.run("spark")
    run_spark(run, spark)
    known = folder.root / "spark.checkpoint" / "sash.json"
    known.write_text(json.dumps(json.loads(known.read_text()) | {"format": FORMAT - 1}))
    before = contents(folder.root)
    with pytest.raises(SourceError, match=rf"spark\.checkpoint.sash\.json was written .* format is {FORMAT - 1},"):
        run_spark(run, spark)
    assert contents(folder.root) == before


def test_damaged_state_is_refused_and_nothing_is_overwritten(spark, folder):
    folder.write("a", ["1,x,1", "2,x,2"])
    folder.write("b", ["1,x,1"])
    run = folder.run("spark")
    run_spark(run, spark)
    folder.write("a", ["3,x,9"])
    state = folder.root / "spark.checkpoint" / "spark" / "state"
    log = max(state.rglob("1.changelog"), key=lambda path: path.stat().st_size)
    flip_bit(log)
    before = contents(folder.root)
    with pytest.raises(SourceError) as error:
        run_spark(run, spark)
    assert str(error.value).startswith(f"{log} is damaged: its content is not what was written; restore it ")
    assert contents(folder.root) == before


def contents(directory: Path) -> dict[Path, bytes | None]:
    return {path: path.read_bytes() if path.is_file() else None for path in directory.rglob("*")}


def flip_bit(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def verify(checkpoint: Checkpoint) -> None:
    """As the next run does, which knows what is on the disk alone."""
    other = Checkpoint(checkpoint.path)
    other.verify()
    other.refuse_gaps()


class TestFilesOfBatches:
    """Batch 0 is committed, batch 1 is not: it ran, and will run again."""

    @pytest.fixture
    def checkpoint(self, tmp_path: Path) -> Checkpoint:
        files = ["offsets/0", "offsets/1", "commits/0", "sources/0/0", "sources/0/1", "metadata"]
        files += ["state/0/_metadata/v2/2", "state/0/_metadata/v2/4"]
        for name in [*files, *(f"state/0/{part}/{version}.changelog" for part in (0, 1) for version in (1, 2))]:
            (tmp_path / "spark" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "spark" / name).write_text(f"content of {name}")
        checkpoint = Checkpoint(tmp_path)
        checkpoint.seal()
        verify(checkpoint)
        return checkpoint

    @pytest.mark.parametrize("name", ["2.changelog", "2_0123-abc.changelog", "2.zip"])
    def test_state_of_the_batch_that_was_not_committed_may_be_written_anew(self, checkpoint, name):
        path = checkpoint.spark / "state" / "0" / "1" / name
        path.write_text("a first attempt")
        checkpoint.seal()
        path.write_text("a second attempt")
        verify(checkpoint)

    @pytest.mark.parametrize("name", ["state/0/1/1.changelog", "commits/0", "offsets/1", "sources/0/0", "metadata"])
    def test_any_other_file_may_not(self, checkpoint, name):
        flip_bit(checkpoint.spark / name)
        with pytest.raises(SourceError, match=rf"{name} is damaged"):
            verify(checkpoint)

    def test_once_it_is_committed_it_is_checked(self, checkpoint):
        (checkpoint.spark / "commits" / "1").touch()
        flip_bit(checkpoint.spark / "state" / "0" / "0" / "2.changelog")
        with pytest.raises(SourceError, match=r"2\.changelog is damaged"):
            verify(checkpoint)

    def test_a_line_of_the_manifest_that_a_crash_has_torn_says_nothing(self, checkpoint):
        manifest = checkpoint.path / MANIFEST
        with manifest.open("a") as file:
            file.write('{"commits/0": {"si')
        other = Checkpoint(checkpoint.path)
        other.verify()
        other.shorten_manifest()
        (checkpoint.spark / "commits" / "1").write_text("new")
        other.seal()
        flip_bit(checkpoint.spark / "commits" / "1")
        with pytest.raises(SourceError, match=r"commits/1 is damaged"):
            verify(checkpoint)

    def test_a_manifest_that_is_damaged_is_refused(self, checkpoint):
        manifest = checkpoint.path / MANIFEST
        manifest.write_text("{" + manifest.read_text())
        with pytest.raises(
            SourceError, match=r"manifest\.jsonl is damaged: line 1 is not JSON; restore it from a back"
        ):
            verify(checkpoint)

    @pytest.mark.parametrize("line", ["[]", "null", '{"commits/0": 5}', '{"commits/0": {"sha256": null}}', "7"])
    def test_so_is_one_with_something_else_in_it(self, checkpoint, line):
        with (checkpoint.path / MANIFEST).open("a") as file:
            file.write(f"{line}\n")
        with pytest.raises(SourceError, match=r"manifest\.jsonl is damaged: line 2 does not say what files hold; rest"):
            verify(checkpoint)

    @pytest.mark.parametrize(
        "name",
        [
            "commits/0",
            "offsets/0",
            "offsets/1",
            "sources/0/0",
            "sources/0/1",
            "metadata",
            "state/0/1/1.changelog",
            "state/0/_metadata/v2/4",
        ],
    )
    def test_a_file_that_is_needed_must_be_there(self, checkpoint, name):
        (checkpoint.spark / name).unlink()
        with pytest.raises(SourceError, match=rf"{name} is missing, without which .* restore it from a backup, or run"):
            verify(checkpoint)

    @pytest.mark.parametrize("directory", ["commits", "state/0/1", "sources/0"])
    def test_so_must_a_directory_of_such_files(self, checkpoint, directory):
        shutil.rmtree(checkpoint.spark / directory)
        with pytest.raises(SourceError, match=rf"{directory}/\d.* is missing"):
            verify(checkpoint)

    @pytest.mark.parametrize("name", ["state/0/_metadata/v2/2", "state/0/0/2.changelog"])
    def test_what_spark_removes_or_has_not_committed_need_not(self, checkpoint, name):
        (checkpoint.spark / name).unlink()
        verify(checkpoint)

    def test_the_manifest_must_be_there_once_a_batch_is_committed(self, checkpoint):
        (checkpoint.path / MANIFEST).unlink()
        with pytest.raises(SourceError, match=r"manifest\.jsonl is missing"):
            verify(checkpoint)


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        ("[1]", "it is not a JSON object"),
        ({"groups": "many"}, "it is not what was written"),
        ({"groups": None}, "it is not what was written"),
        ({"outputs": []}, "it is not what was written"),
        ({"stamp": 7}, "it is not what was written"),
    ],
)
def test_odd_json_in_a_checkpoint_is_damage(folder, content, what):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run, place = folder.run("spark"), folder.root / "spark.checkpoint"
    Checkpoint(place).open(Job.alone(run), 4)
    known = json.loads((place / "sash.json").read_bytes())
    text = json.dumps(known | content) if isinstance(content, dict) else content
    (place / "sash.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(SourceError, match=rf"sash\.json is damaged: {what}; restore it from a backup, or run"):
        Checkpoint(place).open(Job.alone(run), 4)


class TestSnapshots:
    """Batches 0 to 3 are committed; a snapshot of version 3 stands for the change logs before it."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        store = tmp_path / "spark" / "state" / "0" / "0"
        (store / "SSTs").mkdir(parents=True)
        (tmp_path / "spark" / "metadata").write_text("{}")
        for batch in range(4):
            for log in ("offsets", "commits"):
                (tmp_path / "spark" / log).mkdir(exist_ok=True)
                (tmp_path / "spark" / log / str(batch)).write_text("v1")
            (store / f"{batch + 1}.changelog").write_text(f"changes of {batch}")
        (store / "SSTs" / "08-ab.sst").write_bytes(bytes(range(200)))
        with zipfile.ZipFile(store / "3.zip", "w") as snapshot:
            snapshot.writestr("metadata", 'v1\n{"sstFiles": [{"dfsSstFileName": "08-ab.sst", "sizeBytes": 200}]}')
        Checkpoint(tmp_path).seal()
        return store

    def test_change_logs_before_a_snapshot_may_go(self, store):
        for version in (1, 2, 3):
            (store / f"{version}.changelog").unlink()
        verify(Checkpoint(store.parents[3]))

    @pytest.mark.parametrize("name", ["4.changelog", "3.zip", "SSTs/08-ab.sst"])
    def test_what_comes_after_it_and_what_it_names_may_not(self, store, name):
        (store / name).unlink()
        with pytest.raises(SourceError, match=rf"{name} is missing"):
            verify(Checkpoint(store.parents[3]))

    @pytest.mark.parametrize("name", ["3.zip", "SSTs/08-ab.sst"])
    def test_nor_be_damaged(self, store, name):
        flip_bit(store / name)
        with pytest.raises(SourceError, match=rf"{name} is damaged"):
            verify(Checkpoint(store.parents[3]))

    def test_a_file_that_no_snapshot_names_is_not_looked_at(self, store):
        (store / "SSTs" / "09-cd.sst").write_text("half of")
        checkpoint = Checkpoint(store.parents[3])
        checkpoint.verify()
        checkpoint.seal()
        (store / "SSTs" / "09-cd.sst").write_text("half of it and the rest")
        verify(Checkpoint(store.parents[3]))


def test_a_checkpoint_of_which_files_were_deleted_is_refused(spark, folder):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run = folder.run("spark")
    run_spark(run, spark)
    folder.write("a", ["2,x,3"])
    home = folder.root / "spark.checkpoint" / "spark"
    kept = contents(home)
    newest = max((home / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (newest, home / "sources" / "1" / "0", next((home / "state").rglob("2.changelog"))):
        path.unlink()
        with pytest.raises(SourceError, match=rf"{path} is missing"):
            run_spark(run, spark)
        path.write_bytes(kept[path] or b"")
    assert run_spark(run, spark).n_read == 1


def test_a_control_file_of_somebody_elses_is_refused_by_name(spark, folder, outputs):
    """It would declare all streams complete up to a time that has not come, and their rows late."""
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    run = folder.run("spark")
    run_spark(run, spark)
    folder.write("a", ["2,x,3"])
    folder.write("b", ["2,x,3"])
    for said in ({"stream": "", "complete_us": 2**60}, {"run": "another", "stream": "", "complete_us": 2**60}, None):
        forged = folder.root / "spark.checkpoint" / "control" / "forged.json"
        forged.write_text(json.dumps(said))
        with pytest.raises(SourceError, match=rf"control file `{forged}` was not written by this run: .*; remove the"):
            run_spark(run, spark)
        forged.unlink()
    assert run_spark(run, spark).n_late == 0
    assert [row[:2] for row in outputs(run)[0]] == [(1, 1), (1, 2), (2, 1), (2, 2)]
    assert len(list((folder.root / "spark.checkpoint" / "control").glob("*"))) == 1, "what was heard before has gone"


@pytest.mark.parametrize("source", ["{}", "./{}/", "*{}", "{}/*.csv"])
def test_relative_paths_are_those_of_this_process(spark, folder, outputs, monkeypatch, source):
    """The JVM and its workers may have been started in another directory."""
    for stream in "ab":
        folder.write(stream, ["1,x,1", "2,y,2"])
    expected, _ = folder.run_embedded("embedded")
    monkeypatch.chdir(folder.root)
    script = folder.script.replace("{root}/a", source.format("a")).replace("{root}/b", source.format("b"))
    run = folder.run("out", script)
    run_spark(run, spark)
    assert outputs(run) == outputs(expected)
