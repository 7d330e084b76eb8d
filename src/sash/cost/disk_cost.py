"""How long the disk takes for windows that are larger than memory: the equations of Exact.

    T_rec = ⌈λ t c_tup / (r |W_rec| c_b)⌉ (RT(|W_disk of the other|) + WT(r |W_rec|))          (3.1)  probes, and dumps
    RT(n) = ⌈n / B_win⌉ (C_L + C_S) + n c_b / B,  WT alike                                     (3.2)
    T_inv = ⌈λ t c_tup / (|W_inv| c_b)⌉ RT(|W_inv|)                                            (3.3)  invalidation

Two readings: Equation 3.3 is printed with |W_rec| below the line, but what is refilled is the invalidation segment; and
B is in bytes per second. Equations 4.1 to 4.3 are `reactive_tasks`', which chooses by them. AH-EWJ is EWJ with `r`
times the least recent segment as what is probed at once.

With rec + inv fixed, the sum of 3.1 and 3.3 is the least at rec : inv = √(RT(|W_disk|) / r) : √(C_L + C_S), as long as
inv is at most one basic window; a larger one gains nothing, as it is an access per basic window anyway.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from sash.errors import PlanError
from sash.papers.exact.reactive_tasks import DiskPart as DiskPart
from sash.papers.exact.reactive_tasks import dd_seconds as dd_seconds
from sash.papers.exact.reactive_tasks import md_seconds as md_seconds
from sash.papers.exact.reactive_tasks import scan_seconds as scan_seconds
from sash.store.model_disk import DISK_9LZX, DiskModel


@dataclass(frozen=True, slots=True)
class ExactLoad:
    """One stream of a join that keeps windows on disk. Sizes are in blocks."""

    rate: float
    """Tuples per second."""
    block_rows: int
    block_bytes: int
    basic_window: int
    """Blocks that are adjacent on disk."""
    probed_at: float
    """How many fresh blocks make a probe: r |W_rec|, or of AH-EWJ r N_rec^min."""
    n_invalidation: int

    def __post_init__(self) -> None:
        if min(self.rate, self.block_rows, self.block_bytes, self.basic_window, self.probed_at) <= 0:
            raise PlanError(f"rates and sizes must be more than 0: {self}")


def transfer_seconds(n_blocks: float, load: ExactLoad, model: DiskModel = DISK_9LZX) -> float:
    """Equation 3.2: to read or write so many blocks, a basic window at a time."""
    return model.seconds(math.ceil(n_blocks / load.basic_window), n_blocks * load.block_bytes)


def probe_seconds(load: ExactLoad, n_opposite: float, seconds: float, model: DiskModel = DISK_9LZX) -> float:
    """Equation 3.1: probes and dumps for what arrives in so many seconds, with so many blocks on the other's disk."""
    n_probes = math.ceil(_blocks(load, seconds) / load.probed_at)
    return n_probes * (transfer_seconds(n_opposite, load, model) + transfer_seconds(load.probed_at, load, model))


def refill_seconds(load: ExactLoad, seconds: float, model: DiskModel = DISK_9LZX) -> float:
    """Equation 3.3: to bring to memory what ends in so many seconds, as much as arrives."""
    if not load.n_invalidation:
        raise PlanError("nothing can be invalidated in no memory: `n_invalidation` is 0; give it a block")
    return _n_refills(load, seconds) * transfer_seconds(load.n_invalidation, load, model)


def best_recent_share(load: ExactLoad, r: float, n_opposite: float, model: DiskModel = DISK_9LZX) -> float:
    """Which share of recent and invalidation segment together the recent one should have, so that the disk takes the
    least time, while the other one is at most a basic window.
    """
    recent = math.sqrt(transfer_seconds(n_opposite, load, model) / r)
    return recent / (recent + math.sqrt(model.access_s))


def _n_refills(load: ExactLoad, seconds: float) -> int:
    return math.ceil(_blocks(load, seconds) / load.n_invalidation)


def _blocks(load: ExactLoad, seconds: float) -> float:
    return load.rate * seconds / load.block_rows
