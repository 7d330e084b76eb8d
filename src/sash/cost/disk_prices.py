"""What the disk costs on which windows are that outgrow memory: seconds for a byte, and for going to another place.

    time = written · write + read · read + accesses · access

That is Equation 3.2 of Exact with a price of its own for writing, which includes that what was written is safe. `sash
calibrate` measures the disk of the directory that files go to.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass

from sash.errors import PlanError
from sash.store.model_disk import DiskModel


@dataclass(frozen=True, slots=True)
class DiskPrices:
    """Seconds for each byte that is written or read in order, and for each access to a page elsewhere."""

    write: float
    read: float
    access: float

    def __post_init__(self) -> None:
        if min(astuple(self)) < 0 or not self.read:
            raise PlanError(f"a disk takes time, and gives none back, but not so {self}")

    def seconds(self, n_written: float, n_read: float, n_accesses: float) -> float:
        """So many bytes written and read, and so many times from one place to another."""
        return n_written * self.write + n_read * self.read + n_accesses * self.access

    @property
    def model(self) -> DiskModel:
        """The same disk in the thesis's terms, where writing takes as long as reading."""
        return DiskModel(self.access, 0.0, 1 / self.read)


SHIPPED_DISK = DiskPrices(write=2.5e-9, read=1e-9, access=160e-6)
"""Of flash storage: 400 MB written and 1 GB read per second, and what one thread waits for a page."""
