"""Whether the outputs of a run and its checkpoint belong together.

Batch by batch, what is published and what Spark has done go side by side:

    output       0 ─ 1 ─ 2 ─ 3 ─ 4          written down and published, then
    checkpoint   0 ─ 1 ─ 2 ─ 3 ─ (4)        done; batch 4 was planned, and runs again over the same input

If the checkpoint is older than the output (it was restored from a backup), Spark would cut the input anew, and what
batches 5, 6 … answer would be held for what is there under these numbers. If the output is older, rows are missing that
will never be written again. Neither is gone on from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sash.errors import SourceError
from sash.io.inspection import refuse_changed, shown_batches
from sash.io.manifest import Manifest
from sash.io.output_dir import OutputDir
from sash.io.places import shown_place
from sash.spark.batch_log import BatchLog


@dataclass(frozen=True, slots=True)
class Share:
    """What part of a checkpoint's batches an output has: those from `first` on, and none after `last` (None: all)."""

    first: int
    last: int | None = None

    @classmethod
    def read(cls, noted: Mapping[str, Any]) -> Share:
        return cls(noted["from"], noted["until"])


@dataclass(frozen=True, slots=True)
class Surplus:
    """Batches of an output that its checkpoint knows nothing of."""

    output: OutputDir
    kept: int
    """The newest batch that belongs to the checkpoint."""
    batches: list[int]


def find_surplus(output: OutputDir, manifest: Manifest | None, log: BatchLog, share: Share) -> Surplus | None:
    """What has to be removed from an output for it to fit its checkpoint; None if nothing has to."""
    done = log.newest_done if share.last is None else share.last
    beyond = [
        batch
        for batch, line in (manifest.lines if manifest else {}).items()
        if batch > done and not _runs_again(batch, line.input, log, share)
    ]
    return Surplus(output, done, beyond) if beyond else None


def refuse_misfit(
    output: OutputDir, manifest: Manifest | None, log: BatchLog, share: Share, is_thorough: bool = False
) -> None:
    """Raises SourceError unless the output has all that its checkpoint has answered, and nothing else.

    Sizes of all files are compared, and the content of the newest batch; of all batches if `is_thorough`.
    """
    path = shown_place(output.path)
    surplus = find_surplus(output, manifest, log, share)
    if surplus:
        raise SourceError(
            f"{path} has {shown_batches(surplus.batches)}, which its checkpoint knows nothing of "
            f"({_reached(surplus.kept)}): was an older checkpoint restored? to go on from it, remove what the output "
            "has beyond it with `sash repair FILE.sql`; to start afresh, run with --fresh"
        )
    _refuse_missing(output, manifest, log, share)
    remedy = "restore it from a backup, or run with --fresh to start afresh"
    refuse_changed(output, manifest, log.newest_done, remedy, hashed=0 if is_thorough else log.newest_done)


def _runs_again(batch: int, input: str | None, log: BatchLog, share: Share) -> bool:
    """Whether Spark will run this batch again over the same input. One that no longer takes part in it need not."""
    if share.last is not None:
        return batch == share.last + 1
    is_planned = batch == log.newest_planned == log.newest_done + 1
    return is_planned and input is not None and input == log.input_of(batch)


def _refuse_missing(output: OutputDir, manifest: Manifest | None, log: BatchLog, share: Share) -> None:
    path, lines = shown_place(output.path), manifest.lines if manifest else {}
    done = log.newest_done if share.last is None else share.last
    remedy = "restore the output that belongs to it, or run with --fresh to start afresh"
    if done >= share.first and done not in lines:
        lacking = [batch for batch in range(share.first, done + 1) if batch not in lines]
        raise SourceError(
            f"{path} lacks {shown_batches(lacking)}, which its checkpoint has answered: was an older output restored, "
            f"or the output removed? Their rows would be missing; {remedy}"
        )
    if done >= share.first and log.input_of(done) not in (None, lines[done].input):
        raise SourceError(
            f"{path} and its checkpoint do not belong together: batch {done} of the output answers other input than "
            f"batch {done} of the checkpoint; {remedy}"
        )


def _reached(batch: int) -> str:
    return f"it has come to batch {batch}" if batch >= 0 else "it has done none"
