"""Objects that pass three cameras, as in the second example of W-join: a window of its own for each pair.

    camera1(ObjID, Speed, ts)    camera2, camera3 likewise

Objects pass the cameras in any order. How long they may take from one to another is the window of the pair. The third
window is shorter than the other two together, so that it rejects objects that need nearly all of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

import pyarrow as pa

from sash.lab.workloads.declare import pair_windows
from sash.lab.workloads.tracks import SCHEMA, Travel, generate_sightings
from sash.lab.workloads.workload import Synthetic, WorkloadStream

CAMERAS = ("camera1", "camera2", "camera3")


@dataclass(frozen=True, slots=True)
class Cameras(Synthetic):
    """Keys are objects. `ab_us`, `bc_us`, `ac_us`: the windows of the pairs."""

    rate: float = 5.0
    duration_us: int = 600_000_000
    ab_us: int = 20_000_000
    bc_us: int = 30_000_000
    ac_us: int = 40_000_000
    lingering: float = 0.2
    """The share of legs that take longer than their window."""
    missed: float = 0.1
    """The share of objects that a camera does not see."""

    def __post_init__(self):
        Synthetic.__post_init__(self)
        self._travel()

    @property
    def streams(self) -> tuple[WorkloadStream, ...]:
        return tuple(WorkloadStream(name, SCHEMA) for name in CAMERAS)

    @property
    def question(self) -> str:
        """Form 2 of W-join: which objects did all cameras see, fast enough between any two of them."""
        windows = pair_windows("WINDOW", {("A", "B"): self.ab_us, ("B", "C"): self.bc_us, ("A", "C"): self.ac_us})
        return f"""SELECT A.ObjID, A.ts AS at_1, B.ts AS at_2, C.ts AS at_3
  FROM camera1 A, camera2 B, camera3 C
  WHERE A.ObjID = B.ObjID AND B.ObjID = C.ObjID
  {windows}"""

    def generate(self, stream: str) -> Iterator[pa.Table]:
        return generate_sightings(self, self._travel(), CAMERAS.index(stream))

    def _travel(self) -> Travel:
        longest = {(0, 1): self.ab_us, (1, 2): self.bc_us, (0, 2): self.ac_us}
        return Travel(tuple(permutations(range(3))), longest, self.lingering, self.missed)
