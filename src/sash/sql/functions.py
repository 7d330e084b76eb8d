"""Which of DuckDB's functions a continuous query may call.

An answer must follow from the tuples alone, however they are batched and whenever the query is resumed. So a function
that looks at the clock, at the session, at tables or at chance is refused, and for now so is one that makes several
rows of one. The aggregates that run are taken out of an expression before it is looked at here. DuckDB itself says
what its functions do and how it reads an expression.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, cast

from sash.sql import duck
from sash.sql.bound_aggregates import AGGREGATES_THAT_RUN

_IMPURE = "`{}` does not follow from the tuples alone; use a column of the stream instead, such as its time"
_AGGREGATE = f"the aggregate `{{}}` cannot run in this version; use one of {AGGREGATES_THAT_RUN}"
_WINDOW = "the window function `{}` needs `OVER (…)` behind it; add that"
_ROWS = "`{}`, which makes several rows of one, cannot run in this version; take lists apart where you read the answer"

_REFUSED_NODES = {
    "PARAMETER": "a parameter has no value in a continuous query; write the value itself",
    "POSITIONAL_REFERENCE": "a column cannot be referred to by its position; name it",
    "STAR": "`*` cannot stand inside an expression; name the columns",
    "SUBQUERY": "a subquery cannot run in this version; join it in `FROM`",
}
_MISDECLARED = {
    # DuckDB 2.0 calls the first two consistent although they read the clock, and lists the others not as scalars.
    **dict.fromkeys(("current_localtime", "current_localtimestamp"), _IMPURE),
    **dict.fromkeys(("current_time", "current_timestamp", "localtime", "localtimestamp"), _IMPURE),
    **dict.fromkeys(("unnest", "unlist"), _ROWS),
}


@functools.lru_cache(maxsize=8192)
def refusal(expr_sql: str) -> str | None:
    """Why a continuous query cannot hold this expression, rendered for DuckDB; None when it can."""
    reasons = (_refused(node, _refused_names()) for node in _nodes(expr_sql))
    return next(filter(None, reasons), None)


def is_aggregate(name: str) -> bool:
    """Whether DuckDB has an aggregate of this name, given in lower case."""
    return name in _aggregate_names()


@functools.cache
def _aggregate_names() -> frozenset[str]:
    with duck.connect() as connection:
        rows = connection.execute("SELECT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'")
        return frozenset(name for (name,) in rows.fetchall())


def _refused(node: dict[str, Any], refused_names: dict[str, str]) -> str | None:
    name = str(node.get("function_name") or ".".join(node.get("column_names", ()))).lower()
    if name == "age" and len(node.get("arguments", ())) == 1:
        return _IMPURE.format(name)  # with one argument it counts from today
    if name in refused_names:
        return refused_names[name].format(name.removesuffix("_star"))
    return _REFUSED_NODES.get(node["class"])


@functools.cache
def _refused_names() -> dict[str, str]:
    with duck.connect() as connection:
        rows = connection.execute(
            "SELECT DISTINCT function_name, function_type, stability, macro_definition FROM duckdb_functions()"
        ).fetchall()
    refused = dict(_MISDECLARED)
    for name, kind, stability, _ in rows:
        if kind == "aggregate":
            refused[name] = _AGGREGATE
        elif kind == "window":
            refused[name] = _WINDOW
        elif kind == "scalar" and stability != "CONSISTENT":
            refused[name] = _IMPURE
    return _with_macros(refused, [(name, definition) for name, kind, _, definition in rows if kind == "macro"])


def _with_macros(refused: dict[str, str], definitions: list[tuple[str, str]]) -> dict[str, str]:
    """Refuse the macros whose definitions call what is refused, and those that call these, and so on."""
    bodies: dict[str, list[dict[str, Any]]] = {}
    for name, definition in definitions:
        bodies.setdefault(name, []).extend(_nodes(definition))
    while True:
        calling = {
            name: next((refused[call] for call in _calls(body) if call in refused), _IMPURE)
            for name, body in bodies.items()
            if name not in refused and any(_refused(node, refused) for node in body)
        }
        if not calling:
            return refused
        refused |= calling


def _calls(body: list[dict[str, Any]]) -> Iterator[str]:
    return (node["function_name"] for node in body if "function_name" in node)


def _nodes(expr_sql: str) -> Iterator[dict[str, Any]]:
    """The nodes of an expression as DuckDB parses it, parents first; none when it does not parse."""
    with duck.connect() as connection:
        tree = connection.execute("SELECT json_serialize_sql(?)", [f"SELECT {expr_sql}"]).fetchall()[0][0]
    pending: list[Any] = [statement["node"]["select_list"] for statement in json.loads(tree).get("statements", ())]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            node = cast(dict[str, Any], item)
            if "class" in node:
                yield node
            pending.extend(node.values())
        elif isinstance(item, list):
            pending.extend(cast(list[Any], item))
