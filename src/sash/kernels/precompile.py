"""Kernels compiled ahead, so that no query waits for a compiler.

numba compiles a kernel for the types that it is called with. All that tests have called it with stand in
`signatures.txt`, a line for each, as `module.kernel(types)`; `make kernels` writes them. A kernel that is not there, or
types that are missing, are compiled at their first call, as if nothing had been done.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, cast

from numba import types
from numba.core.dispatcher import Dispatcher

SIGNATURES = Path(__file__).with_name("signatures.txt")
_LINE = r"(?P<module>sash\.[\w.]+)\.(?P<kernel>\w+)(?P<types>\(.*\))"


class KernelSignature(NamedTuple):
    """A kernel, and the types of its arguments in the words of this page: see `_words`."""

    module: str
    kernel: str
    types: str

    def dispatcher(self) -> Any:
        """The kernel; a plain function where nothing is compiled (NUMBA_DISABLE_JIT=1)."""
        return getattr(import_module(self.module), self.kernel)

    def numba_types(self) -> tuple[types.Type, ...]:
        """What numba calls these types. NamedTuples are known by the names that the kernel's module has for them."""
        found = eval(self.types, _words(vars(import_module(self.module))))
        return tuple(map(_as_type, found))


def read_signatures() -> list[KernelSignature]:
    """What is known, the kernels of a module one after the other."""
    lines = SIGNATURES.read_text(encoding="utf-8").splitlines()
    return [KernelSignature(*match.groups()) for match in (re.fullmatch(_LINE, line) for line in lines) if match]


def compile_all(n_processes: int, report: Callable[[int, int], None]) -> int:
    """Compiles every kernel for all types that are known, in so many processes, and keeps the code where numba keeps
    it. `report` is told how many modules are done, of how many. Returns for how many types kernels are there now.
    """
    by_module = {module: list(found) for module, found in groupby(read_signatures(), lambda each: each.module)}
    longest_first = sorted(by_module.values(), key=len, reverse=True)
    with ProcessPoolExecutor(n_processes, mp_context=get_context("spawn")) as pool:
        for n_done, _ in enumerate(pool.map(_compile, longest_first), start=1):
            report(n_done, len(longest_first))
    # Two processes that have met the same kernel in theirs may have overwritten what the other one had noted of it.
    return sum(map(_compile, longest_first))


def _compile(signatures: list[KernelSignature]) -> int:
    compiled = 0
    for each in signatures:
        dispatcher = each.dispatcher()
        if isinstance(dispatcher, Dispatcher):
            cast(Any, dispatcher).compile(each.numba_types())
            compiled += 1
    return compiled


def _words(names: Mapping[str, Any]) -> dict[str, Any]:
    """What types are written in: `int64`, `int64[::1]`, `readonly(uint8[:])`, tuples, and NamedTuples by their name."""
    classes = {name: each for name, each in names.items() if isinstance(each, type) and issubclass(each, tuple)}
    return {
        **{name: each for name, each in vars(types).items() if isinstance(each, types.Type)},
        **{name: _NamedTupleOf(each) for name, each in classes.items()},
        "readonly": lambda array: array.copy(readonly=True),
    }


class _NamedTupleOf(NamedTuple):
    named: type

    def __call__(self, *items: Any) -> types.Type:
        if len(items) != len(cast(Any, self.named)._fields):
            raise TypeError(f"`{self.named.__name__}` has other fields now")
        return types.BaseTuple.from_types([_as_type(each) for each in items], self.named)


def _as_type(found: Any) -> types.Type:
    return types.BaseTuple.from_types([_as_type(each) for each in found]) if isinstance(found, tuple) else found
