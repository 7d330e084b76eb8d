"""The queries of a script or a session as jobs, each with the checkpoint that it goes on from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sash.plan.physical import Plan
from sash.plan.query_plan import QueryPlan
from sash.plan.sharing.join_sites import Signature
from sash.plan.sharing.who_shares import LEAST_IN_SCRIPTS, Sharing, Started, decide_sharing
from sash.runtime.checkpoint_mark import read_mark
from sash.runtime.job import Job, QueryRun


@dataclass(frozen=True, slots=True)
class Jobs:
    """What runs."""

    all: tuple[Job, ...]
    reasons: Mapping[str, str]
    """Why queries run alone that cannot share."""


def started_below(root: str | None) -> Started:
    """Which joins have a checkpoint in a directory, where they are looked at and left alone; with None, nothing goes on
    from anywhere. One that a run refuses is refused.
    """

    def find_fragments(signature: Signature) -> int | None:
        noted = {} if root is None else read_mark(Path(_checkpoint(root, signature.fingerprint)))
        return noted.get("fragments")

    return find_fragments


def decide_script(plans: Mapping[str, QueryPlan], root: str | None) -> Sharing:
    """Who shares among the queries of a script, for whoever runs it and for EXPLAIN. `root` is as for `started_below`:
    in this process nothing goes on from anywhere.
    """
    return decide_sharing(plans, LEAST_IN_SCRIPTS, started_below(root))


def group_runs(runs: Sequence[QueryRun], sharing: Sharing, root: str) -> Jobs:
    """Queries together as was decided; `root` is the directory for the checkpoints of joins."""
    by_name = {run.name: run for run in runs}
    jobs = tuple(_job(plan, [by_name[name] for name in plan.queries], root) for plan in sharing.plans)
    return Jobs(jobs, sharing.reasons)


def _job(plan: Plan, members: Sequence[QueryRun], root: str) -> Job:
    if plan.trunk is None:
        return Job.alone(*members)
    name = f"{len(members)} queries over {plan.trunk.signature}"
    return Job(name, plan, tuple(members), _checkpoint(root, plan.fingerprint))


def _checkpoint(root: str, fingerprint: str) -> str:
    return f"{root}/{fingerprint[:16]}"
