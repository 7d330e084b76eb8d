"""`make kernels`: what `kernels/signatures.txt` says is what kernels were called with by all tests before it.

numba keeps on disk what it has compiled, with the types that it was for. Kernels that only other kernels call need no
line: whoever compiles the callers compiles them.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any, cast

from numba import types
from numba.core.dispatcher import Dispatcher

import sash.kernels
import sash.papers
from sash.kernels.precompile import SIGNATURES, KernelSignature


def all_kernels() -> Iterator[tuple[str, str, Any]]:
    """Module, name and dispatcher of everything that is compiled, but for what is written into its callers."""
    for package in (sash.kernels, sash.papers):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            for name, each in vars(import_module(found.name)).items():
                if isinstance(each, Dispatcher) and _is_compiled_apart(cast(Any, each), found.name):
                    yield found.name, name, each


def _is_compiled_apart(kernel: Any, module: str) -> bool:
    return kernel.py_func.__module__ == module and kernel.targetoptions.get("inline") != "always"


def kept_signatures() -> Iterator[KernelSignature]:
    """What numba has kept of the sources as they are now."""
    for module, name, dispatcher in all_kernels():
        for numba_types, *_ in dispatcher._cache._cache_file._load_index():
            if not any(map(_has_literal, numba_types)):
                yield KernelSignature(module, name, in_brackets(numba_types))


def _has_literal(each: types.Type) -> bool:
    """Whether it is the type of one value: then it comes from a caller that is compiled."""
    items = cast(Any, each).types if isinstance(each, types.BaseTuple) else ()
    return isinstance(each, types.Literal) or any(map(_has_literal, items))


def written(each: types.Type) -> str:
    """A type in the words of `kernels/precompile.py`."""
    if isinstance(each, types.Array):
        items = ", ".join(":" * (each.ndim - 1))
        last = {"C": "::1", "A": ":"}[each.layout]
        array = f"{each.dtype}[{items + ', ' if items else ''}{last}]"
        return array if each.mutable else f"readonly({array})"
    if isinstance(each, types.BaseTuple):
        name = cast(Any, each).instance_class.__name__ if isinstance(each, types.BaseNamedTuple) else ""
        return name + in_brackets(cast(Any, each).types)
    assert isinstance(each, types.Number | types.Boolean), f"{each!r} has no word yet"
    return "boolean" if isinstance(each, types.Boolean) else str(each)


def in_brackets(several: Iterable[types.Type]) -> str:
    """As Python writes a tuple: of one item, with a comma."""
    items = [written(each) for each in several]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


if __name__ == "__main__":
    lines = sorted(f"{module}.{kernel}{numba_types}" for module, kernel, numba_types in kept_signatures())
    SIGNATURES.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} lines in {SIGNATURES.name}")
