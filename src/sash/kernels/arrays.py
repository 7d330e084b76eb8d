"""What kernels are given: arrays by the type of their items, of whatever dimension a kernel says.

Numba does not read annotations. It compiles a kernel for the types that it is called with; these names are for people
and for the type checker. Arguments that belong together are a NamedTuple: its class is part of the type that is
compiled for, and each of its arrays is handed over as if it were an argument of its own. A call from Python takes about
a microsecond longer for each NamedTuple: nothing beside a batch, but too much for a few rows. Two classes of one name
with equal fields make it sixty, as numba then looks at every field in Python.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bools: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Int8s: TypeAlias = npt.NDArray[np.int8]
"""Mostly signs: +1 for what comes, -1 for what goes."""
Int64s: TypeAlias = npt.NDArray[np.int64]
"""Rows, times, keys: nearly everything."""
UInt64s: TypeAlias = npt.NDArray[np.uint64]
"""Bits: hashes, labels, parts of wide integers."""
Floats: TypeAlias = npt.NDArray[np.float64]

Offsets: TypeAlias = npt.NDArray[np.int32] | npt.NDArray[np.int64]
"""Where Arrow's strings begin, and where the last one ends; of large strings in 64 bits."""
Words: TypeAlias = tuple[Int64s, Bytes]
"""Strings that lie end to end: where each begins, with where the last one ends, and the bytes."""
