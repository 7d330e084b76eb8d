"""How kernels are compiled. The name of the decorator says which kind a kernel is:

    kernel               compiled at its first call, and kept on disk for the next process
    inlined_kernel       small, and written into each kernel that calls it, before types are known
    borrowing_kernel     allocates nothing, so references to arrays are not counted, which costs more than most such
                         kernels do
    inlined_borrowing    both
    folded_borrowing     runs for every scan: borrowing, and LLVM is told to fold it into its callers
    released_borrowing   runs long beside a thread that reads: borrowing, and lets go of the interpreter meanwhile

A kernel that borrows must neither make an array nor keep one beyond the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

Function = TypeVar("Function", bound=Callable[..., Any])


class FreshIndex(IndexDataCacheFile):
    """Of what is kept on disk. numba reads an index before it sees that an older source has left it there, and fails
    if it names a class that is gone since: as after an update of Sash. Such an index has nothing for us.
    """

    def _load_index(self) -> dict[Any, str]:
        try:
            return super()._load_index()
        except (AttributeError, ImportError, TypeError):
            return {}


def _compiled(**options: Any) -> Callable[[Function], Function]:
    """A decorator after which a function is called as before, as far as types can tell."""

    def compile_(function: Function) -> Function:
        compiled: Any = njit(cache=True, **options)(function)
        if isinstance(compiled, Dispatcher):  # it is the function itself where nothing is compiled
            cast(Any, compiled)._cache._cache_file.__class__ = FreshIndex
        return cast("Function", compiled)

    return compile_


kernel = _compiled()
inlined_kernel = _compiled(inline="always")
borrowing_kernel = _compiled(_nrt=False)
inlined_borrowing = _compiled(_nrt=False, inline="always")
folded_borrowing = _compiled(_nrt=False, forceinline=True)
released_borrowing = _compiled(_nrt=False, nogil=True)
