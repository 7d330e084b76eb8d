"""Every mistake can still be planted, and everything has one. Who notices them is for `make planted` to say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from planted.mistake import Mistake
from planted.mistakes import MISTAKES
from planted.orchard import KERNELS, SOURCE

FOLDERS = ("operators", "operators/accumulators", "plan/rules")
"""Each module of these has a mistake of its own, and so has each that numba compiles."""
HARMLESS = {
    "operators/accumulators/aggregate_runs.py",  # protocols
    "operators/accumulators/manner.py",  # what is said of an aggregate
    "operators/evaluator.py",  # hands expressions to DuckDB
    "operators/operator.py",  # protocols
    "operators/operator_kinds.py",  # which operator runs what
    "operators/operator_names.py",  # names
    "operators/operator_set.py",  # names of what operators keep
    "kernels/gather.py",  # copies
}
"""Modules in which a mistake would be seen at once, or would not change what is answered."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_can_be_planted(mistake: Mistake) -> None:
    text = (SOURCE / mistake.path).read_text()
    planted = mistake.planted_in(text)
    assert planted != text
    compile(planted, mistake.path, "exec")


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_those_who_should_notice_are_there(mistake: Mistake) -> None:
    assert mistake.noticed_by
    for arguments in mistake.noticed_by:
        path = arguments.split()[0].split("::")[0]
        assert (SOURCE.parents[1] / path).exists(), path


def test_mistakes_have_names_of_their_own() -> None:
    assert not [name for name, n_mistakes in Counter(each.name for each in MISTAKES).items() if n_mistakes > 1]
    assert len({(each.path, each.right, each.wrong) for each in MISTAKES}) == len(MISTAKES)


def test_everything_has_a_mistake() -> None:
    modules = {_name(path) for folder in FOLDERS for path in (SOURCE / folder).glob("*.py") if path.stem != "__init__"}
    kernels = (path for folder in KERNELS for path in (SOURCE / folder).glob("*.py"))
    modules |= {_name(path) for path in kernels if "from sash.kernels.jit import" in path.read_text()}
    assert modules >= HARMLESS
    assert not modules - HARMLESS - {each.path for each in MISTAKES}


def _name(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def test_a_mistake_that_fits_twice_or_nowhere_is_refused() -> None:
    mistake = Mistake("less-for-more", "comparisons", "here.py", "a < b", "a > b")
    assert mistake.planted_in("x = a < b") == "x = a > b"
    for text in ("x = a <= b", "x = a < b or a < b"):
        with pytest.raises(ValueError, match="instead of once"):
            mistake.planted_in(text)
