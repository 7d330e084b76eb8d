"""What `typings/` says of pyarrow, which brings no types of its own, is there: classes, functions, their parameters."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

TYPINGS = Path(__file__).parents[1] / "typings"
STUBS = sorted(TYPINGS.rglob("*.pyi"))


@pytest.mark.parametrize("stub", STUBS, ids=lambda stub: str(stub.relative_to(TYPINGS)))
def test_what_is_declared_is_there(stub: Path) -> None:
    name = ".".join(stub.relative_to(TYPINGS).with_suffix("").parts).removesuffix(".__init__")
    missing = list(_missing(ast.parse(stub.read_text()).body, importlib.import_module(name), name))
    assert not missing


def _missing(body: list[ast.stmt], owner: Any, place: str) -> Iterator[str]:
    """The names below a module or class that it does not have, and the parameters that its functions do not take."""
    for node in body:
        if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
            continue
        where = f"{place}.{node.name}"
        if not hasattr(owner, node.name):
            yield where
        elif isinstance(node, ast.ClassDef):
            yield from _missing(node.body, getattr(owner, node.name), where)
        else:
            yield from (f"{where}({name})" for name in _not_taken(node, getattr(owner, node.name)))


def _not_taken(declared: ast.FunctionDef, function: Any) -> list[str]:
    """The parameters that can be passed by name, but not to this function; none where it does not tell."""
    if not callable(function) or not (taken := _parameters(function)):
        return []
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return []
    named = {each.arg for each in (*declared.args.args, *declared.args.kwonlyargs)} - {"self"}
    return sorted(named - set(taken))


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except ValueError:
        return {}
