"""Which task RPWJ runs when it has nothing else to do: the one with the most results per second (Exact, §4.5).

    md(i, p)   the memory of stream i with the other one's disk    Et = (x + |D| / M_read) t_A + C_R |D|           (4.1)
    dd(p)      both disks, in clusters of M_read / 2               Et = scan + (2 |D| / M_read) scan of the inner  (4.3)
               with                                               scan = (x + 2 |D| / M_read) t_A + C_R |D|        (4.2)

x runs, |D| bytes of a partition on disk. The factor of Equation 4.3 is the number of clusters of the outer partition,
for each of which the inner one is scanned. Expected results are sizes of products, as selectivities are taken to be
equal. There are three tasks per partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sash.store.model_disk import DiskModel

MEMORY, DISKS = "md", "dd"


class ReactiveTask(NamedTuple):
    """`side` is the stream whose memory is joined; of no meaning for a task of both disks, where it is 0."""

    kind: str
    side: int
    partition: int


@dataclass(frozen=True, slots=True)
class DiskPart:
    """A partition of a stream on disk: its runs, and its bytes; or those of several partitions."""

    n_runs: Any
    n_bytes: Any


def md_seconds(part: DiskPart, read_bytes: float, model: DiskModel) -> float:
    """Equation 4.1: how long a memory-to-disk task takes that reads this part."""
    return model.seconds(part.n_runs + part.n_bytes / read_bytes, part.n_bytes)


def scan_seconds(part: DiskPart, read_bytes: float, model: DiskModel) -> float:
    """Equation 4.2: how long it takes to read a part in clusters of half of what can be read at once."""
    return model.seconds(part.n_runs + 2 * part.n_bytes / read_bytes, part.n_bytes)


def dd_seconds(outer: DiskPart, inner: DiskPart, read_bytes: float, model: DiskModel) -> float:
    """Equation 4.3: how long a disk-to-disk task takes."""
    n_clusters = 2 * outer.n_bytes / read_bytes
    return scan_seconds(outer, read_bytes, model) + n_clusters * scan_seconds(inner, read_bytes, model)


class TaskPool:
    """What the tasks of all partitions may bring."""

    def __init__(self, n_part: int, model: DiskModel, read_bytes: float):
        self.expected_md = np.zeros((2, n_part))
        """Er of md(i, p): rows in memory times rows on the other one's disk that they have not met."""
        self.expected_dd = np.zeros(n_part)
        self._model, self._read_bytes = model, read_bytes

    def flush(self, side: int, partition: int) -> None:
        """What the memory of a stream's partition was expected to find is now for both disks to find."""
        self.expected_dd[partition] += self.expected_md[side, partition]
        self.expected_md[side, partition] = 0.0

    def done(self, task: ReactiveTask) -> None:
        """A task has found all it can."""
        if task.kind == MEMORY:
            self.expected_md[task.side, task.partition] = 0.0
        else:
            self.expected_dd[task.partition] = 0.0

    def shrink(self, side: int, partition: int, memory_left: float, disk_left: float) -> None:
        """Rows of a stream's partition have ended: so much is left of its memory and of its disk."""
        self.expected_md[side, partition] *= memory_left
        self.expected_md[1 - side, partition] *= disk_left
        self.expected_dd[partition] *= disk_left

    def tasks(self) -> list[ReactiveTask]:
        """All of them, whatever they may bring: three per partition."""
        n_part = len(self.expected_dd)
        md = [ReactiveTask(MEMORY, side, partition) for partition in range(n_part) for side in (0, 1)]
        return md + [ReactiveTask(DISKS, 0, partition) for partition in range(n_part)]

    def best(self, parts: list[list[DiskPart]], is_ready: np.ndarray | None = None) -> ReactiveTask | None:
        """The task with the most expected results per second; None if none is expected. `parts` by stream.

        `is_ready` says of which partitions a task may be; of all if nothing is said.
        """
        left, right = (_stack(each) for each in parts)
        seconds = [md_seconds(each, self._read_bytes, self._model) for each in (right, left)]
        seconds = np.array([*seconds, dd_seconds(left, right, self._read_bytes, self._model)])
        expected = np.vstack([self.expected_md, self.expected_dd]) * (1.0 if is_ready is None else is_ready)
        rates = np.divide(expected, seconds, out=np.zeros_like(expected), where=seconds > 0)
        place = int(np.argmax(rates))
        kind, partition = divmod(place, rates.shape[1])
        if rates[kind, partition] <= 0:
            return None
        return ReactiveTask(MEMORY, kind, partition) if kind < 2 else ReactiveTask(DISKS, 0, partition)


def _stack(parts: list[DiskPart]) -> DiskPart:
    """All partitions of a stream as one, whose numbers are arrays."""
    n_runs, n_bytes = np.array([(each.n_runs, each.n_bytes) for each in parts], np.float64).T
    return DiskPart(n_runs, n_bytes)
