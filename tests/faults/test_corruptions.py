"""Runs in this process, over outputs that were damaged, restored or tampered with: refused by name, or right."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.faults.conftest import Operations, Place
from tests.faults.test_checkpoints import CORRUPTIONS

from sash.io.manifest import MARK

FILES = [
    f"out/q/{MARK}",
    f"out/q.late/{MARK}",
    f"out/q.rejects/{MARK}",
    "out/q/batch=1/*",
    "out/q.late/s/batch=3/*",
    "out/q.rejects/batch=3/*",
    "out/.q.staging/batch=7/*",
    "out/.q.staging/ready/batch=0/*",
    "out/.q.lock",
]


@pytest.fixture
def damaged(place, embedded, disk) -> Callable[[str, str], Place]:
    """The output of a whole run, and what a run that died left in staging, after a corruption of one file."""
    place.write(1, 2, 3, late=4)
    assert embedded().code == 0
    for name in ("batch=7/part-00-0.csv.staged", "ready/batch=0/part-00-0.csv"):
        path = place.root / "out" / ".q.staging" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("v\n666\n")
    (place.root / "out" / ".q.lock").write_text('{"pid": 1, "host": "gone", "since": "long ago"}')
    shutil.copytree(place.root / "out", place.root / "backup")
    disk(Operations())

    def damage(pattern: str, how: str) -> Place:
        shutil.rmtree(place.root / "out")
        shutil.copytree(place.root / "backup", place.root / "out")
        (path,) = place.root.glob(pattern)
        CORRUPTIONS[how](path)
        return place

    return damage


@pytest.mark.slow
@pytest.mark.parametrize("pattern", FILES)
def test_a_damaged_output_is_not_mixed_with_a_new_one(damaged, embedded, pattern):
    for how in CORRUPTIONS:
        place = damaged(pattern, how)
        place.write(1, 2, 3, 5, late=4)
        before = place.answer() if how in ("foreign", "delete") else None
        done = embedded()
        assert done.is_refused, (pattern, how, done)
        assert "out/q" in done.said
        assert before is None or place.answer() == before
        done = embedded("--fresh")
        assert done.code == 0 or (done.is_refused and "out/q" in done.said), (pattern, how, done)
        if done.code == 0:
            assert (place.answer(), place.late(), len(place.rejects())) == ([1, 2, 3, 5], [4], 1)


@pytest.mark.slow
def test_an_output_that_was_removed_by_hand_leaves_parts_that_are_seen(damaged, embedded):
    place = damaged("out/.q.lock", "delete")
    shutil.rmtree(place.root / "out" / "q")
    done = embedded()
    assert done.is_refused
    assert "out/q holds the output of an earlier run" in done.said
    place.write(9)
    assert embedded("--fresh").code == 0
    assert (place.answer(), place.late(), place.rejects()) == ([9], [], [])


@pytest.mark.slow
def test_an_older_output_is_not_gone_on_from(place, embedded, tmp_path):
    """In this process nothing is: whatever is there has to be replaced as a whole."""
    place.write(1, 2)
    assert embedded().code == 0
    shutil.copytree(place.root / "out", Path(tmp_path) / "backup")
    place.write(1, 2, 3)
    assert embedded("--fresh").code == 0
    shutil.rmtree(place.root / "out")
    shutil.copytree(place.root / "backup", place.root / "out")
    assert embedded().is_refused
    assert embedded("--fresh").code == 0
    assert place.answer() == [1, 2, 3]
