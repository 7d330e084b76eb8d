"""Packets that pass several links, as in Exact §2.2.1 and in the third example of W-join.

    customer(pid, src, dst, size, ts)    backbone likewise, exchange and remote if there are more than two links

A share of a link's packets goes on to the next link and is seen there after some time on the way, at most `travel_us`:
a window of that length finds all of them, unless some are `delayed`. The rest of the next link's packets come from
elsewhere, so that all links have the same rate. Bursts of one link are seen again on the next.

Packets get from the first link to the third only by way of the second: with three links, or four, the question has
windows for neighbours alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from sash.lab.workloads.arrow_columns import times_column
from sash.lab.workloads.declare import format_length, pair_windows
from sash.lab.workloads.law import require
from sash.lab.workloads.workload import Synthetic, WorkloadStream, cut_rows

SCHEMA = pa.schema(
    [("pid", pa.int64()), ("src", pa.int32()), ("dst", pa.int32()), ("size", pa.int32()), ("ts", pa.timestamp("us"))]
)
LINKS = ("customer", "backbone", "exchange", "remote")
SIZES = np.array([40, 576, 1500], np.int32)
"""Bytes of an acknowledgement, of a packet for any network, and of the largest one for Ethernet."""
_PIDS_PER_LINK = 1 << 40


@dataclass(frozen=True, slots=True)
class Network(Synthetic):
    """Keys are hosts: with skew, some of them send and receive more than others."""

    arrivals: str = "pareto:3"
    n_links: int = 2
    through: float = 0.5
    """The share of a link's packets that goes on to the next."""
    travel_us: int = 200_000
    delayed: float = 0.0
    """The share of those that are held up on the way and take longer, up to twice as long."""

    def __post_init__(self):
        Synthetic.__post_init__(self)
        require(2 <= self.n_links <= len(LINKS), "n_links", self.n_links, f"2 to {len(LINKS)}")
        require(0 <= self.through <= 1, "through", self.through, "a share, from 0 to 1")
        require(0 <= self.delayed <= 1, "delayed", self.delayed, "a share, from 0 to 1")
        require(self.travel_us >= 1, "travel", self.travel_us, "at least one microsecond")

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, SCHEMA) for name in LINKS[: self.n_links])

    @property
    def question(self) -> str:
        """Of two links, how much of the customer's traffic went through the backbone. Of more, Form 3 of W-join: which
        packets passed all of them.
        """
        return (
            self._ask_for_all()
            if self.n_links > 2
            else f"""SELECT COUNT(*) AS packets, SUM(C.size) AS bytes
  FROM customer C, backbone B
  WHERE C.pid = B.pid
  WINDOW {format_length(self.travel_us)}"""
        )

    def generate(self, stream: str) -> Iterator[pa.Table]:
        packets = self._enter(0, 1.0)
        for link in range(1, LINKS.index(stream) + 1):
            packets = self._pass_on(packets, link)
        for rows in cut_rows(len(packets)):
            columns = [pa.array(np.ascontiguousarray(packets[rows][name])) for name in SCHEMA.names[:-1]]
            yield pa.Table.from_arrays([*columns, times_column(packets["ts"][rows])], schema=SCHEMA)

    def _ask_for_all(self) -> str:
        aliases = {name: name[0].upper() for name in LINKS[: self.n_links]}
        neighbours = list(pairwise(aliases.values()))
        return f"""SELECT C.pid, C.size, C.ts AS entered, {neighbours[-1][1]}.ts AS arrived
  FROM {", ".join(f"{name} {alias}" for name, alias in aliases.items())}
  WHERE {" AND ".join(f"{left}.pid = {right}.pid" for left, right in neighbours)}
  {pair_windows("WINDOW", dict.fromkeys(neighbours, self.travel_us))}"""

    def _enter(self, link: int, share: float) -> np.ndarray:
        """Packets that are seen first on this link, so many that they make up this share of its rate."""
        rng = self.rng(link, 0)
        times = self.draw_times(rng, share)
        packets = np.empty(len(times), [(field.name, _numpy_type(field.type)) for field in SCHEMA])
        packets["pid"] = link * _PIDS_PER_LINK + np.arange(len(times))
        packets["src"], packets["dst"] = self.draw_keys(rng, len(times)), self.draw_keys(rng, len(times))
        packets["size"] = SIZES[rng.choice(len(SIZES), len(times), p=[0.5, 0.2, 0.3])]
        packets["ts"] = times
        return packets

    def _pass_on(self, packets: np.ndarray, link: int) -> np.ndarray:
        """What the next link sees of these packets, and its own; by time."""
        rng = self.rng(link, 1)
        passed = packets[rng.random(len(packets)) < self.through]
        is_delayed = self.rng(link, 2).random(len(passed)) < self.delayed
        passed["ts"] += (self.travel_us * (0.1 + 0.9 * rng.random(len(passed)) + is_delayed)).astype(np.int64)
        passed = passed[passed["ts"] < self.start_us + self.duration_us]
        fresh = self._enter(link, 1 - self.through) if self.through < 1 else passed[:0]
        merged = np.concatenate([passed, fresh])
        return merged[np.argsort(merged["ts"], kind="stable")]


def _numpy_type(dtype: pa.DataType) -> type:
    return np.int32 if pa.types.is_int32(dtype) else np.int64
