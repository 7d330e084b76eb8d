"""Kernels are told apart from other functions by one decorator, and can be read without numba: see `kernels/jit.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from sash.kernels import jit, precompile

SOURCE = Path(jit.__file__).parents[1]
JIT = "sash.kernels.jit"
MOST_PARAMETERS = 8
"""More than so many are told apart by their order no longer: what belongs together is a NamedTuple."""
DECORATORS = {name for name in vars(jit) if name.startswith(("inlined_", "folded_", "borrowing_", "released_"))} | {
    "kernel"
}


class Kernel(NamedTuple):
    path: str
    function: ast.FunctionDef

    def __str__(self) -> str:
        return f"{self.path}:{self.function.name}"


def _name(decorator: ast.expr) -> str:
    """`kernel` of `@kernel`, of `@kernel(…)` and of `@jit.kernel`."""
    if isinstance(decorator, ast.Call):
        return _name(decorator.func)
    return decorator.attr if isinstance(decorator, ast.Attribute) else getattr(decorator, "id", "")


def find_kernels() -> Iterator[Kernel]:
    """Every function with a decorator of `kernels/jit.py`, by whatever name, wherever it is."""
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(_name(each) in DECORATORS for each in node.decorator_list):
                yield Kernel(path.relative_to(SOURCE).as_posix(), node)


KERNELS = list(find_kernels())
"""As they stand in the source: what is inlined has no other trace."""


def test_there_are_decorators_and_kernels() -> None:
    assert len(DECORATORS) == 6
    assert len(KERNELS) > 150
    assert {each.path.split("/")[0] for each in KERNELS} == {"kernels", "papers"}


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_a_kernel_has_few_parameters_and_names_their_types(kernel: Kernel) -> None:
    arguments = kernel.function.args
    assert not any((arguments.vararg, arguments.kwarg, arguments.kwonlyargs, arguments.posonlyargs))
    assert len(arguments.args) <= MOST_PARAMETERS
    assert not [each.arg for each in arguments.args if each.annotation is None]
    assert kernel.function.returns is not None


@pytest.mark.parametrize("path", sorted({each.path for each in KERNELS}))
def test_arrays_are_named_by_their_items(path: str) -> None:
    """What a kernel is given, and the NamedTuples beside it, have arrays of `kernels/arrays.py`."""
    annotations = [ast.unparse(each) for each in _annotations(ast.parse((SOURCE / path).read_text()))]
    assert not [each for each in annotations if "ndarray" in each or "NDArray" in each]


@pytest.mark.slow
def test_a_decorator_is_imported_by_its_own_name() -> None:
    for path in {each.path for each in KERNELS}:
        imports = [
            each for each in ast.walk(ast.parse((SOURCE / path).read_text())) if isinstance(each, ast.ImportFrom)
        ]
        names = {name.name: name.asname for each in imports if each.module == JIT for name in each.names}
        used = {_name(each) for kernel in KERNELS if kernel.path == path for each in kernel.function.decorator_list}
        assert used == names.keys(), path
        assert set(names.values()) == {None}, path


@pytest.mark.slow
def test_nothing_else_compiles() -> None:
    importers = [path for path in SOURCE.rglob("*.py") if "numba" in _imported(ast.parse(path.read_text()))]
    assert {path.name for path in importers} == {Path(jit.__file__).name, Path(precompile.__file__).name}


def _imported(tree: ast.Module) -> set[str]:
    """The packages that a module imports from, at its head or within a function."""
    names = [each.name for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in names}


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        elif isinstance(node, ast.FunctionDef):
            yield from (each.annotation for each in node.args.args if each.annotation is not None)
            if node.returns is not None:
                yield node.returns
