"""Objects that travel along a path of four gates, in either direction: the path join of W-join §5.2.

    gate_a(ObjID, Speed, ts)    gate_b, gate_c, gate_d likewise

Half of the trips go from A to D, the others from D to A. Between two gates that follow each other an object may take as
long as their window. A path has a direction, so the question has two sides, one for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa

from sash.lab.workloads.declare import pair_windows
from sash.lab.workloads.tracks import SCHEMA, Travel, generate_sightings
from sash.lab.workloads.workload import Synthetic, WorkloadStream

GATES = ("gate_a", "gate_b", "gate_c", "gate_d")


@dataclass(frozen=True, slots=True)
class PathWorkload(Synthetic):
    """Keys are objects. `ab_us`, `bc_us`, `cd_us`: the windows of gates that follow each other."""

    rate: float = 5.0
    duration_us: int = 600_000_000
    ab_us: int = 10_000_000
    bc_us: int = 20_000_000
    cd_us: int = 15_000_000
    lingering: float = 0.1
    """The share of legs that take longer than their window."""
    missed: float = 0.05
    """The share of objects that a gate does not see."""

    def __post_init__(self):
        Synthetic.__post_init__(self)
        self._travel()

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, SCHEMA) for name in GATES)

    @property
    def question(self) -> str:
        """Which objects went all the way, and in which direction."""
        return f"""({self._side("ABCD")})
  UNION ALL
  ({self._side("DCBA")})"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        return generate_sightings(self, self._travel(), GATES.index(stream))

    def _side(self, way: Sequence[str]) -> str:
        """The path in one direction."""
        lengths = {"AB": self.ab_us, "BC": self.bc_us, "CD": self.cd_us}
        legs = {(one, other): lengths["".join(sorted(one + other))] for one, other in pairwise(way)}
        return f"""SELECT A.ObjID, '{way}' AS way, {way[0]}.ts AS began, {way[-1]}.ts AS ended
   FROM gate_a A, gate_b B, gate_c C, gate_d D
   WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID AND C.ObjID = D.ObjID
   {pair_windows("DWINDOW", legs)}"""

    def _travel(self) -> Travel:
        longest = {(0, 1): self.ab_us, (1, 2): self.bc_us, (2, 3): self.cd_us}
        return Travel(((0, 1, 2, 3), (3, 2, 1, 0)), longest, self.lingering, self.missed)
