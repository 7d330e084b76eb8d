"""A run in this process dies, or the disk is full, at any operation: nothing is lost, doubled, or of another run.

Every case begins with a run that fails at the nth of all operations on the disk. What it left is whole batches of its
own answer. The next run either refuses to go on, by name, or gives the right answer. After that, with other input,
`--fresh` gives the right answer to that.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress

import pytest
from tests.faults.conftest import FAULTS, SCRIPT, Death, Operations, Place, full_disk, is_deep
from tests.faults.killed_runs import Runner, killed_runs

from sash.errors import SashError

FIRST, FIRST_LATE = [1, 2, 3], 4
OTHER, OTHER_LATE = [71, 72, 73], 74


class RunnerInPlace(Runner):
    """In a directory that can be made anew."""

    def __init__(self, place: Place):
        super().__init__()
        self.place = place

    def begin(self) -> Place:
        """Without any output, and with the first input."""
        begin_from(self.place, set())
        self.place.write(*FIRST, late=FIRST_LATE)
        return self.place


@pytest.fixture
def runner(place, monkeypatch) -> RunnerInPlace:
    """A death that is only told to this process takes nothing from the disk: waiting for it would show nothing."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    place.write(*FIRST, late=FIRST_LATE)
    return RunnerInPlace(place)


def see_operations(runner: Runner, disk, is_fresh: bool) -> list[tuple[str, str]]:
    operations = Operations()
    disk(operations)
    runner.run(is_fresh)
    disk(Operations())
    return operations.seen


def n_releases(operations: list[tuple[str, str]]) -> int:
    """How many operations at the end only let go of locks: the answer is there, whatever becomes of them."""
    is_release = [path.endswith((".lock", "/out", "/sash-output")) for _, path in operations]
    return [*reversed(is_release), False].index(False)


def check_answer(place: Place, values: list[int], late: int) -> None:
    assert place.answer() == values
    assert (place.late(), len(place.rejects())) == ([late], 1)
    assert not list(place.root.glob("out/.q.*/**/*.csv*")), "nothing is left under way"
    assert not list(place.root.glob("out/.*removed*"))


def fail_once(runner: Runner, disk, at: int, fault: str, is_fresh: bool = False) -> None:
    """A run that fails; a full disk is told as such."""
    disk(Operations(at, FAULTS[fault]))
    full = pytest.raises(SashError, match=r"No space left on device|the disk is full; make room")
    with pytest.raises(Death) if fault == "death" else full:
        runner.run(is_fresh)
    disk(Operations())


def go_on(runner: RunnerInPlace, values: list[int], late: int) -> None:
    """A plain run: it is refused, by name, or it gives the whole answer."""
    with suppress(SashError):
        runner.run()
        check_answer(runner.place, values, late)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_first_run_that_fails_at_any_operation(runner, disk, fault):
    operations = see_operations(runner, disk, is_fresh=False)
    assert len(operations) > 90
    assert n_releases(operations) == 4
    for at in range(len(operations) - (n_releases(operations) if fault == "a full disk" else 0)):
        place = runner.begin()
        fail_once(runner, disk, at, fault)
        assert place.answer() == FIRST[: len(place.answer())]
        go_on(runner, FIRST, FIRST_LATE)
        place.write(*OTHER, late=OTHER_LATE)
        runner.run(is_fresh=True)
        check_answer(place, OTHER, OTHER_LATE)


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fresh_run_that_fails_at_any_operation(runner, disk, fault):
    """It fails while it removes what was there, or while it writes anew."""
    runner.run()
    operations = see_operations(runner, disk, is_fresh=True)
    assert len(operations) > 120
    for at in range(len(operations) - (n_releases(operations) if fault == "a full disk" else 0)):
        place = runner.begin()
        runner.run()
        place.write(*OTHER, late=OTHER_LATE)
        fail_once(runner, disk, at, fault, is_fresh=True)
        assert place.answer() in ([values[:n] for values in (FIRST, OTHER) for n in range(4)])
        go_on(runner, OTHER, OTHER_LATE)
        runner.run(is_fresh=True)
        check_answer(place, OTHER, OTHER_LATE)


SHARED = """CREATE STREAM a (v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'in' FORMAT csv;
CREATE STREAM b (v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 'in' FORMAT csv;
CREATE QUERY q AS SELECT A.v FROM a A, b B WHERE A.v = B.v WINDOW 1 MINUTE INTO 'out/q' FORMAT csv;
CREATE QUERY r AS SELECT A.v + 1 AS w FROM a A, b B WHERE A.v = B.v WINDOW 1 HOUR INTO 'out/r' FORMAT csv;
"""
SCRIPTS = {"one query": SCRIPT, "two queries that share a join": SHARED}
Published = dict[str, dict[str, list[bytes]]]


def published(place: Place) -> Published:
    """By directory of an output, and batch in it, what any reader would find there; whatever files are named."""
    found: Published = {}
    for path in sorted(place.root.glob("out/[!.]*/**/batch=*/*")):
        batch = path.parent.relative_to(place.root / "out")
        found.setdefault(batch.parts[0], {}).setdefault(str(batch), []).append(path.read_bytes())
    return found


def is_part(seen: Published, *wholes: Published) -> bool:
    """Whether each directory has nothing but batches of one of these outputs, as they are there."""
    return all(any(each.items() <= whole[name].items() for whole in wholes) for name, each in seen.items())


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("is_fresh", [False, True], ids=["a first run", "a run with --fresh"])
@pytest.mark.parametrize("script", SCRIPTS)
def test_a_process_that_is_killed_at_any_operation(place, disk, monkeypatch, script, is_fresh):
    """A real SIGKILL: nothing is tidied up. In all places if tests are asked for volume, in a handful otherwise."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    (place.root / "script.sql").write_text(SCRIPTS[script])
    place.write(*OTHER, late=OTHER_LATE)
    runner = Runner()
    runner.run()
    other = published(place)
    place.write(*FIRST, late=FIRST_LATE)
    runner.run(is_fresh=True)
    first = published(place)
    assert is_part(first, first)
    assert {name: len(batches) for name, batches in first.items()} == {
        name: len(batches) for name, batches in other.items()
    }
    before = {"out", "sash-output"} & {path.name for path in place.root.iterdir()} if is_fresh else set()
    keep(place, before)
    operations = see_operations_from(place, before, runner, disk, is_fresh)
    places = range(len(operations)) if is_deep() else range(1, len(operations), len(operations) // 4)
    with killed_runs(place.root) as killed:
        for at in places:
            begin_from(place, before)
            place.write(*(OTHER if is_fresh else FIRST), late=OTHER_LATE if is_fresh else FIRST_LATE)
            assert killed.run(at, is_fresh) == -signal.SIGKILL, (at, operations[at])
            assert is_part(published(place), first, *([other] if is_fresh else [])), (at, operations[at])
            with suppress(SashError):
                runner.run()
                assert published(place) == (other if is_fresh else first), (at, operations[at])
            place.write(*OTHER, late=OTHER_LATE)
            runner.run(is_fresh=True)
            assert published(place) == other, (at, operations[at])
            assert not list(place.root.glob("out/.*removed*")) + list(place.root.rglob("*.lock"))


def keep(place: Place, names: set[str]) -> None:
    for name in names:
        shutil.copytree(place.root / name, place.root / "kept" / name)


def begin_from(place: Place, names: set[str]) -> None:
    for name in ("out", "sash-output"):
        shutil.rmtree(place.root / name, ignore_errors=True)
        if name in names:
            shutil.copytree(place.root / "kept" / name, place.root / name)


def see_operations_from(place: Place, names: set[str], runner: Runner, disk, is_fresh: bool) -> list[tuple[str, str]]:
    begin_from(place, names)
    if is_fresh:
        place.write(*OTHER, late=OTHER_LATE)
    return see_operations(runner, disk, is_fresh)


def test_a_full_disk_is_told_with_its_reason(place, embedded, disk):
    place.write(*FIRST)
    disk(Operations(5, full_disk))
    done = embedded()
    assert done.is_refused
    assert "the disk is full; make room, and run again" in done.said
