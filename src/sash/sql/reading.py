"""Whether DuckDB reads an expression as Sash does.

sqlglot reads the text and DuckDB evaluates what is made of it. Where their grammars differ, in what binds tighter or in
what an operator is, the answer would silently be another than DuckDB's. So DuckDB's own parser is asked twice, what it
reads in the user's text and what in ours:

    a < b < c           DuckDB does not read this at all
    j -> 'x' = 'y'      j -> ('x' = 'y') to DuckDB, (j -> 'x') = 'y' to sqlglot
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias, cast

import duckdb
from sqlglot import Token, TokenType, exp
from sqlglot.errors import ErrorLevel

from sash.errors import ParseError, Span
from sash.sql import duck
from sash.sql.dialect import Sash
from sash.sql.expressions import span_of
from sash.sql.foreign_functions import ForeignCall
from sash.sql.parameters import PARAMETER
from sash.sql.parsed import ParsedSelect
from sash.sql.stars import replacements_of

_PREFIX = "SELECT "
_SOMETHING = "FROM x"
"""What stands for a subquery, which is read by itself; no query is shorter."""
_SHORT_UNIT = re.compile(r"(?i)\bINTERVAL\s+([\d.]+\s+(?:us|ms|s|min|m|h|d|w))\b")
_Node: TypeAlias = dict[str, Any]
"""A part of a tree of DuckDB's, as JSON."""

_PLACES = ("query_location", "query_location_length")
_FORMS = ("is_operator", "syntax_type", "qualified_name")
"""What tells how something is written, or says it again."""
_SAME_FUNCTIONS = {"**": "^", "^@": "starts_with", "@": "abs", "position": "strpos"}
_NEGATIONS = {
    "OPERATOR_IS_NULL": "OPERATOR_IS_NOT_NULL",
    "COMPARE_NOT_DISTINCT_FROM": "COMPARE_DISTINCT_FROM",
}


def check_syntax(select: ParsedSelect) -> None:
    """ParseError at an expression of a SELECT as written that DuckDB does not read."""
    for expr, span in _expressions(select):
        written = _without_queries(expr, span, select.text)
        tree = _read(written)
        if isinstance(tree, _Misread):
            _refuse_short_unit(written, select.text, span)
            raise ParseError(tree.reason, select.text, tree.place(span, select.text))


def _refuse_short_unit(written: str, text: str, span: Span) -> None:
    """ParseError if there is a length as it may stand in a window, and not in an expression."""
    short = _SHORT_UNIT.search(written)
    if short is not None:
        reason = (
            f"`{short[0]}` is no interval to DuckDB; write its unit out, or quote it, as in `INTERVAL '{short[1]}'`"
        )
        raise ParseError(reason, text, span)


def check_reading(select: ParsedSelect) -> None:
    """ParseError at an expression of a SELECT that DuckDB reads otherwise than Sash; all of it is bound already."""
    for expr, span in _expressions(select):
        written = _without_queries(expr, span, select.text)
        if _read(written) != _read(_render(expr)):
            remedy = "put brackets where you mean them, or write it otherwise"
            reason = f"DuckDB reads this as `{_spell(written)}`, and Sash does not; {remedy}"
            raise ParseError(reason, select.text, span)


def spelled_name(expr: exp.Expr, text: str) -> str:
    """The name that DuckDB gives to an item without one, that it reads; with subqueries in it, as it is written."""
    span = span_of(expr)
    if span is None:
        return expr.sql(dialect=Sash)
    if next(_outermost_queries(expr), None) is not None:
        return text[span.start : span.end]
    return _spell(_without_queries(expr, span, text))


def _expressions(select: ParsedSelect) -> Iterator[tuple[exp.Expr, Span]]:
    """Each with its place; those that the text does not hold, as the columns behind `*`, need no reading."""
    exprs = [output.unalias() for output in select.outputs if not output.is_star]
    exprs += [each for output in select.outputs if output.is_star for each in replacements_of(output)]
    exprs += [*select.on, *(clause for clause in (select.where, select.having) if clause is not None)]
    exprs += [group for group in select.groups or () if not isinstance(group, exp.Tuple) or group.expressions]
    for expr in exprs:
        span = span_of(expr)
        if span is not None:
            yield expr, span


def _outermost_queries(expr: exp.Expr) -> Iterator[exp.Query]:
    nodes = expr.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in nodes if isinstance(node, exp.Query))


def _without_queries(expr: exp.Expr, span: Span, text: str) -> str:
    """The text of an expression, with something as short as can be in place of the queries in it."""
    written = text
    for query in _outermost_queries(expr):
        inside = _brackets(text, span_of(query.unnest()) or span)
        written = written[: inside.start] + _SOMETHING.ljust(inside.end - inside.start) + written[inside.end :]
    return _quote_names(expr, written, span)


def _quote_names(expr: exp.Expr, text: str, span: Span) -> str:
    """The text of an expression, with columns in quotes whose names are words of DuckDB's grammar, as `at` is."""
    parts = [node for column in _columns(expr) for node in column.parts if _is_word(node)]
    places = sorted((node.meta["start"], node.meta["end"] + 1) for node in parts if "start" in node.meta)
    written, done = "", span.start
    for start, end in places:
        written, done = f'{written}{text[done:start]}"{text[start:end]}"', end
    return written + text[done : span.end]


def _columns(expr: exp.Expr) -> Iterator[exp.Column]:
    """The columns of an expression, less those of the queries in it."""
    nodes = expr.walk(prune=lambda node: isinstance(node, exp.Query))
    return (node for node in nodes if isinstance(node, exp.Column))


def _is_word(name: exp.Expr) -> bool:
    return isinstance(name, exp.Identifier) and not name.quoted and name.name.lower() in _words()


@functools.cache
def _words() -> frozenset[str]:
    """What DuckDB does not take for the name of a column, unless it stands in quotes."""
    query = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category IN ('reserved', 'type_function')"
    with duck.connect() as connection:
        return frozenset(name for (name,) in connection.execute(query).fetchall())


def _brackets(text: str, span: Span) -> Span:
    """What stands between the innermost brackets around a stretch of text."""
    opened: list[int] = []
    for token in _tokens(text):
        if token.token_type is TokenType.L_PAREN:
            opened.append(token.end + 1)
        elif token.token_type is TokenType.R_PAREN and opened:
            first = opened.pop()
            if first <= span.start and span.end <= token.start:
                return Span(first, token.start)
    raise AssertionError("a subquery stands between brackets")


@functools.lru_cache(maxsize=16)
def _tokens(text: str) -> list[Token]:
    return Sash().tokenize(text)


def _render(expr: exp.Expr) -> str:
    plain = expr.transform(_without_query)
    return plain.sql(dialect=Sash, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.RAISE)


def _without_query(node: exp.Expr) -> exp.Expr:
    if PARAMETER in node.meta:
        return exp.Placeholder(this=node.meta[PARAMETER])
    if isinstance(node, exp.Column):
        node = node.copy()
        for part in filter(_is_word, node.parts):
            part.set("quoted", True)
        return node
    if isinstance(node, ForeignCall):
        return node.as_written()
    if not isinstance(node, exp.Query):
        return node
    something = exp.select("*").from_("x")
    return something.subquery() if isinstance(node, exp.Subquery) else something


class _Misread:
    """What DuckDB's parser has to say against a text, and where."""

    def __init__(self, message: str, position: int | None):
        found = re.search(r'syntax error at or near "(.+)"', message)
        self._length = len(found[1]) if found else None
        self._position = position
        if found:
            self.reason = f"this is not an expression to DuckDB, because of its `{found[1]}`; check it, or add brackets"
        elif message.startswith("Chained comparisons"):
            self.reason = (
                "a comparison of comparisons needs brackets, or an `AND` between the two; add one or the other"
            )
        else:
            self.reason = f"this is not an expression to DuckDB ({message.rstrip('.!')}); check it, or add brackets"

    def place(self, span: Span, text: str) -> Span:
        """Where it is in the text, of which the expression is the stretch `span`. DuckDB counts bytes."""
        if self._position is None or self._length is None:
            return span
        before = text[span.start : span.end].encode()[: self._position - len(_PREFIX)].decode(errors="ignore")
        start = span.start + len(before)
        return Span(start, min(start + self._length, span.end)) if start < span.end else span


@functools.lru_cache(maxsize=1024)
def _read(sql: str) -> Any:
    """What DuckDB's parser makes of an expression, less how it is written."""
    with duck.connect() as connection:
        found = json.loads(connection.execute("SELECT json_serialize_sql(?)", [_PREFIX + sql]).fetchall()[0][0])
    if found["error"]:
        position = found.get("position")
        return _Misread(found["error_message"], None if position is None else int(position))
    (expr,) = found["statements"][0]["node"]["select_list"]
    if expr["alias"]:
        return _Misread(f'syntax error at or near "{expr["alias"]}"', None)
    return _simplify(expr)


def _spell(sql: str) -> str:
    """An expression with all of the brackets that DuckDB sees."""
    with duck.connect() as connection:
        query = "SELECT json_deserialize_sql(json_serialize_sql(?))"
        return connection.execute(query, [_PREFIX + sql]).fetchall()[0][0].removeprefix(_PREFIX)


def _simplify(node: Any) -> Any:
    """A tree of DuckDB's in which what means the same is the same."""
    if isinstance(node, list):
        return [_simplify(item) for item in cast(list[Any], node)]
    if not isinstance(node, dict):
        return node
    parts = cast(_Node, node).items()
    plain = {name: _simplify(value) for name, value in parts if name not in (*_PLACES, *_FORMS)}
    if "null_order" in plain:
        plain = _order(plain)
    if "column_names" in plain:
        plain["column_names"] = [name.lower() for name in plain["column_names"]]
    simplify: dict[str, Callable[[_Node], Any]] = {
        "FUNCTION": _function,
        "OPERATOR": _operator,
        "CONSTANT": _constant,
        "CAST": _cast,
        "TYPE": _type,
    }
    return simplify.get(plain.get("class", ""), lambda same: same)(plain)


def _order(node: _Node) -> _Node:
    """What ORDER BY says if it says nothing, in so many words."""
    defaults = {"type": "ASCENDING", "null_order": "NULLS LAST"}
    return {name: defaults[name] if value == "ORDER_DEFAULT" else value for name, value in node.items()}


def _type(node: _Node) -> Any:
    """Types have several names; those made of others, as lists, have one."""
    try:
        return {**node, "type_name": str(duck.type_named(node["type_name"]))}
    except duckdb.Error:
        return {**node, "type_name": node["type_name"].lower()}


def _function(node: _Node) -> Any:
    name = node["function_name"].lower()
    arguments = [argument["expression"] for argument in node["arguments"]]
    if name == "+" and len(arguments) == 1:
        return arguments[0]
    if name == "if" and len(arguments) == 3:
        check = {"when_expr": arguments[0], "then_expr": arguments[1]}
        case = {"class": "CASE", "type": "CASE_EXPR", "alias": node["alias"]}
        return {**case, "case_checks": [check], "else_expr": arguments[2]}
    return {**node, "function_name": _SAME_FUNCTIONS.get(name, name)}


def _operator(node: _Node) -> Any:
    """`NOT a IS NULL` is how sqlglot writes `a IS NOT NULL`."""
    if node["type"] == "OPERATOR_NOT" and node["children"][0].get("type") in _NEGATIONS:
        inner = node["children"][0]
        return {**inner, "type": _NEGATIONS[inner["type"]]}
    return node


def _constant(node: _Node) -> Any:
    literal = node.get("literal")
    if not literal or "text" not in literal:
        return node
    return {**node, "literal": {**literal, "text": _number(literal["text"])}}


def _number(text: str) -> str | Decimal:
    try:
        return Decimal(text.replace("_", ""))
    except InvalidOperation:
        return text


def _cast(node: _Node) -> Any:
    """`INTERVAL 1 DAY` and `INTERVAL '1' DAY` convert the same number."""
    child = node["child"]
    if child.get("class") == "CONSTANT" and node["type_expr"].get("type_name") == "DOUBLE":
        return {**node, "child": child["literal"].get("text")}
    return node
