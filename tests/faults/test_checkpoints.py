"""Outputs and checkpoints that do not belong together, or are damaged: gone on from rightly, or refused by name.

Spark's part is played by `fake_spark`, which goes through its own logs as Spark does. What real Spark makes of the same
is in tests/spark/test_recovery.py.
"""

from __future__ import annotations

import json
import re
import shutil
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.faults.conftest import FAULTS, Death, Operations, is_deep
from tests.faults.fake_spark import FakeSpark

from sash.cli.script_outputs import check_outputs, remove_outputs
from sash.errors import PlanError, SashError, SourceError
from sash.io.manifest import MARK
from sash.runtime.job import Job, QueryRun, new_identity
from sash.runtime.script import bind_script
from sash.spark.surplus_removal import find_repairs, make

SCRIPT = """CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM '{root}/in' FORMAT csv;
CREATE QUERY q AS SELECT v FROM s [RANGE 1 MINUTE] INTO '{root}/out' FORMAT parquet;
"""
N_BATCHES = 7


class Scene:
    """A query with its input, and copies of its output and checkpoint as they once were."""

    def __init__(self, root: Path):
        self.root = root
        (root / "in").mkdir()
        (self._run,) = bind_script(SCRIPT.format(root=root)).runs()
        self.n_files = 0

    @property
    def run(self) -> QueryRun:
        return replace(self._run, identity=new_identity())

    def add(self, n_files: int = 1) -> None:
        for _ in range(n_files):
            (self.root / "in" / f"{self.n_files:03d}").write_text(str(self.n_files))
            self.n_files += 1

    def spark(self) -> FakeSpark:
        return FakeSpark(Job.alone(self.run), self.root / "in")

    def answer(self) -> list[int]:
        return sorted(v for path in self.root.glob("out/*/*.parquet") for v in pq.read_table(path)["v"].to_pylist())

    def is_right(self) -> bool:
        return self.answer() == list(range(self.n_files))

    def keep(self, what: str, name: str) -> None:
        """Makes a backup of `out` or `out.checkpoint`."""
        if (self.root / what).exists():
            shutil.copytree(self.root / what, self.root / "backups" / f"{what}-{name}")

    def restore(self, what: str, name: str) -> None:
        shutil.rmtree(self.root / what, ignore_errors=True)
        backup = self.root / "backups" / f"{what}-{name}"
        if backup.exists():
            shutil.copytree(backup, self.root / what)

    def keep_both(self, name: str) -> None:
        self.keep("out", name)
        self.keep("out.checkpoint", name)

    def go_on(self) -> str:
        """With one more file: `right`, or why it was refused; anything else is an error."""
        before = self.n_files
        self.add()
        try:
            self.spark().run()
        except SourceError as refused:
            self.n_files -= 1
            (self.root / "in" / f"{before:03d}").unlink()
            return str(refused)
        assert self.is_right(), f"silently wrong: {self.answer()}"
        return "right"


@pytest.fixture
def scene(tmp_path, monkeypatch) -> Scene:
    monkeypatch.chdir(tmp_path)
    return Scene(tmp_path)


def test_the_fake_goes_on(scene):
    scene.add(3)
    scene.spark().run(2)
    assert scene.answer() == [0, 1]
    assert scene.go_on() == "right"
    scene.add()
    scene.spark().run(1, die_before_commit=True)
    assert scene.go_on() == "right"


class TestBackups:
    """A checkpoint of batch i with an output of batch j."""

    @pytest.fixture
    def kept(self, scene) -> Scene:
        """Backups after each batch, and in the middle of each: published, and not yet committed."""
        scene.keep_both("0")
        for number in range(1, N_BATCHES):
            scene.add()
            scene.spark().run(1, die_before_commit=True)
            scene.keep_both(f"{number}-in-flight")
            scene.spark().run()
            scene.keep_both(str(number))
        return scene

    @pytest.mark.slow
    @pytest.mark.parametrize("i", range(N_BATCHES))
    def test_every_pair(self, kept, i):
        for j in range(N_BATCHES):
            kept.restore("out.checkpoint", str(i))
            kept.restore("out", str(j))
            outcome = kept.go_on()
            if i == j:
                assert outcome == "right"
            elif i == 0:
                assert "out holds the output of another run, so `q` cannot begin there" in outcome
            elif i < j:
                batches = f"batch {i}" if j == i + 1 else f"batches {i} to {j - 1}"
                assert (
                    f"out has {batches}, which its checkpoint knows nothing of (it has come to batch {i - 1})"
                    in outcome
                )
                assert "sash repair" in outcome
                self.check_repair(kept)
            else:
                batches = f"batch {j}" if i == j + 1 else f"batches {j} to {i - 1}"
                assert f"out lacks {batches}, which its checkpoint has answered" in outcome
                assert "--fresh" in outcome
                with pytest.raises(SourceError, match="out lacks"):
                    find_repairs([Job.alone(kept.run)])

    def check_repair(self, scene: Scene) -> None:
        (repair,) = find_repairs([Job.alone(scene.run)])
        make(repair)
        assert find_repairs([Job.alone(scene.run)]) == []
        assert scene.go_on() == "right"

    @pytest.mark.slow
    @pytest.mark.parametrize("i", range(1, N_BATCHES))
    def test_every_pair_in_flight(self, kept, i):
        """The checkpoint has planned a batch, or the output has published it, and it is not committed."""
        for j in range(1, N_BATCHES):
            for checkpoint, output in ((f"{i}-in-flight", str(j)), (str(i), f"{j}-in-flight")):
                kept.restore("out.checkpoint", checkpoint)
                kept.restore("out", output)
                outcome = kept.go_on()
                reached = (i, i - 1) if checkpoint.endswith("flight") else (i,)
                assert (outcome == "right") == (j in reached), (checkpoint, output, outcome)
                if "knows nothing of" in outcome:
                    self.check_repair(kept)


class TestLostParts:
    @pytest.fixture
    def kept(self, scene) -> Scene:
        scene.add(4)
        scene.spark().run()
        return scene

    def test_the_newest_offset_and_commit(self, kept):
        for log in ("offsets", "commits"):
            (kept.root / "out.checkpoint" / "spark" / log / "3").unlink()
        assert "out has batch 3, which its checkpoint knows nothing of (it has come to batch 2)" in kept.go_on()
        (repair,) = find_repairs([Job.alone(kept.run)])
        assert repair.summary == ["out: remove batch 3, beyond its checkpoint (it has come to batch 2)"]
        make(repair)
        assert kept.answer() == [0, 1, 2]
        assert kept.go_on() == "right"

    def test_a_repair_does_not_pass_over_other_files_that_are_gone(self, kept):
        spark = kept.root / "out.checkpoint" / "spark"
        for log in ("offsets", "commits"):
            (spark / log / "3").unlink()
        for name in ("state/0/0/2.changelog", "sources/1/1", "metadata"):
            content = (spark / name).read_bytes()
            (spark / name).unlink()
            with pytest.raises(SourceError, match=f"{name} is missing, without which the run cannot go on"):
                find_repairs([Job.alone(kept.run)])
            (spark / name).write_bytes(content)
        make(*find_repairs([Job.alone(kept.run)]))
        assert kept.go_on() == "right"

    def test_a_control_file_of_somebody_else_s(self, kept):
        """It is refused before anything is changed."""
        forged = kept.root / "out.checkpoint" / "control" / "forged.json"
        forged.write_text('{"stream": "", "complete_us": 9}')
        before = {path: path.read_bytes() for path in kept.root.rglob("*") if path.is_file()}
        assert f"control file `{forged}` was not written by this run" in kept.go_on()
        assert {path: path.read_bytes() for path in kept.root.rglob("*") if path.is_file()} == before
        forged.unlink()
        assert kept.go_on() == "right"

    def test_spark_s_checkpoint(self, kept):
        shutil.rmtree(kept.root / "out.checkpoint" / "spark")
        assert "out has batches 0 to 3, which its checkpoint knows nothing of (it has done none)" in kept.go_on()
        make(*find_repairs([Job.alone(kept.run)]))
        assert kept.answer() == []
        assert kept.go_on() == "right"

    def test_the_output(self, kept):
        shutil.rmtree(kept.root / "out")
        assert "out lacks batches 0 to 3, which its checkpoint has answered" in kept.go_on()

    def test_a_batch_of_the_output(self, kept):
        shutil.rmtree(kept.root / "out" / "batch=1")
        assert "`out/batch=1` is missing from the output" in kept.go_on()

    @pytest.mark.parametrize("way", ["removed", "hidden"])
    def test_a_part_of_the_batch_that_runs_again(self, kept, way):
        """Its directory is there, so the batch would not be published anew."""
        kept.add()
        kept.spark().run(1, die_before_commit=True)
        (part,) = (kept.root / "out" / "batch=4").iterdir()
        part.unlink() if way == "removed" else part.rename(part.with_name(f"_{part.name}"))
        assert re.search(r"`out/batch=4/part-.*` is missing from the output", kept.go_on())
        shutil.rmtree(kept.root / "out" / "batch=4")
        assert kept.go_on() == "right"

    def test_a_file_of_a_batch_that_was_changed(self, kept):
        (part,) = (kept.root / "out" / "batch=1").iterdir()
        part.write_bytes(part.read_bytes() + b"x")
        assert re.search(r"`out/batch=1/part-.*` is not what was written", kept.go_on())

    def test_content_that_was_changed(self, kept):
        """In the newest batch a run notices it; in others `sash repair`, which looks at every file."""
        (newest,) = (kept.root / "out" / "batch=3").iterdir()
        content = newest.read_bytes()
        flip(newest)
        assert re.search(r"`out/batch=3/part-.*` is not what was written", kept.go_on())
        newest.write_bytes(content)
        (older,) = (kept.root / "out" / "batch=1").iterdir()
        flip(older)
        with pytest.raises(SourceError, match=r"`out/batch=1/part-.*` is not what was written"):
            find_repairs([Job.alone(kept.run)])

    def test_a_batch_that_nobody_wrote_down(self, kept):
        shutil.copytree(kept.root / "out" / "batch=1", kept.root / "out" / "batch=4")
        assert "`out/batch=4` was not written by this output's runs; move it away" in kept.go_on()

    @pytest.mark.parametrize("name", ["batch=01", "batch=x", "sub/batch=9", "batch=１"])
    def test_a_directory_that_readers_take_for_a_batch(self, kept, name):
        shutil.copytree(kept.root / "out" / "batch=1", kept.root / "out" / name)
        assert f"`out/{name.split('/')[0]}` was not written by this output's runs; move it away" in kept.go_on()

    def test_a_file_beside_the_batches(self, kept):
        (kept.root / "out" / "extra.parquet").write_bytes(b"PAR1")
        assert "`out/extra.parquet` was not written by this output's runs; move it away" in kept.go_on()
        (kept.root / "out" / "extra.parquet").rename(kept.root / "out" / ".DS_Store")
        assert kept.go_on() == "right"

    def test_an_output_of_another_history(self, kept):
        """Both were restored, and went on with other input: the old output and the new checkpoint have equally many."""
        kept.keep_both("4")
        kept.go_on()
        kept.keep("out", "5")
        kept.restore("out", "4")
        kept.restore("out.checkpoint", "4")
        kept.add()
        kept.spark().run(1)
        offsets = kept.root / "out.checkpoint" / "spark" / "offsets" / "4"
        assert offsets.exists()
        kept.restore("out", "5")
        offsets.write_text(offsets.read_text().replace("Timestamp", "Timestanp"))
        (kept.root / "out.checkpoint" / "manifest.jsonl").write_text("{}\n")
        assert "batch 4 of the output answers other input than batch 4 of the checkpoint" in kept.go_on()

    def test_the_checkpoint(self, kept):
        shutil.rmtree(kept.root / "out.checkpoint")
        assert "out holds the output of another run" in kept.go_on()


class TestForeignFiles:
    """Copies under other numbers, which Spark would believe."""

    @pytest.fixture
    def kept(self, scene) -> Scene:
        """Versions 1 to 6 of the state, with snapshots of 1, 3 and 5 that were written down."""
        scene.add(6)
        spark = scene.spark()
        spark.uploads = (1, 3, 5)
        spark.run()
        return scene

    @property
    def store(self) -> str:
        return "out.checkpoint/spark/state/0/0"

    def snapshots(self, scene: Scene) -> list[str]:
        return sorted(path.name for path in (scene.root / self.store).glob("*.zip"))

    def copy(self, scene: Scene, name: str, target: str) -> Path:
        root = scene.root / "out.checkpoint" / "spark"
        shutil.copy(root / name, root / target)
        return root / target

    @pytest.mark.parametrize("number", [2, 4, 6, 7, 8])
    def test_a_snapshot_under_another_number_is_not_gone_on_from(self, kept, number):
        """Nor is one of a version that is yet to come: it would be loaded after that."""
        self.copy(kept, "state/0/0/1.zip", f"state/0/0/{number}.zip")
        (kept.root / self.store / f".{number}.zip.crc").write_bytes(b"of the copy")
        assert kept.go_on() == "right"
        assert self.snapshots(kept) == ["1.zip", "3.zip", "5.zip"]
        assert not list((kept.root / self.store).glob(".*"))
        assert kept.go_on() == "right"
        assert kept.go_on() == "right"

    @pytest.mark.parametrize("number", [4, 6])
    def test_a_snapshot_that_spark_wrote_after_the_last_batch_is_done_without(self, kept, number):
        kept.spark().upload(number)
        assert kept.go_on() == "right"
        assert self.snapshots(kept) == ["1.zip", "3.zip", "5.zip"]

    @pytest.mark.parametrize("gone", ["5.zip", "6.changelog"])
    def test_one_without_which_the_state_cannot_be_reached_is_not_believed(self, kept, gone):
        kept.spark().upload(6)
        (kept.root / self.store / gone).unlink()
        assert f"{self.store}/{gone} is missing, without which the run cannot go on" in kept.go_on()
        assert "6.zip" in self.snapshots(kept), "nothing is removed"

    def test_nothing_is_removed_that_an_old_manifest_does_not_know(self, kept):
        """As when it was restored alone: then the snapshots may be all there is, as Spark removes old change logs."""
        (kept.root / "out.checkpoint" / "manifest.jsonl").write_text("{}\n")
        (kept.root / self.store / "1.changelog").unlink()
        assert f"{self.store}/1.changelog is missing" in kept.go_on()
        assert self.snapshots(kept) == ["1.zip", "3.zip", "5.zip"]

    def test_one_of_batches_that_a_repair_has_removed(self, kept):
        """The input is cut anew, so it would be the state after other rows."""
        kept.spark().upload(6)
        for log in ("offsets", "commits"):
            (kept.root / "out.checkpoint" / "spark" / log / "5").unlink()
        make(*find_repairs([Job.alone(kept.run)]))
        assert kept.go_on() == "right"
        assert self.snapshots(kept) == ["1.zip", "3.zip", "5.zip"]

    @pytest.mark.parametrize(
        ("name", "target", "reason"),
        [
            ("sources/1/3", "sources/1/6", "it holds entry 3 of the log"),
            ("sources/1/3", "sources/1/9.compact", "it holds entry 3 of the log"),
            ("commits/3", "sources/1/6", "it is no log of files"),
            ("offsets/3", "offsets/6", "it goes back behind the batch before it"),
            ("state/0/0/3.zip", "offsets/6", "it is no log of Spark's"),
        ],
    )
    def test_a_log_under_another_number_is_refused_by_name(self, kept, name, target, reason):
        path = self.copy(kept, name, target)
        assert kept.go_on() == (
            f"{path} was not written by the runs of this checkpoint: {reason}; move it away, restore what belongs "
            "there from a backup, or run with --fresh to start afresh"
        )
        path.unlink()
        assert kept.go_on() == "right"

    def test_a_commit_of_a_batch_that_was_not_run_is_refused(self, kept):
        self.copy(kept, "commits/5", "commits/6")
        assert "out lacks batch 6" in kept.go_on()

    @pytest.mark.parametrize("log", ["offsets", "commits", "sources/1"])
    def test_a_directory_under_a_number_is_refused(self, kept, log):
        path = kept.root / "out.checkpoint" / "spark" / log / "6"
        path.mkdir()
        assert re.search(rf"{log}/6 was not written by|out lacks batch 6", kept.go_on())


class TestDirectoriesInPlaceOfFiles:
    @pytest.fixture
    def kept(self, scene) -> Scene:
        scene.add(4)
        scene.spark().run()
        return scene

    @pytest.mark.parametrize(
        "name",
        ["sash.json", "manifest.jsonl", "spark/metadata", "spark/offsets/2", "spark/commits/2", "spark/sources/1/2"],
    )
    def test_each_is_refused_by_name(self, kept, name):
        path = kept.root / "out.checkpoint" / name
        path.unlink()
        path.mkdir()
        assert f"{path} is damaged: it is a directory, not a file; restore it from a backup, or" in kept.go_on()

    def test_a_control_file(self, kept):
        (kept.root / "out.checkpoint" / "control" / "x.json").mkdir()
        assert "control/x.json` was not written by this run: it is a directory; move it away" in kept.go_on()

    def test_a_log_that_is_a_file(self, kept):
        shutil.rmtree(kept.root / "out.checkpoint" / "spark" / "commits")
        (kept.root / "out.checkpoint" / "spark" / "commits").touch()
        assert "commits/0 is damaged: a part of its path is a file" in kept.go_on()

    @pytest.mark.parametrize("place", ["out", "out.rejects", "out.late/s"])
    def test_a_file_in_place_of_a_batch(self, kept, place):
        path = kept.root / place / "batch=9"
        if place != "out":
            shutil.copytree(kept.root / "out", path.parent, ignore=lambda *_: ["batch=0", "batch=1"])
            shutil.copy(kept.root / "out" / MARK, kept.root / place.partition("/")[0] / MARK)
        path.touch()
        assert f"`{place}/batch=9` is a file, where a batch has a directory; restore that" in kept.go_on()


def test_damaged_checksums_of_hadoop_s_do_not_matter(scene):
    """Each file was held against a hash that Sash has; without them Spark reads the files as well."""
    scene.add(3)
    scene.spark().run()
    spark = scene.root / "out.checkpoint" / "spark"
    names = ("metadata", "offsets/2", "commits/2", "sources/1/2", "state/0/0/3.changelog")
    sums = [(spark / name).with_name(f".{Path(name).name}.crc") for name in names]
    for path in sums:
        path.write_bytes(b"crc\0flipped")
    right = spark / "offsets" / ".1.crc"
    right.write_bytes(b"crc\0\0\0\2\0" + zlib.crc32((spark / "offsets" / "1").read_bytes()).to_bytes(4))
    (spark / "offsets" / ".3.crc").write_bytes(b"of a file that Spark is about to write")
    assert scene.go_on() == "right"
    assert not any(path.exists() for path in sums)
    assert right.exists()


@pytest.mark.parametrize("scheme", ["hdfs", "s3"])
def test_an_output_on_another_file_system_is_refused_on_spark(scene, scheme):
    """Its checkpoint would be there too, and could not be looked at."""
    (run,) = bind_script(SCRIPT.format(root=scene.root).replace(f"INTO '{scene.root}", f"INTO '{scheme}://host")).runs()
    for attempt in (lambda: check_outputs([Job.alone(run)], may_resume=True), lambda: find_repairs([Job.alone(run)])):
        with pytest.raises(PlanError) as refused:
            attempt()
        assert str(refused.value) == (
            "on Spark a query writes INTO a local directory, or one that is mounted: its checkpoint would be "
            f"{scheme}://host/out.checkpoint, and what is there cannot be checked before a run goes on; write INTO a "
            f"path without `{scheme}://`, or run with --engine embedded"
        )


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def delete(path: Path) -> None:
    path.unlink()


def swap(path: Path) -> None:
    """With a file of the same kind, or with nothing else than zeros."""
    others = [each for each in sorted(path.parent.iterdir()) if each.is_file() and each != path]
    if not others:
        path.write_bytes(bytes(path.stat().st_size))
        return
    content, other = path.read_bytes(), others[0].read_bytes()
    path.write_bytes(other)
    others[0].write_bytes(content)


def add_foreign(path: Path) -> None:
    path.with_name("foreign").write_text("not Sash's")


CORRUPTIONS: dict[str, Callable[[Path], None]] = {
    "flip": flip,
    "truncate": truncate,
    "delete": delete,
    "swap": swap,
    "foreign": add_foreign,
}
KINDS = {
    "mark of the checkpoint": "out.checkpoint/sash.json",
    "hashes": "out.checkpoint/manifest.jsonl",
    "metadata": "out.checkpoint/spark/metadata",
    "offsets": "out.checkpoint/spark/offsets/[0-9]*",
    "commits": "out.checkpoint/spark/commits/[0-9]*",
    "sources": "out.checkpoint/spark/sources/1/[0-9]*",
    "state": "out.checkpoint/spark/state/0/0/[0-9]*",
    "manifest of the output": f"out/{MARK}",
    "staging": ".out.staging/batch=9/*",
}
HARMLESS = {
    ("hashes", "foreign"),
    ("metadata", "foreign"),
    ("offsets", "foreign"),
    ("commits", "foreign"),
    ("sources", "foreign"),
    ("state", "foreign"),
    ("mark of the checkpoint", "foreign"),
    *((kind, how) for kind in ("staging", "hashes") for how in (*CORRUPTIONS, "older")),
}
"""What a run may go on from, rightly. Hashes decide nothing."""


OUTCOMES = """
                         flip truncate delete swap foreign older
mark of the checkpoint   r    r        r      r    g       g
hashes                   r    g        r      r    g       g
metadata                 r    r        r      r    g       g
offsets                  rrrr rrrr     grrr   rrrr gggg    gggg
commits                  rrr  rrr      grr    ggg  ggg     ggg
sources                  rrrr rrrr     rrrr   rrrr gggg    gggg
state                    rrrg rrrg     rrrg   rrrr gggg    gggg
manifest of the output   r    r        r      r    r       r
staging                  g    g        g      g    g       g
"""
"""For each file of a kind, oldest first: refused, or goes on rightly. All commits are alike, so that swapping them
is no change; a log has no older state of a file, as each is written once."""


def outcomes_of(kind: str) -> dict[str, str]:
    heading, *lines = OUTCOMES.strip("\n").splitlines()
    (line,) = [line for line in lines if line.startswith(kind)]
    return dict(zip(heading.split(), line.removeprefix(kind).split(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_corruptions(scene, kind):
    """Of every file of a kind, in every way: refused with its name, or right."""
    scene.add(2)
    scene.spark().run()
    scene.keep_both("older")
    scene.add(2)
    scene.spark().run(1)
    scene.spark().run(1, die_before_commit=True)
    staged = scene.root / ".out.staging" / "batch=9" / "part-00-0.parquet.staged"
    staged.parent.mkdir(parents=True, exist_ok=True)
    staged.write_bytes(b"of a run that died")
    shutil.copytree(scene.root / ".out.staging", scene.root / "backups" / ".out.staging-now")
    scene.keep_both("now")
    outcomes = dict.fromkeys([*CORRUPTIONS, "older"], "")
    for name in [str(path.relative_to(scene.root)) for path in sorted(scene.root.glob(KINDS[kind]))]:
        for how, corrupt in [*CORRUPTIONS.items(), ("older", make_older(scene))]:
            for what in ("out", "out.checkpoint", ".out.staging"):
                scene.restore(what, "now")
            path = scene.root / name
            before = path.read_bytes()
            corrupt(path)
            outcome = scene.go_on()
            is_changed = how == "foreign" or not path.exists() or path.read_bytes() != before
            outcomes[how] += "g" if outcome == "right" else "r"
            if outcome == "right":
                forget_last(scene)
                assert (kind, how) in HARMLESS or not is_changed or is_at_an_end(name), (name, how)
            else:
                assert "out" in outcome, "it says where"
    assert outcomes == outcomes_of(kind)


def make_older(scene: Scene) -> Callable[[Path], None]:
    def restore_older(path: Path) -> None:
        top, _, rest = str(path.relative_to(scene.root)).partition("/")
        older = scene.root / "backups" / f"{top}-older" / rest
        if older.exists():
            shutil.copy(older, path)

    return restore_older


def forget_last(scene: Scene) -> None:
    """Takes the file back that `go_on` has added."""
    scene.n_files -= 1
    (scene.root / "in" / f"{scene.n_files:03d}").unlink()


def is_at_an_end(name: str) -> bool:
    """What Spark removes with time; and the state of the newest batch, which runs again."""
    return name.endswith(("offsets/0", "commits/0", "state/0/0/4.changelog"))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_that_fails_at_any_operation_is_gone_on_from(scene, disk, monkeypatch, fault):
    """Of ledger, manifest and checkpoint together; twice in a row, the second time soon after the first."""
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    scene.add(2)
    operations = Operations()
    disk(operations)
    scene.spark().run()
    disk(Operations())
    n_operations = len(operations.seen)
    assert n_operations > 30
    for at in range(n_operations):
        for again in range(0, 12, 1 if is_deep() else 5):
            for what in ("out", "out.checkpoint", ".out.staging"):
                shutil.rmtree(scene.root / what, ignore_errors=True)
            for fail_at in (at, again):
                disk(Operations(fail_at, FAULTS[fault]))
                with suppress(Death, SashError):
                    scene.spark().run()
            disk(Operations())
            if again == 0:  # afresh, instead of going on
                remove_outputs([scene.run], str(scene.root / "joins"))
                assert scene.answer() == []
            scene.spark().run()
            assert scene.is_right(), (at, again, scene.answer())
            assert not list(scene.root.glob(".out.staging/**/*.parquet*"))


def test_a_changed_query_is_refused_with_both_texts(scene):
    """Also when there is no new file, and before Spark is started."""
    scene.add(2)
    scene.spark().run()
    text = SCRIPT.format(root=scene.root).replace("SELECT v FROM", "SELECT v, v + 1 AS w FROM")
    (changed,) = bind_script(text).runs()
    with pytest.raises(SourceError) as refused:
        FakeSpark(Job.alone(changed), scene.root / "in").run()
    said = str(refused.value)
    assert "before:\n    SELECT v FROM s [RANGE 1 MINUTE]\n" in said
    assert "now:\n    SELECT v, v + 1 AS w FROM s [RANGE 1 MINUTE]" in said
    assert not re.search(r"[0-9a-f]{16}", said), "no hashes"


DECLARED = "CREATE STREAM s (v INT, ts TIMESTAMP) TIMESTAMP BY ts{} FROM '{}/in' FORMAT csv"


@pytest.mark.parametrize("clause", ["SLACK 5 SECONDS", "AHEAD 1 HOUR", ", v"])
def test_a_changed_stream_is_refused_with_both_declarations(scene, clause):
    """The query is as it was, so that its text would say nothing."""
    scene.add(2)
    scene.spark().run()
    (changed,) = bind_script(SCRIPT.format(root=scene.root).replace("BY ts", f"BY ts {clause}")).runs()
    with pytest.raises(SourceError) as refused:
        FakeSpark(Job.alone(changed), scene.root / "in").run()
    before, now = DECLARED.format("", scene.root), DECLARED.format(f" {clause}", scene.root)
    assert str(refused.value).endswith(f"\n  before:\n    {before}\n  now:\n    {now}")


def test_a_declaration_is_noted_and_shown_without_secrets(scene):
    text = SCRIPT.format(root=scene.root)
    (secret,) = bind_script(text.replace("FORMAT csv", "FORMAT csv /* token = 'TOPSECRET' */", 1)).runs()
    FakeSpark(Job.alone(secret), scene.root / "in").run()
    assert "TOPSECRET" not in (scene.root / "out.checkpoint" / "sash.json").read_text()
    (changed,) = bind_script(text.replace("BY ts", "BY ts /* token = 'TOPSECRET' */ SLACK 1 SECOND")).runs()
    with pytest.raises(SourceError, match="SLACK 1 SECOND") as refused:
        FakeSpark(Job.alone(changed), scene.root / "in").run()
    assert "TOPSECRET" not in str(refused.value)


def test_a_query_that_is_only_planned_otherwise_is_told_so(scene):
    scene.add(2)
    scene.spark().run()
    changed = replace(scene.run, plan=replace(scene.run.plan, outputs=()))
    with pytest.raises(SourceError, match=r"its text is what it was: it is planned otherwise, as by another version"):
        FakeSpark(Job.alone(changed), scene.root / "in").run()


def test_another_format_is_refused(scene):
    scene.add(2)
    scene.spark().run()
    (changed,) = bind_script(SCRIPT.format(root=scene.root).replace("out' FORMAT parquet", "out' FORMAT csv")).runs()
    with pytest.raises(SourceError, match="out holds files of format `parquet`, but `q` writes `csv` now"):
        FakeSpark(Job.alone(changed), scene.root / "in").run()


def test_moved_output_and_checkpoint_are_gone_on_from(scene, tmp_path):
    scene.add(2)
    scene.spark().run()
    (scene.root / "elsewhere").mkdir()
    for name in ("out", "out.checkpoint"):
        (scene.root / name).rename(scene.root / "elsewhere" / name)
    scene.add()
    (moved,) = bind_script(SCRIPT.format(root=scene.root).replace("/out'", "/elsewhere/out'")).runs()
    FakeSpark(Job.alone(moved), scene.root / "in").run()
    values = [v for path in scene.root.glob("elsewhere/out/*/*") for v in pq.read_table(path)["v"].to_pylist()]
    assert sorted(values) == [0, 1, 2]


def test_the_manifest_says_which_files_a_batch_has(scene):
    scene.add(2)
    scene.spark().run()
    head, *lines = map(json.loads, (scene.root / "out" / MARK).read_text().splitlines())
    assert (head["query"], head["text"]) == ("q", "SELECT v FROM s [RANGE 1 MINUTE]")
    assert [line["batch"] for line in lines] == [0, 1]
    for line in lines:
        (name,) = line["files"][""]
        assert (scene.root / "out" / f"batch={line['batch']}" / name).stat().st_size == line["files"][""][name][0]
