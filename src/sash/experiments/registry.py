"""All experiments, by name."""

from __future__ import annotations

from sash.errors import PlanError, suggest
from sash.experiments import figure8, figure9, figure10, figure11, figure12
from sash.experiments.experiment import Experiment

EXPERIMENTS: dict[str, Experiment] = {
    each.EXPERIMENT.name: each.EXPERIMENT for each in (figure8, figure9, figure10, figure11, figure12)
}
ALL = "all"


def named(text: str) -> list[Experiment]:
    """The experiments of a list of names with commas, or all."""
    if text == ALL:
        return list(EXPERIMENTS.values())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in EXPERIMENTS:
            raise PlanError(f"there is no experiment `{name}`; {suggest(name, [*EXPERIMENTS, ALL])}")
    return [EXPERIMENTS[name] for name in names]
