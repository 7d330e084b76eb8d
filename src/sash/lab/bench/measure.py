"""What is measured of an engine, batch by batch, and what follows from it.

The time of a batch is Spark's own `durationMs.triggerExecution`, from its progress events: planning, reading, joining,
writing the answer, committing. Steady state is the second half of the batches that carry data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

Note: TypeAlias = Callable[[int], None]
"""Called now and then with how many rows are done."""

_LOGS = ("offsets", "commits", "sources")
_NUMBERED = re.compile(r"\.?(\d+)(?:\.compact)?(?:\.crc)?")
_CHANGELOG = re.compile(r"\.?(\d+)(?:_[^.]*)?\.changelog(?:\.crc)?")


@dataclass(frozen=True, slots=True)
class BatchMeasure:
    """One batch that carries data. What an engine does not tell is None."""

    n_rows: int
    seconds: float
    checkpoint_bytes: int | None = None
    n_state_rows: int | None = None
    n_state_bytes: int | None = None
    """Sash: the bytes of the rows in its windows. The built-in join: as `n_store_bytes`."""
    n_store_bytes: int | None = None
    """What RocksDB holds in memory and in its files."""
    n_changes: int | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """An engine's run over the whole workload."""

    batches: Sequence[BatchMeasure]
    seconds: float
    """Of all batches, also of those that carry no data."""
    wall_seconds: float
    """From asking for the query to the last row written."""
    background_bytes: int | None = None
    """What the checkpoint directory holds that belongs to no batch: snapshots of state, metadata."""
    cpu_seconds: float | None = None
    """Of all processes of the engine, from asking for the query to the last row written."""

    @property
    def n_rows(self) -> int:
        return sum(batch.n_rows for batch in self.batches)

    @property
    def steady(self) -> Sequence[BatchMeasure]:
        """The second half of the batches; of an odd number, the larger half."""
        return self.batches[len(self.batches) // 2 :]

    def facts(self) -> dict[str, Any]:
        """All that is told of this run, for JSON."""
        last = self.batches[-1]
        return {
            "tuples_per_second": self.n_rows / self.seconds,
            "steady_tuples_per_second": throughput(self.steady),
            "seconds": self.seconds,
            "wall_seconds": self.wall_seconds,
            "cpu_seconds": self.cpu_seconds,
            "tuples_per_cpu_second": self.n_rows / self.cpu_seconds if self.cpu_seconds else None,
            "steady_tuples_per_cpu_second": throughput_by_cpu(self.steady),
            "first_batch_seconds": self.batches[0].seconds,
            "state_rows": last.n_state_rows,
            "state_bytes": last.n_state_bytes,
            "store_bytes": last.n_store_bytes,
            "checkpoint_bytes_per_batch": mean_checkpoint_bytes(self.steady),
            "background_bytes": self.background_bytes,
            "batches": [asdict(batch) for batch in self.batches],
        }


def throughput(batches: Sequence[BatchMeasure]) -> float:
    """Rows per second over these batches."""
    return sum(batch.n_rows for batch in batches) / sum(batch.seconds for batch in batches)


def throughput_by_cpu(batches: Sequence[BatchMeasure]) -> float | None:
    """Rows per CPU second over these batches, which other programs disturb less; None if these are not known."""
    known = [batch.cpu_seconds for batch in batches if batch.cpu_seconds is not None]
    is_known = len(known) == len(batches) and sum(known) > 0
    return sum(batch.n_rows for batch in batches) / sum(known) if is_known else None


def mean_checkpoint_bytes(batches: Sequence[BatchMeasure]) -> float | None:
    """Of one batch; None for an engine without checkpoints."""
    known = [batch.checkpoint_bytes for batch in batches if batch.checkpoint_bytes is not None]
    return sum(known) / len(known) if known else None


def read_progress(events: Iterable[Any]) -> dict[int, dict[str, Any]]:
    """Spark's progress events by batch; those of an idle query, which belong to no batch that ran, are left out."""
    told = [json.loads(event.json) for event in events]
    return {event["batchId"]: event for event in told if "addBatch" in event["durationMs"]}


def batch_seconds(event: Mapping[str, Any]) -> float:
    """How long Spark says that a batch took."""
    return event["durationMs"]["triggerExecution"] / 1000


def store_bytes(event: Mapping[str, Any]) -> int:
    """What RocksDB held after a batch: in memory, and in files."""
    operators = event["stateOperators"]
    return sum(each["memoryUsedBytes"] + each["customMetrics"].get("rocksdbSstFileSize", 0) for each in operators)


def state_rows(event: Mapping[str, Any]) -> int:
    """How many rows Spark counts in the state after a batch."""
    return sum(each["numRowsTotal"] for each in event["stateOperators"])


def checkpoint_bytes(directory: Path) -> tuple[dict[int, int], int]:
    """The bytes below a checkpoint directory of Spark's: by the batch that wrote them, and those of no batch.

    To a batch belong its files in the logs of offsets, commits and sources, and the changelogs of the state version
    that it made; checksums beside them count as well. The rest are snapshots of state, which Spark writes in the
    background when it sees fit, and metadata written once. Nothing may have been removed: Spark has to be told to
    retain all batches.
    """
    by_batch: dict[int, int] = {}
    background = 0
    for path in directory.rglob("*"):
        if not path.is_file():
            continue
        batch, size = _batch_of(path.relative_to(directory)), path.stat().st_size
        if batch is None:
            background += size
        else:
            by_batch[batch] = by_batch.get(batch, 0) + size
    return by_batch, background


def _batch_of(path: Path) -> int | None:
    """The batch that wrote a file of a checkpoint; state version n + 1 is what batch n made."""
    if path.parts[0] in _LOGS:
        numbered = _NUMBERED.fullmatch(path.name)
        return int(numbered[1]) if numbered else None
    changelog = _CHANGELOG.fullmatch(path.name) if path.parts[0] == "state" else None
    return int(changelog[1]) - 1 if changelog else None
