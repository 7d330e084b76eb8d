"""Outputs and checkpoints of real Spark, restored from backups of different times: gone on from rightly, or refused.

What is refused, and what a repair does, is shown in detail in tests/faults; here, that Spark goes on from what is let
pass.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from pyspark.sql import SparkSession

from sash.errors import SourceError
from sash.runtime.job import Job, QueryRun, Tally
from sash.spark.spark_run import run_on_spark
from sash.spark.surplus_removal import find_repairs, make

pytestmark = pytest.mark.slow
N_FILES = 7
PARTS = ("out", "out.checkpoint")


class Backups:
    """A run over files of two streams, one of each in a batch; backups are made in the middle of every batch, when it
    is published and not committed."""

    def __init__(self, folder, spark: SparkSession):
        self.folder, self.spark = folder, spark
        self.n_files = 0

    @property
    def run(self) -> QueryRun:
        return self.folder.run("out")

    def add(self, n_files: int = 1) -> None:
        for _ in range(n_files):
            low = 3 * self.n_files
            self.folder.write("a", [f"{low + i},k{i % 2},{low + i}" for i in range(3)])
            self.folder.write("b", [f"{low + i},k{i % 2},{low + i}" for i in range(3)])
            self.n_files += 1

    def go_on(self, report: Callable[[str, Tally], None] = lambda name, tally: None) -> None:
        run_on_spark([Job.alone(self.run)], self.spark, report, files_per_batch=1)

    def keep(self, name: str, tally: Tally) -> None:
        for part in PARTS:
            shutil.copytree(self.folder.root / part, self.backup(part, tally.n_batches - 1))

    def backup(self, part: str, batch: int) -> Path:
        return self.folder.root / "backups" / f"{part}-{batch}"

    def restore(self, part: str, batch: int) -> None:
        shutil.rmtree(self.folder.root / part)
        shutil.copytree(self.backup(part, batch), self.folder.root / part)


@pytest.fixture(scope="module")
def made(spark, tmp_path_factory) -> Backups:
    from tests.spark.conftest import StreamFolder

    backups = Backups(StreamFolder(tmp_path_factory.mktemp("backups")), spark)
    backups.add(N_FILES)
    backups.go_on(backups.keep)
    return backups


@pytest.fixture
def backups(made, tmp_path) -> Iterator[Backups]:
    """Files, output, checkpoint and backups as they are after the run."""
    saved = tmp_path / "saved"
    shutil.copytree(made.folder.root, saved)
    n_files, n_written = made.n_files, made.folder._n_files
    yield made
    shutil.rmtree(made.folder.root)
    shutil.copytree(saved, made.folder.root)
    made.n_files, made.folder._n_files = n_files, n_written


@pytest.fixture
def check(backups, outputs) -> Callable[[], None]:
    """Brings one more file of each stream, goes on, and compares with a run in this process over all of them."""

    def go_on() -> None:
        backups.add()
        backups.go_on()
        expected, _ = backups.folder.run_embedded("expected")
        assert outputs(backups.run)[0] == outputs(expected)[0]

    return go_on


PAIRS = [(i, j) for i in range(N_FILES) for j in range(N_FILES)]
GO_ON = [(i, j) for i, j in PAIRS if i - j in (0, 1)]
"""A checkpoint that has planned batch i runs it again, whether the output has it already, or not yet."""


@pytest.mark.parametrize(("i", "j"), GO_ON if settings.get_current_profile_name() == "deep" else [(2, 2), (5, 4)])
def test_pairs_that_belong_together_are_gone_on_from(backups, check, i, j):
    backups.restore("out.checkpoint", i)
    backups.restore("out", j)
    check()


def test_pairs_that_do_not_belong_together_are_refused(backups):
    for i, j in set(PAIRS) - set(GO_ON):
        backups.restore("out.checkpoint", i)
        backups.restore("out", j)
        with pytest.raises(SourceError) as refused:
            backups.go_on()
        said = "out has batch" if i < j else "out lacks batch"
        assert said in str(refused.value)


def test_a_checkpoint_that_was_restored_goes_on_after_a_repair(backups, check):
    backups.restore("out.checkpoint", 3)
    with pytest.raises(SourceError, match=r"out has batches 4 to \d, which its checkpoint knows nothing of"):
        backups.go_on()
    make(*find_repairs([Job.alone(backups.run)]))
    check()


def test_lost_logs_go_on_after_a_repair(backups, check):
    logs = backups.folder.root / "out.checkpoint" / "spark"
    newest = max(int(path.name) for path in (logs / "offsets").glob("[0-9]*"))
    for log in ("offsets", "commits"):
        (logs / log / str(newest)).unlink()
        (logs / log / f".{newest}.crc").unlink()
    with pytest.raises(SourceError, match=rf"out has batch {newest}, which its checkpoint knows nothing of"):
        backups.go_on()
    make(*find_repairs([Job.alone(backups.run)]))
    check()


def test_a_lost_checkpoint_of_spark_s_begins_anew_after_a_repair(backups, check):
    shutil.rmtree(backups.folder.root / "out.checkpoint" / "spark")
    with pytest.raises(SourceError, match=r"out has batches 0 to \d, which its checkpoint knows nothing of"):
        backups.go_on()
    make(*find_repairs([Job.alone(backups.run)]))
    check()


def test_a_log_of_files_that_is_gone_is_not_read_without(backups):
    log = backups.folder.root / "out.checkpoint" / "spark" / "sources" / "1"
    for path in sorted(log.glob("[0-9]*")):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(SourceError, match=rf"sources/1/{path.name} is missing"):
            backups.go_on()
        path.write_bytes(content)


def test_damaged_checksums_of_hadoop_s_do_no_harm(backups, check):
    sums = list((backups.folder.root / "out.checkpoint" / "spark").rglob(".*.crc"))
    assert len(sums) > 20
    for path in sums:
        content = path.read_bytes()
        path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    check()


def test_what_a_killed_run_left_in_staging_is_not_published(spark, folder, outputs):
    folder.write("a", ["1,x,1"])
    folder.write("b", ["1,x,1"])
    expected, _ = folder.run_embedded("embedded")
    (part,) = (folder.root / "embedded").glob("*/*.parquet")
    for name in ("ready/batch=0", "batch=0", "rejects/batch=0"):
        (folder.root / ".out.staging" / name).mkdir(parents=True)
        shutil.copy(part, folder.root / ".out.staging" / name / "part-00000-1-1.parquet")
    run = folder.run("out")
    run_on_spark([Job.alone(run)], spark, lambda name, tally: None)
    assert outputs(run) == outputs(expected)
    assert not list(folder.root.glob(".out.staging/**/*.parquet"))
