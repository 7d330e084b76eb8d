"""Every mistake in a query or script and the full text of its error, in `errors.golden`.

A case there is the error as printed. The text that causes it is in it: the line that it underlines.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sash.errors import ParseError, SashError
from sash.sql.bind import bind
from sash.sql.catalog import Catalog
from sash.sql.parse import parse_query, parse_script
from sash.sql.statements import CreateQuery

GOLDEN = (Path(__file__).parent / "errors.golden").read_text(encoding="utf-8")
CASES = [block for block in GOLDEN.strip().split("\n\n") if not block.startswith("#")]


def text_of(case: str) -> str:
    return case.split("\n")[1].removeprefix("  line 1: ")


def bind_script(text: str, catalog: Catalog) -> None:
    for statement in parse_script(text):
        if isinstance(statement, CreateQuery):
            bind(statement.select, catalog)


@pytest.mark.parametrize("case", CASES, ids=text_of)
def test_golden_error(case: str, catalog: Catalog) -> None:
    with pytest.raises(SashError) as caught:
        bind_script(text_of(case), catalog)
    assert f"{type(caught.value).__name__}: {caught.value}" == case.rstrip("\n")


def test_cases_are_distinct() -> None:
    assert len(CASES) > 100
    assert len(set(map(text_of, CASES))) == len(CASES)


def test_an_error_shows_the_line_of_the_script(catalog: Catalog) -> None:
    script = "-- a comment\nCREATE QUERY hot AS\n  SELECT A.location\n  FROM temperature A\n  WHERE A.valeu > 30;\n"
    with pytest.raises(SashError) as caught:
        bind_script(script, catalog)
    assert str(caught.value) == (
        "`A` has no column `valeu`; did you mean `value`?\n  line 5:   WHERE A.valeu > 30;\n                    ^^^^^"
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the query is empty; write a `SELECT`"),
        ("-- nothing", "the query is empty; write a `SELECT`"),
        ("SELECT 1 FROM a; SELECT 2 FROM a", "expected one `SELECT` but found a second statement; remove it"),
        (
            "CREATE TABLE t (a INT) FROM 'x' FORMAT csv",
            "expected `SELECT` but found `CREATE`, which belongs in a script",
        ),
        ("SELECT 1 FROM a INTO 'out' FORMAT csv", "`INTO` belongs to a script's CREATE QUERY; remove it"),
        ("SELECT 'a\0b' FROM a", r"the text holds '\x00', which is no character; remove it"),
        ("SELECT '\ud800' FROM a", r"the text holds '\ud800', which is no character; remove it"),
        ("SELECT " + "(" * 500 + "1" + ")" * 500, "the text is nested too deeply; take some parentheses away"),
    ],
    ids=lambda value: re.sub(r"\W+", " ", value)[:40],
)
def test_a_query_is_one_select(text: str, reason: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_query(text)
    assert caught.value.reason == reason


@pytest.mark.slow
def test_an_expression_can_be_too_long_to_bind(catalog: Catalog) -> None:
    select = parse_query(f"SELECT {' + '.join(['n'] * 2000)} FROM temperature")
    with pytest.raises(SashError, match=r"too long|depth"):
        bind(select, catalog)
