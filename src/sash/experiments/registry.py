"""All experiments, by name."""

from __future__ import annotations

from sash.errors import PlanError, suggest
from sash.experiments import (
    kostowski4,
    kostowski5,
    kostowski6,
    kostowski7,
    kostowski8,
    pipelines8,
    pipelines9,
    pipelines10,
    pipelines11,
    pipelines12,
    shared2b,
    shared3b,
    shared5,
    shared6,
    shared7,
    shared8,
    shared9,
    wjoin7,
    wjoin8,
    wjoin9a,
    wjoin9a_turns,
    wjoin9b,
    wjoin9c,
    wjoin13,
    wjoin14,
)
from sash.experiments.experiment import Experiment

_FIGURES = (
    pipelines8,
    pipelines9,
    pipelines10,
    pipelines11,
    pipelines12,
    kostowski4,
    kostowski5,
    kostowski6,
    kostowski7,
    kostowski8,
    wjoin7,
    wjoin8,
    wjoin9a,
    wjoin9a_turns,
    wjoin9b,
    wjoin9c,
    wjoin13,
    wjoin14,
    shared2b,
    shared3b,
    shared5,
    shared6,
    shared7,
    shared8,
    shared9,
)
EXPERIMENTS: dict[str, Experiment] = {each.EXPERIMENT.name: each.EXPERIMENT for each in _FIGURES}
PAPERS = {each.paper.key: each.paper for each in EXPERIMENTS.values()}
ALL = "all"


def named(text: str) -> list[Experiment]:
    """The experiments of a list with commas, each once: names of experiments, papers or beginnings of them, or all.

    The dash in a name may be left out.
    """
    chosen = [each for name in text.split(",") for each in _named(name.strip().lower())]
    return list({each.name: each for each in chosen}.values())


def of_paper(key: str) -> list[Experiment]:
    """All experiments of a paper."""
    return [each for each in EXPERIMENTS.values() if each.paper.key == key]


def _named(name: str) -> list[Experiment]:
    for each in EXPERIMENTS.values():
        if name in (each.name, each.name.replace("-", "")):
            return [each]
    if name == ALL:
        return list(EXPERIMENTS.values())
    papers = [key for key in PAPERS if name and key.startswith(name)]
    if len(papers) != 1:
        raise PlanError(f"there is no experiment `{name}`; {suggest(name, [*EXPERIMENTS, *PAPERS, ALL])}")
    return of_paper(papers[0])
