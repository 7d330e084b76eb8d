"""EMIT FINAL of generated cases: streams in windows of time, joined in one way or another, and what has come by when.

SELECT a.v, b.v FROM s a [RANGE 5 us] LEFT JOIN t b [RANGE 3 us] ON a.k = b.k EMIT FINAL

SELECT i.t AS _i, q.c0, q.c1 FROM instants i JOIN (
    SELECT a.v AS c0, b.v AS c1, CASE WHEN b._enters IS NULL THEN a._leaves ELSE … END AS _when
    FROM "#0" a LEFT JOIN "#1" b ON a.k = b.k AND a._enters < b._leaves AND b._enters < a._leaves) q ON q._when <= i.t
"""

from __future__ import annotations

from collections.abc import Sequence

from support.generated.choices import Choices
from support.generated.tree import Select, Window

KINDS = {"JOIN": 2, "LEFT JOIN": 5, "RIGHT JOIN": 2, "FULL JOIN": 3, "ANTI JOIN": 2}


def draw_range(choices: Choices) -> Window:
    """A window of time."""
    slide = choices.one((2, 3)) if choices.chance(15) else None
    return Window("range", choices.weighted({5: 3, 9: 2, 2: 2, 14: 1}), slide)


def write_once(select: Select, tables: Sequence[str]) -> str:
    """The rows of the answer, from when on they are there, at every instant; `tables` have the lives of rows."""
    first, *others = select.items
    outputs = ", ".join(f"{expr} AS {name}" for expr, name, _ in select.outputs)
    text, when = f"{_that_enter(tables[0])} {first.alias}", f"{first.alias}._enters"
    if others:
        (other,), (link,) = others, select.links
        a, b = first.alias, other.alias
        overlap = [f"{a}._enters < {b}._leaves", f"{b}._enters < {a}._leaves"]
        on = " AND ".join([*(f"({each})" for each in link.conditions), *overlap])
        text += f" {link.word} {_that_enter(tables[1])} {b} ON {on}"
        met = f"greatest({a}._enters, {b}._enters)"
        ends = {"LEFT JOIN": {b: a}, "RIGHT JOIN": {a: b}, "FULL JOIN": {a: b, b: a}}.get(link.word, {})
        cases = "".join(f" WHEN {none}._enters IS NULL THEN {kept}._leaves" for none, kept in ends.items())
        when = f"CASE{cases} ELSE {met} END" if cases else met if link.shows else f"{a}._leaves"
    where = f" WHERE {' AND '.join(f'({each})' for each in select.where)}" if select.where else ""
    names = ", ".join(f"q.{name}" for _, name, _ in select.outputs)
    inner = f"SELECT {outputs}, {when} AS _when FROM {text}{where}"
    return f"SELECT i.t AS _i, {names} FROM instants i JOIN ({inner}) q ON q._when <= i.t"


def _that_enter(table: str) -> str:
    """Rows that are in their window at any time: between two slides, some never are."""
    return f'(SELECT * FROM "{table}" WHERE _enters < _leaves)'
