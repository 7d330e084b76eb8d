"""Golden files: what a query answers, as text that can be read, checked by hand, and rewritten.

A file holds cases; paragraphs are separated by blank lines, lines with `#` are comments:

    === TITLE                                            begins a case
    stream NAME (time COLUMN, slack LENGTH, tie COLUMN)  rows in order of arrival; slack and tie may be left out
    relation NAME (from COLUMN, to COLUMN)               rows; when they are valid may be left out
    sql                                                  the query
    advance TIME                                         declares all streams complete up to TIME after their last row
    changes                                              expected: all changes
    late NAME                                            expected: the rows of a stream that came too late
    explain                                              expected, where a case asks for it: EXPLAIN, verbose

A table's first line is `column TYPE | column TYPE`; values are written as DuckDB casts them from and to VARCHAR, with
NULL for NULL and '' for the empty string. `pytest tests/golden --rewrite-goldens` writes what comes out today into the
files: read the difference as carefully as code.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import sash

FOLDER = Path(__file__).parent
SYSTEM_COLUMNS = ("_op", "_ts", "_expires")
EXPECTED = ("changes", "late", "explain")


@dataclass
class Case:
    """One case of a golden file."""

    path: Path
    text: str
    sql: str = ""
    streams: dict[str, Any] = field(default_factory=dict)
    relations: dict[str, Any] = field(default_factory=dict)
    advance_us: int | None = None
    is_explained: bool = False

    @property
    def title(self) -> str:
        return self.text.split("\n", 1)[0].removeprefix("=== ")

    @property
    def frames(self) -> dict[str, Any]:
        """As `sash.sql` and `sash.query` take them."""
        return {**self.streams, **self.relations}

    @property
    def expected(self) -> str:
        """The paragraphs that `render_answer` must give."""
        return "\n\n".join(part for part in self.text.split("\n\n") if part.startswith(("changes\n", "late ")))

    def render_answer(self, changes: pa.Table, late: Mapping[str, pa.Table]) -> str:
        """An answer as paragraphs: the changes, and the late rows of the streams that have some."""
        names = [name for name in self.streams if name in late and late[name].num_rows]
        rest = [f"late {name}\n{render_table(late[name])}" for name in names]
        return "\n\n".join([f"changes\n{render_table(changes)}", *rest])

    def render(self, changes: pa.Table, late: Mapping[str, pa.Table]) -> str:
        """The case's text with this answer, and today's EXPLAIN, in place of the expected ones."""
        paragraphs = [*self._given(), self.render_answer(changes, late)]
        if self.is_explained:
            paragraphs.append("explain\n" + sash.explain(self.sql, verbose=True, **self.frames).rstrip("\n"))
        return "\n\n".join(paragraphs)

    def rewrite(self, text: str) -> None:
        """Puts the text in the case's place in its file."""
        old = self.path.read_text(encoding="utf-8")
        self.path.write_text(old.replace(self.text, text), encoding="utf-8")

    def _given(self) -> Iterator[str]:
        for paragraph in self.text.split("\n\n"):
            kind, comments, lines = _split(paragraph)
            if kind in ("stream", "relation"):
                name = lines[0].split(" ")[1]
                table = (self.streams if kind == "stream" else self.relations)[name].frame
                yield "\n".join([*comments, lines[0], render_table(table)])
            elif kind not in EXPECTED:
                yield paragraph.strip("\n")


@functools.cache
def parse_cases(path: Path) -> list[Case]:
    """The cases of a file; all tests share them."""
    parts = re.split(r"^(?==== )", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    return [_parse_case(path, part.rstrip("\n")) for part in parts]


def _parse_case(path: Path, text: str) -> Case:
    made = Case(path, text)
    for paragraph in text.split("\n\n"):
        kind, _, lines = _split(paragraph)
        match kind:
            case "stream":
                made.streams[lines[0].split(" ")[1]] = _parse_stream(lines)
            case "relation":
                made.relations[lines[0].split(" ")[1]] = _parse_relation(lines)
            case "sql":
                made.sql = "\n".join(lines[1:])
            case "advance":
                made.advance_us = int(lines[0].split(" ")[1])
            case "explain":
                made.is_explained = True
            case _:
                assert kind in ("", "===", *EXPECTED), f"{path.name} has a paragraph `{kind}`"
    return made


def _split(paragraph: str) -> tuple[str, list[str], list[str]]:
    """The paragraph's first word, its comments, and its other lines."""
    lines = paragraph.strip("\n").split("\n")
    rest = [line for line in lines if not line.startswith("#")]
    return rest[0].split(" ")[0] if rest else "", [line for line in lines if line.startswith("#")], rest


def _parse_options(line: str) -> dict[str, str]:
    """What stands in brackets behind a name."""
    _, _, inside = line.partition("(")
    return dict(option.strip().split(" ", 1) for option in inside.rstrip(")").split(",")) if inside else {}


def _parse_relation(lines: list[str]) -> Any:
    options = _parse_options(lines[0])
    return sash.relation(parse_table(lines[1:]), options.get("from"), options.get("to"))


def _parse_stream(lines: list[str]) -> Any:
    options = _parse_options(lines[0])
    tie = tuple(options.get("tie", "").split())
    return sash.stream(parse_table(lines[1:]), options["time"], options.get("slack"), tie)


def parse_table(lines: list[str]) -> pa.Table:
    """A table from its lines."""
    heads = [cell.strip().split(" ", 1) for cell in lines[0].split(" | ")]
    rows = [[_literal(cell.strip()) for cell in line.split(" | ")] for line in lines[1:]]
    items = ", ".join(f'CAST(c{idx} AS {type}) AS "{name}"' for idx, (name, type) in enumerate(heads))
    values = ", ".join(f"({', '.join(row)})" for row in rows or [["NULL"] * len(heads)])
    names = ", ".join(f"c{idx}" for idx in range(len(heads)))
    sql = f"SELECT {items} FROM (VALUES {values}) AS rows({names})"
    return _connection.sql(sql).to_arrow_table().slice(0, len(rows))


def _literal(cell: str) -> str:
    text = "" if cell == "''" else cell.replace("'", "''")
    return "NULL" if cell == "NULL" else f"'{text}'"


def render_table(table: pa.Table) -> str:
    """A table as aligned lines, numbers to the right."""
    relation = _connection.from_arrow(table)
    types = [str(type) for type in relation.types]
    head = [name if name in SYSTEM_COLUMNS else f"{name} {type}" for name, type in zip(table.column_names, types)]
    rows = [
        head,
        *([_cell(value) for value in row] for row in relation.project("CAST(COLUMNS(*) AS VARCHAR)").fetchall()),
    ]
    widths = [max(len(row[idx]) for row in rows) for idx in range(len(head))]
    signs = [
        ">" if type.endswith(("INT", "INTEGER")) or type.startswith(("DEC", "DOUBLE", "FLOAT")) else "<"
        for type in types
    ]
    return "\n".join(
        " | ".join(f"{cell:{sign}{width}}" for cell, sign, width in zip(row, signs, widths)).rstrip() for row in rows
    )


def _cell(value: str | None) -> str:
    return "NULL" if value is None else value or "''"


_connection = duckdb.connect(config={"threads": 1})
_connection.execute("SET TimeZone = 'UTC'")


def pytest_addoption(parser: pytest.Parser) -> None:
    with contextlib.suppress(ValueError):  # tests/plan has the same option
        parser.addoption("--rewrite-goldens", action="store_true", help="write today's answers into the golden files")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an argument `case` runs for every case of every file."""
    if "case" in metafunc.fixturenames:
        cases = [case for file in sorted(FOLDER.glob("*.test")) for case in parse_cases(file)]
        metafunc.parametrize("case", cases, ids=[f"{case.path.stem}: {case.title}" for case in cases])


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """While files are rewritten only the test that rewrites them runs: the others have read the old ones."""
    if config.getoption("--rewrite-goldens", default=False):
        items[:] = [
            item for item in items if item.path.parent != FOLDER or getattr(item, "originalname", "") == "test_golden"
        ]
