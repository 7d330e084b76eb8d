"""The queries of a script or a session as jobs, each with the checkpoint that it goes on from."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sash.io.removal import CHECKPOINT_MARK
from sash.plan.physical import Plan
from sash.plan.sharing.join_sites import Signature
from sash.plan.sharing.who_shares import decide_sharing
from sash.runtime.job import Job, QueryRun


@dataclass(frozen=True, slots=True)
class Jobs:
    """What runs."""

    all: tuple[Job, ...]
    reasons: Mapping[str, str]
    """Why queries run alone that cannot share."""


def known_fragments(checkpoint: str) -> int | None:
    """With how many fragments a join was started that goes on from a checkpoint; None if there is none."""
    path = Path(checkpoint) / CHECKPOINT_MARK
    if not path.exists():
        return None
    try:
        return int(json.loads(path.read_text()).get("fragments", 1))
    except (OSError, ValueError, TypeError, AttributeError):
        return None  # damaged, as the run will say


def group_runs(
    runs: Sequence[QueryRun],
    root: str,
    find_fragments: Callable[[str], int | None] = known_fragments,
    least: int = 1,
    n_fragments: int = 1,
) -> Jobs:
    """Queries as `decide_sharing` puts them together. `root` is the directory for the checkpoints of joins;
    `find_fragments` says with how many fragments a checkpoint there was started, None if it was not.
    """
    by_name = {run.name: run for run in runs}

    def started(signature: Signature) -> int | None:
        return find_fragments(_checkpoint(root, signature.fingerprint))

    sharing = decide_sharing({run.name: run.plan for run in runs}, least, started, n_fragments)
    jobs = tuple(_job(plan, [by_name[name] for name in plan.queries], root) for plan in sharing.plans)
    return Jobs(jobs, sharing.reasons)


def _job(plan: Plan, members: Sequence[QueryRun], root: str) -> Job:
    if plan.trunk is None:
        return Job.alone(*members)
    name = f"{len(members)} queries over {plan.trunk.signature}"
    return Job(name, plan, tuple(members), _checkpoint(root, plan.fingerprint))


def _checkpoint(root: str, fingerprint: str) -> str:
    return f"{root}/{fingerprint[:16]}"
