"""Makes outputs fit their checkpoints again, by removing what these know nothing of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sash.io.inspection import shown_batches
from sash.io.places import shown_place
from sash.runtime.job import Job
from sash.spark.checkpoint import Checkpoint
from sash.spark.together import Surplus, find_surplus


@dataclass(frozen=True, slots=True)
class Repair:
    """What a job needs before it can go on."""

    job: Job
    surplus: Sequence[Surplus]

    @property
    def summary(self) -> list[str]:
        """A line for each output: what will be removed, and what stays."""
        return [
            f"{shown_place(each.output.path)}: remove {shown_batches(each.batches)}, beyond its checkpoint "
            + (f"(it has come to batch {each.kept})" if each.kept >= 0 else "(it has done none)")
            for each in self.surplus
        ]


def find_repairs(jobs: Sequence[Job]) -> list[Repair]:
    """What can be done for each job that has a checkpoint; nothing where all is well.

    Raises SourceError for what no removal can repair: so all is well with every file if nothing is said. Changes
    nothing.
    """
    repairs = []
    for job in jobs:
        checkpoint = Checkpoint(job.checkpoint)
        checkpoint.check(job)
        if not checkpoint.known():
            continue
        checkpoint.verify()
        surplus = [
            find_surplus(each.output, each.output.manifest(), checkpoint.log, checkpoint.share_of(each))
            for each in job.members
        ]
        if any(surplus):
            checkpoint.refuse_gaps(is_older=True)
            repairs.append(Repair(job, [each for each in surplus if each]))
        else:
            checkpoint.refuse_misfits(job, is_thorough=True)
    return repairs


def make(repair: Repair) -> None:
    """Removes what is too much; a crash leaves what can be repaired again. Raises SourceError if more is wrong."""
    checkpoint = Checkpoint(repair.job.checkpoint)
    checkpoint.verify()
    checkpoint.shorten_manifest()  # what is gone with the newest batches is no longer asked for
    for each in repair.surplus:
        each.output.remove_batches(each.batches)
    checkpoint.forget_controls()
    checkpoint.refuse_misfits(repair.job, is_thorough=True)
