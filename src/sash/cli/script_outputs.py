"""What a script's runs find where they are to write: what they go on from, replace, or leave alone."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sash.io.disk import Disk
from sash.io.places import real_place
from sash.io.removal import finish_removal, refuse_checkpoint_removal, remove_directory
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import DEFAULT_OUTPUT


def shared_checkpoints(file: Path) -> str:
    """Where the checkpoints of joins are that queries of a script share: each script has its own, by its path."""
    path = os.path.relpath(file)
    digest = hashlib.sha256(path.encode()).hexdigest()[:8]
    return real_place(f"{DEFAULT_OUTPUT}/{Path(path).stem}-{digest}.joins")


def refuse_distant(jobs: Sequence[Job]) -> None:
    """Raises PlanError for a job on Spark whose checkpoint would be on another file system than the local one."""
    from sash.spark.checkpoint import Checkpoint

    for job in jobs:
        Checkpoint(job.checkpoint)


def check_outputs(jobs: Sequence[Job], may_resume: bool) -> None:
    """Raises SourceError unless every job may begin, or go on if it can. Nothing is changed, no Spark is needed."""
    for job in jobs:
        if may_resume:
            from sash.spark.checkpoint import Checkpoint

            Checkpoint(job.checkpoint).check_before_start(job)
        else:
            for each in job.members:
                each.output.refuse_occupied()


def remove_outputs(runs: Sequence[QueryRun], shared: str) -> None:
    """Removes what earlier runs have written, with their checkpoints; what is not Sash's is refused, and all stays."""
    disk = Disk()
    for each in runs:
        each.output.refuse_removal()
    for path in _checkpoints(disk, shared):
        refuse_checkpoint_removal(disk, path)
    for path in _checkpoints(disk, shared):
        remove_directory(disk, path)
    for each in runs:
        each.output.remove()


def _checkpoints(disk: Disk, shared: str) -> Iterator[str]:
    finish_removal(disk, shared)
    return (info.path for info in disk.entries(shared) if not info.base_name.startswith("."))
