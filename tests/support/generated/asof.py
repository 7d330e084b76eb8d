"""ASOF joins of generated cases: by keys and one comparison of times, and which of the partners of one time it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from support.generated.choices import Choices
from support.generated.data import INSTANT, LIST, NOTHING, NUMBER, STRING, Table
from support.generated.tree import Item, Link, Reading

_COMPARISONS = {">=": 6, ">": 2, "<=": 2, "<": 1}


def can_be_asof(items: Sequence[Item], place: int) -> bool:
    """Whether an item has something to compare with one before it."""
    return any(_comparable(item, items[place]) for item in items[:place])


def draw_asof(choices: Choices, items: Sequence[Item], place: int, word: str) -> Link:
    """An item with the newest rows that go with those before it."""
    right = items[place]
    left = choices.one([item for item in items[:place] if _comparable(item, right)])
    names = [{name for name, _ in item.columns} for item in (left, right)]
    if len(items) == 2 and {"k", "ts"} <= names[0] & names[1] and choices.chance(12):
        conditions = f"{left.alias}.k = {right.alias}.k", f"{left.alias}.ts >= {right.alias}.ts"
        return Link(word, conditions, using="k, ts", compared=(f"{right.alias}.k", f"{right.alias}.ts"))
    conditions, compared = [], []
    keys = list(_pairs(left, right, (NUMBER, STRING)))
    for _ in range(choices.weighted({1: 8, 0: 1, 2: 1}) if keys else 0):
        pair = choices.one([each for each in keys if each[0].endswith(".k")] or keys)
        conditions.append(" = ".join(pair if choices.chance(80) else pair[::-1]))
        compared.append(pair[1])
    times = _comparable(left, right)
    usual = [each for each in times if all(name.endswith(".ts") for name in each)]
    one, other = choices.one(usual if usual and choices.chance(85) else times)
    conditions.append(f"{one} {choices.weighted(_COMPARISONS)} {other}")
    if choices.chance(15):
        conditions.append(f"{choices.one((one, other))} IS NOT NULL")
    return Link(word, tuple(conditions), compared=(*compared, other))


def one_partner(text: str, item: Item, link: Link, tables: Mapping[str, Table]) -> str:
    """An item, written as `text`, with one of the rows that are equal in what is compared: the greatest."""
    order = ", ".join(f"{item.alias}.{name} DESC NULLS LAST" for name in _deciding(item, tables))
    signs = "".join(f", signbit({item.alias}.{name})" for name, family in item.columns if family == NUMBER)
    by = ", ".join([f"{item.alias}._i", *link.compared])
    first = f"row_number() OVER (PARTITION BY {by} ORDER BY {order}{signs}) = 1"
    return f"(SELECT * FROM {text} QUALIFY {first}) {item.alias}"


def _deciding(item: Item, tables: Mapping[str, Table]) -> Iterator[str]:
    """The columns in the order in which they decide between rows of one time."""
    tie = tables[item.table].tie if isinstance(item, Reading) else ()
    names = [name for name, family in item.columns if family not in (LIST, NOTHING)]
    if isinstance(item, Reading):
        known = tables[item.table].rows.column_names
        names.sort(key=lambda name: known.index(name) if name in known else len(known))
    yield from dict.fromkeys([*tie, *names])


def _comparable(left: Item, right: Item) -> list[tuple[str, str]]:
    return list(_pairs(left, right, (NUMBER, INSTANT)))


def _pairs(left: Item, right: Item, families: Sequence[str]) -> Iterator[tuple[str, str]]:
    for one, family in left.columns:
        for other, another in right.columns:
            if family == another and family in families:
                yield f"{left.alias}.{one}", f"{right.alias}.{other}"
