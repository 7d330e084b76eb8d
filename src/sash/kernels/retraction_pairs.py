"""Which tuples go when all that take others back are struck out together with those that they take back."""

from __future__ import annotations

from sash.kernels.arrays import Bools, Int8s, Int64s
from sash.kernels.jit import borrowing_kernel


@borrowing_kernel
def pair_off(order: Int64s, kinds: Int64s, signs: Int8s, retracted: Int64s, goes: Bools) -> None:
    """Marks all negatives, and of each kind the first as many others, in this order; `retracted` is counted down."""
    for idx in range(order.shape[0]):
        row = order[idx]
        if signs[row] < 0:
            goes[row] = True
        elif retracted[kinds[row]] > 0:
            retracted[kinds[row]] -= 1
            goes[row] = True
