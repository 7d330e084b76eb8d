"""`python -m planted`: plants every mistake in a copy of Sash, and tells which test noticed it.

    PYTHONPATH=tests python -m planted
    PYTHONPATH=tests python -m planted --only a-tie-broken-by-arrival an-expired-group-that-stays
    PYTHONPATH=tests python -m planted --family membership

A test counts only if it passes without the mistake. Ends with 1 if a mistake was not noticed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from planted.mistake import Mistake
from planted.mistakes import MISTAKES
from planted.orchard import Orchard, Outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mistakes alone")
    parser.add_argument("--family", nargs="+", help="the mistakes in these operators, rules, kernels or clauses alone")
    parser.add_argument("--timeout", type=float, default=900.0, metavar="SECONDS", help="for each run of tests")
    asked = parser.parse_args()
    chosen = [each for each in MISTAKES if _is_asked_for(each, asked)]
    if not chosen:
        parser.error(f"no mistake has such a name or family; there are {len(MISTAKES)}, see tests/planted/mistakes.py")
    with tempfile.TemporaryDirectory(prefix="planted-") as directory:
        orchard = Orchard(Path(directory), asked.timeout)
        outcomes = [_try_out(orchard, each, number, len(chosen)) for number, each in enumerate(chosen, 1)]
        tests = sorted({each.caught_by for each in outcomes if each.caught_by})
        print(f"\n{len(tests)} tests noticed something; do they pass without a mistake?", flush=True)
        failing = orchard.failing_by_themselves(tests) if tests else None
    return report(outcomes, failing)


def _is_asked_for(mistake: Mistake, asked: argparse.Namespace) -> bool:
    is_named = asked.only is None or mistake.name in asked.only
    return is_named and (asked.family is None or mistake.family in asked.family)


def _try_out(orchard: Orchard, mistake: Mistake, number: int, n_all: int) -> Outcome:
    outcome = orchard.try_out(mistake)
    noticed = outcome.caught_by or outcome.remark or "NOBODY NOTICED"
    print(f"{number:3}/{n_all}  {outcome.seconds:5.0f} s  {mistake.name}: {noticed}", flush=True)
    return outcome


def report(outcomes: list[Outcome], failing: str | None) -> int:
    """Prints the table; returns how the process is to end."""
    widths = [max(len(text) for text in column) for column in zip(*(_names(each) for each in outcomes))]
    print()
    for each in outcomes:
        name, family = (text.ljust(width) for text, width in zip(_names(each), widths))
        print(f"{name}  {family}  {each.seconds:5.0f} s  {each.caught_by or each.remark or 'NOBODY NOTICED'}")
    n_caught = sum(each.caught_by is not None for each in outcomes)
    print(f"\n{n_caught} of {len(outcomes)} mistakes were noticed")
    if failing is not None:
        print(f"but without a mistake, this does not pass either: {failing}")
    return 0 if n_caught == len(outcomes) and failing is None else 1


def _names(outcome: Outcome) -> tuple[str, str]:
    return outcome.mistake.name, outcome.mistake.family


if __name__ == "__main__":
    sys.exit(main())
