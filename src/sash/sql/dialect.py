"""Sash's SQL for sqlglot: DuckDB's dialect, read by Sash's grammar and written for DuckDB."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.duckdb import DuckDB

from sash.sql.casts import Read
from sash.sql.foreign_functions import ForeignCall
from sash.sql.grammar import SashParser

_AFTER_MINUS = (TokenType.SELECT, TokenType.ALL, TokenType.DISTINCT)


def _arrow_sql(generator: DuckDB.Generator, expr: exp.Binary, arrow: str) -> str:
    """In brackets, as to DuckDB some arrows bind tighter than all around them, and others less than anything."""
    sql = generator.binary(expr, arrow)
    is_apart = expr.parent is None or isinstance(expr.parent, (exp.Paren, exp.Alias))
    return sql if is_apart else f"({sql})"


def _foreign_sql(generator: DuckDB.Generator, call: ForeignCall) -> str:
    return generator.sql(call.translation)


class Sash(DuckDB):
    """The dialect. Expressions it has parsed are rendered for DuckDB by it too."""

    # Subscripts go back to DuckDB as they came, so there is nothing to shift.
    INDEX_OFFSET = 0

    Parser = SashParser

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        # sqlglot would turn the key `'a.b'` into a path of two, `'$.a.b'`.
        return path

    def tokenize(self, sql: str, *args: Any, **kwargs: Any) -> list[Token]:
        tokens = super().tokenize(sql, *args, **kwargs)
        for token, *after in zip(tokens, tokens[1:], [*tokens[2:], None]):
            if token.token_type is TokenType.VAR and token.text.upper() == "MINUS" and _starts_query(after):
                token.token_type = TokenType.EXCEPT
        return tokens

    class Tokenizer(DuckDB.Tokenizer):
        # Spark and Flink quote names by backticks, which mean nothing else to DuckDB.
        IDENTIFIERS: ClassVar = ['"', "`"]
        KEYWORDS: ClassVar = {**DuckDB.Tokenizer.KEYWORDS, "/*+": TokenType.HINT}

    class Generator(DuckDB.Generator):
        # sqlglot would make one value of several; to DuckDB only the first of them is told apart.
        MULTI_ARG_DISTINCT = True

        TRANSFORMS: ClassVar[dict[type[exp.Expr], Callable[..., str]]] = {
            **DuckDB.Generator.TRANSFORMS,
            # sqlglot would write a call; as an operator it keeps DuckDB's own precedence.
            exp.Pow: partial(DuckDB.Generator.binary, op="^"),
            Read: DuckDB.Generator.cast_sql,
            ForeignCall: _foreign_sql,
            exp.JSONExtract: partial(_arrow_sql, arrow="->"),
            exp.JSONExtractScalar: partial(_arrow_sql, arrow="->>"),
        }

        def withingroup_sql(self, expression: exp.WithinGroup) -> str:
            # sqlglot would move the order into the brackets.
            order = self.sql(expression, "expression").strip()
            return f"{self.sql(expression, 'this')} WITHIN GROUP ({order})"

        def not_sql(self, expression: exp.Not) -> str:
            # `a NOT IN (…) = b` has become a NOT in front of `a`, which without brackets would reach over `= b`.
            sql = super().not_sql(expression)
            is_operand = isinstance(expression.parent, exp.Binary) and not isinstance(expression.parent, exp.Connector)
            return f"({sql})" if is_operand else sql


def _starts_query(tokens: list[Token | None]) -> bool:
    """Whether MINUS before these tokens is the set operation, not a name."""
    types = [token.token_type for token in tokens if token]
    return types[0] in _AFTER_MINUS or types in ([TokenType.L_PAREN, TokenType.SELECT], [TokenType.L_PAREN] * 2)
