"""Many generated cases: drawn, checked, counted; what is wrong is made small and shown.

PYTHONPATH=tests python -m support.generated --cases 20000 --seed 1
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from support.generated.choices import Choices, shrink
from support.generated.features import features_of, key_types
from support.generated.run import GeneratedCase, RefusedError, check, draw_case


@dataclass
class Tally:
    """What became of cases."""

    n_right: int = 0
    n_wrong: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    """Why cases were not compared: by the first words of the reason."""
    features: Counter[str] = field(default_factory=Counter)
    """Of the cases that were compared."""
    key_types: Counter[tuple[str, str]] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.n_right += other.n_right
        self.n_wrong += other.n_wrong
        self.refused += other.refused
        self.features += other.features
        self.key_types += other.key_types
        self.problems += other.problems

    @property
    def n_cases(self) -> int:
        return self.n_right + self.n_wrong + self.refused.total()


def check_all(seeds: Iterable[int], n_shrinks: int = 300) -> Tally:
    """Checks the cases of these seeds; the first wrong one of each is made small."""
    tally = Tally()
    for seed in seeds:
        case = draw_case(Choices(seed))
        try:
            problem = check(case)
        except RefusedError as refusal:
            tally.refused[_reason(refusal)] += 1
            continue
        tally.features.update(features_of(case) - {""})
        tally.key_types.update(key_types(case))
        if problem is None:
            tally.n_right += 1
        else:
            tally.n_wrong += 1
            tally.problems.append(describe(seed, case, problem, n_shrinks if tally.n_wrong == 1 else 0))
    return tally


def describe(seed: int, case: GeneratedCase, problem: str, n_shrinks: int) -> str:
    """The case as Python that shows the problem, as small as so many tries make it."""
    if n_shrinks:
        kind = problem.split(":")[0].split(",")[0]
        made = shrink(case.made, lambda made: (_problem(made) or "").startswith(kind), n_shrinks)
        case, problem = draw_case(Choices(replayed=made)), _problem(made) or problem
    return f"seed {seed}: {problem}\n{case}"


def _problem(made: Sequence[int]) -> str | None:
    try:
        return check(draw_case(Choices(replayed=made)))
    except RefusedError:
        return None


def _reason(refusal: RefusedError) -> str:
    """The words of a refusal that do not name anything of the query."""
    words = [word for word in str(refusal).split("\n")[0].split() if "`" not in word]
    return " ".join(words[:8])
