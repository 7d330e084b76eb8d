"""The plan of the house holds: names are used once, every module has its layer, and what pages point to is there."""

from __future__ import annotations

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sash"
PAGES = [ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]
MODULES = sorted(SOURCE.rglob("*.py"))
GRAB_BAGS = {"utils", "util", "helpers", "common", "misc"}
MOST_LINES = 120
"""Of ARCHITECTURE.md: two pages."""
A_PATH = re.compile(r"(?<![\w/.])((?:\w+/)+\w+\.py|\w+\.py(?=`)|(?<=`)(?:\w+/)+(?=`))")
"""A module or folder, as pages name it: below src/sash, or from the root of the repository."""


def test_no_two_modules_share_a_name() -> None:
    places = defaultdict(list)
    for path in MODULES:
        folder_or_file = path.parent if path.stem == "__init__" else path
        places[folder_or_file.stem].append(_below_source(path))
    assert not _used_twice(places)


@pytest.mark.slow
def test_no_two_public_classes_share_a_name() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(f"{_below_source(path)}:{node.lineno}")
    assert not _used_twice(places)


def test_no_module_is_a_grab_bag() -> None:
    assert not GRAB_BAGS & {path.stem for path in MODULES}


def test_every_module_has_a_layer() -> None:
    """`exhaustive` makes import-linter refuse a module without one; here it is seen without running it."""
    contract = _layers_contract()
    assert contract["exhaustive"]
    layers = [name.strip() for line in contract["layers"] for name in line.split("|")]
    children = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert sorted(layers) == sorted(children - {"__init__"})


def test_what_lies_at_the_root_is_the_face() -> None:
    assert {path.stem for path in SOURCE.glob("*.py")} == {"__init__", "api", "errors", "frames", "session"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_is_there(page: Path) -> None:
    named = set(A_PATH.findall(page.read_text()))
    assert not sorted(path for path in named if not any(map(Path.exists, _places_of(path))))


def test_the_check_of_pages_sees_paths() -> None:
    text = "`plan/logical.py`, `api.py`: plan/flow.py; `tests/support/steps.py`, `plan/rules/`; not `make x` nor `a.b`"
    named = ["plan/logical.py", "api.py", "plan/flow.py", "tests/support/steps.py", "plan/rules/"]
    assert A_PATH.findall(text) == named


def test_the_architecture_fits_on_two_pages() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text().splitlines()) <= MOST_LINES


def _used_twice(places: Mapping[str, list[str]]) -> dict[str, list[str]]:
    return {name: found for name, found in places.items() if len(found) > 1}


def _below_source(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def _layers_contract() -> dict:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = settings["tool"]["importlinter"]["contracts"]
    (contract,) = (each for each in contracts if each["type"] == "layers")
    return contract


def _places_of(path: str) -> Iterator[Path]:
    for folder in (SOURCE, ROOT):
        yield folder / path
