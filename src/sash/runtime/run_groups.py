"""Which queries of a script or a session run together, and from which checkpoint."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sash.io.removal import CHECKPOINT_MARK
from sash.plan.sharing.shared_plan import SharedPlan, shared_plan
from sash.plan.sharing.who_shares import Signature, share_groups
from sash.runtime.job import QueryRun, SharedRun


@dataclass(frozen=True, slots=True)
class Runs:
    """What runs together and what alone."""

    shared: tuple[SharedRun, ...]
    alone: tuple[QueryRun, ...]
    reasons: Mapping[str, str]
    """Why queries run alone that cannot share."""

    @property
    def all(self) -> tuple[QueryRun | SharedRun, ...]:
        return *self.shared, *self.alone


def known_layers(checkpoint: str) -> int | None:
    """With how many layers a share group was started that goes on from a checkpoint; None if there is none."""
    path = Path(checkpoint) / CHECKPOINT_MARK
    if not path.exists():
        return None
    try:
        return int(json.loads(path.read_text()).get("layers", 1))
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # damaged, as the run will say


def group_runs(
    runs: Sequence[QueryRun],
    root: str,
    find_layers: Callable[[str], int | None] = known_layers,
    least: int = 1,
    n_stages: int = 1,
) -> Runs:
    """Queries with the same join together.

    `root` is the directory for the checkpoints of share groups. `find_layers` says with how many layers a checkpoint
    there was started, None if it was not. A group of fewer than `least` queries that was not started runs alone.
    A group is started with `n_stages`, or as many as its queries need, and keeps them: Spark goes on from a checkpoint
    with as many only. Each costs every batch something, whether there is a query that needs it or not.
    """
    plans = {run.name: run.plan for run in runs}
    groups, reasons = share_groups(plans)
    shared: list[SharedRun] = []
    for signature, names in groups.items():
        path = f"{root}/{signature.fingerprint[:16]}"
        n_layers = find_layers(path)
        members = [run for run in runs if run.name in names]
        fitting = members if n_layers is None else [run for run in members if _n_layers(run) <= n_layers]
        for run in members:
            if run not in fitting:
                reasons[run.name] = f"it needs {_n_layers(run)} stages, and its join was started with {n_layers}"
        if fitting and (n_layers is not None or len(fitting) >= least):
            plan = shared_plan({run.name: run.plan for run in fitting})
            shared.append(_shared_run(signature, plan, fitting, path, n_layers or n_stages))
    together = {run.name for each in shared for run in each.members}
    return Runs(tuple(shared), tuple(run for run in runs if run.name not in together), reasons)


def _shared_run(
    signature: Signature, plan: SharedPlan, members: Sequence[QueryRun], path: str, n_layers: int
) -> SharedRun:
    name = f"{len(members)} queries over {signature}"
    return SharedRun(name, replace(plan, n_layers=n_layers), tuple(members), path)


def _n_layers(run: QueryRun) -> int:
    return len(SharedPlan({run.name: run.plan}).fragments)
