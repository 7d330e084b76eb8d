"""`sash repair`: an older checkpoint was restored; what the output has beyond it is removed, and the run goes on."""

from __future__ import annotations

import io

import pytest
from tests.faults.conftest import Death, Operations
from tests.faults.test_checkpoints import SCRIPT, Scene

from sash.errors import SourceError
from sash.runtime.job import Job
from sash.runtime.script import read_script
from sash.spark.surplus_removal import find_repairs, make


@pytest.fixture
def scene(place) -> Scene:
    """The checkpoint is that of batch 1, the output has four."""
    (place.root / "in").rmdir()
    scene = Scene(place.root)
    (place.root / "script.sql").write_text(SCRIPT.format(root=place.root))
    scene.add(2)
    scene.spark().run()
    scene.keep_both("older")
    scene.add(2)
    scene.spark().run()
    scene.keep_both("newer")
    scene.restore("out.checkpoint", "older")
    return scene


@pytest.mark.slow
def test_it_asks_and_removes(scene, sash, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    done = sash("repair", "script.sql")
    assert (done.code, done.stderr) == (1, "")
    assert done.said.endswith("Remove these batches? [y/N]: nothing was removed")
    assert "out: remove batches 2 to 3, beyond its checkpoint (it has come to batch 1)" in done.said
    assert scene.answer() == [0, 1, 2, 3]
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    done = sash("repair", "script.sql")
    assert done.code == 0, done.said
    assert scene.answer() == [0, 1]
    assert scene.go_on() == "right"


def test_it_can_be_told_not_to_ask(scene, sash):
    assert sash("repair", "script.sql", "--yes").code == 0
    assert scene.answer() == [0, 1]
    again = sash("repair", "script.sql")
    assert (again.code, again.stdout) == (0, "nothing to repair: outputs and checkpoints belong together\n")


def test_a_run_says_how_to_get_out_before_spark_starts(scene, sash):
    done = sash("run", "script.sql")
    assert done.is_refused
    assert "out has batches 2 to 3, which its checkpoint knows nothing of (it has come to batch 1)" in done.said
    assert "remove what the output has beyond it with `sash repair FILE.sql`" in done.said
    assert scene.answer() == [0, 1, 2, 3]


def test_what_no_removal_repairs_is_said(scene, sash):
    scene.restore("out", "older")
    scene.restore("out.checkpoint", "newer")
    done = sash("repair", "script.sql", "--yes")
    assert done.is_refused
    assert "out lacks batches 2 to 3, which its checkpoint has answered" in done.said


def test_a_fresh_run_removes_both(scene, sash, monkeypatch):
    monkeypatch.setattr("sash.cli.run._run_engine", lambda *arguments: {})
    monkeypatch.setattr("sash.cli.run.show_changes", lambda *arguments: None)
    monkeypatch.setattr("sash.cli.run.show_summary", lambda *arguments: None)
    assert sash("run", "script.sql", "--fresh").code == 0
    assert not (scene.root / "out").exists()
    assert not (scene.root / "out.checkpoint").exists()
    scene.spark().run()
    assert scene.is_right()


@pytest.mark.slow
def test_a_repair_that_dies_at_any_operation_is_repaired_again(scene, disk):
    operations = Operations()
    disk(operations)
    make(*find_repairs([Job.alone(scene.run)]))
    disk(Operations())
    for at in range(len(operations.seen)):
        scene.restore("out", "newer")
        scene.restore("out.checkpoint", "older")
        disk(Operations(at))
        with pytest.raises(Death):
            make(*find_repairs([Job.alone(scene.run)]))
        disk(Operations())
        for each in find_repairs([Job.alone(scene.run)]):
            make(each)
        assert scene.answer() == [0, 1]
        assert scene.go_on() == "right"
        scene.n_files -= 1
        (scene.root / "in" / f"{scene.n_files:03d}").unlink()


def test_words_that_a_run_was_told_later_are_forgotten(scene):
    control = scene.root / "out.checkpoint" / "control"
    (control / "unheard.json").write_text('{"stream": "", "complete_us": null}')
    make(*find_repairs([Job.alone(scene.run)]))
    assert list(control.iterdir()) == []


def test_there_is_nothing_to_repair_without_a_checkpoint(place, sash):
    place.write(1)
    assert "nothing to repair" in sash("repair", "script.sql").stdout
    assert sash("run", "script.sql", "--engine", "embedded").code == 0
    assert "run with --fresh to replace it" in sash("repair", "script.sql").said
    with pytest.raises(SourceError, match="holds the output of another run"):
        find_repairs([Job.alone(run) for run in read_script("script.sql").runs()])
