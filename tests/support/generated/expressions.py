"""Scalar expressions of generated queries, with no more brackets than they need, and now and then some more or fewer.

Levels are those of DuckDB's grammar, from OR, which binds least, to what stands by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from support.generated.choices import Choices
from support.generated.data import BOOLEAN, INSTANT, LIST, NOTHING, NUMBER, STRING

OR, AND, NOT, IS, COMPARE, RANGE, CONCAT, ADD, MULTIPLY, SIGN, ATOM = range(11)

_INTEGERS = ("0", "1", "2", "3")
_LITERALS = {
    NUMBER: (*_INTEGERS, "1.5", "0.50", "-1", "2.0", "1e0", "100"),
    STRING: ("'a'", "'b'", "''", "'it''s'"),
    BOOLEAN: ("TRUE", "FALSE"),
    INSTANT: ("DATE '2026-01-31'", "TIMESTAMP '2026-01-31 12:00:00'", "TIMESTAMPTZ '2026-01-31 12:00:00+00'"),
    LIST: ("[1]", "[1, 2]"),
    NOTHING: ("NULL",),
}
_PARAMETERS = {NUMBER: ("$one", "$half", "$minus", "$real"), STRING: ("$letter", "$quoted")}
_CASTS = {
    NUMBER: (
        "BIGINT", "DECIMAL(9, 2)", "DOUBLE", "DECIMAL(12, 4)", "HUGEINT", "INTEGER", "DECIMAL(20, 1)", "FLOAT",
        "SMALLINT", "DECIMAL(38, 0)", "UBIGINT",
    ),
    STRING: ("VARCHAR",),
    BOOLEAN: ("BOOLEAN",),
    INSTANT: ("DATE", "TIMESTAMP", "TIMESTAMPTZ"),
    LIST: ("BIGINT[]", "INTEGER[]", "DECIMAL(9, 2)[]"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Expression:
    text: str
    level: int = ATOM


@dataclass
class ExpressionWriter:
    """Draws expressions over columns, given as text with their families."""

    choices: Choices
    columns: Sequence[tuple[str, str]]
    is_plain: bool
    """Whether SQLite has to understand them."""
    is_tame: bool = False
    """Whether they are mostly plain columns, so that rows meet."""

    def draw(self, family: str, depth: int = 2) -> Expression:
        """An expression of a family; over at least one column if there is one."""
        if depth == 0 or self.choices.chance(92 if self.is_tame else 55):
            return self._leaf(family)
        makers = self._makers()[family]
        return self.choices.one(makers)(depth - 1) if makers else self._leaf(family)

    def condition(self, depth: int = 2) -> Expression:
        """A boolean expression that says something."""
        return self.choices.one(self._makers()[BOOLEAN])(depth)

    def column(self, family: str) -> Expression | None:
        fitting = [text for text, each in self.columns if each == family]
        return Expression(self.choices.one(fitting)) if fitting else None

    def within(self, expression: Expression, level: int) -> str:
        """The text of an operand that has to bind at least so tightly."""
        needs_brackets = expression.level < level
        if not self.is_plain and self.choices.chance(1):
            needs_brackets = not needs_brackets and expression.level < ATOM
        return f"({expression.text})" if needs_brackets or self.choices.chance(4) else expression.text

    def _leaf(self, family: str) -> Expression:
        column = self.column(family)
        if column is None or self.choices.chance(2 if self.is_tame else 15):
            return Expression(self.literal(family))
        if not self.is_plain and self.choices.chance(2):
            return Expression("NULL")
        return column

    def literal(self, family: str) -> str:
        """A constant, or a parameter that stands for one."""
        literals = _LITERALS[family]
        known = _PARAMETERS.get(family)
        if known and not self.is_plain and self.choices.chance(8):
            return self.choices.one(known)
        return self.choices.one(_INTEGERS if self.is_plain and family == NUMBER else literals)

    def _makers(self) -> dict[str, list[Callable[[int], Expression]]]:
        """What makes expressions of each family of others, from the simplest on."""
        shared = {
            family: [self._maker(self._coalesce, family), self._maker(self._case, family)] for family in _LITERALS
        }
        makers: dict[str, list[Callable[[int], Expression]]] = {
            NUMBER: [self._sum, self._product, self._negative, self._absolute, *shared[NUMBER]],
            STRING: [self._concatenation, self._upper, *shared[STRING]],
            BOOLEAN: [
                self._comparison, self._junction, self._is_null, self._negation, self._between, self._in_list,
                self._junction, self._comparison, self._distinct_from, *shared[BOOLEAN],
            ],
            INSTANT: shared[INSTANT],
            LIST: shared[LIST],
            NOTHING: [],
        }  # fmt: skip
        if not self.is_plain:
            for family in (NUMBER, INSTANT, LIST, NUMBER):
                makers[family].append(self._maker(self._cast, family))
            for family in (NUMBER, INSTANT, STRING):
                makers[family].append(self._maker(self._extreme, family))
            makers[NUMBER] += [self._remainder, self._length]
            makers[INSTANT].append(self._later)
            makers[BOOLEAN] += [self._like, self._contains]
        return makers

    def _maker(self, make: Callable[[str, int], Expression], family: str) -> Callable[[int], Expression]:
        return lambda depth: make(family, depth)

    def _binary(self, words: Sequence[str], level: int, left: Expression, right: Expression) -> Expression:
        word = self.choices.one(words)
        return Expression(f"{self.within(left, level)} {word} {self.within(right, level + 1)}", level)

    def _sum(self, depth: int) -> Expression:
        return self._binary(("+", "-"), ADD, self.draw(NUMBER, depth), self.draw(NUMBER, depth))

    def _product(self, depth: int) -> Expression:
        return self._binary(("*",), MULTIPLY, self.draw(NUMBER, depth), self.draw(NUMBER, depth))

    def _remainder(self, depth: int) -> Expression:
        word = self.choices.one((" % 2", " / 2", " // 2", " % 3"))
        return Expression(self.within(self.draw(NUMBER, depth), MULTIPLY) + word, MULTIPLY)

    def _negative(self, depth: int) -> Expression:
        operand = self.within(self.draw(NUMBER, depth), SIGN)
        return Expression(f"-({operand})" if operand.startswith("-") else f"-{operand}", SIGN)

    def _absolute(self, depth: int) -> Expression:
        return Expression(f"abs({self.draw(NUMBER, depth).text})")

    def _length(self, depth: int) -> Expression:
        return Expression(f"len({self._leaf(LIST).text})")

    def _concatenation(self, depth: int) -> Expression:
        return self._binary(("||",), CONCAT, self.draw(STRING, depth), self.draw(STRING, depth))

    def _upper(self, depth: int) -> Expression:
        return Expression(f"{self.choices.one(('upper', 'lower'))}({self.draw(STRING, depth).text})")

    def _later(self, depth: int) -> Expression:
        return Expression(f"{self.within(self.draw(INSTANT, depth), ADD)} + INTERVAL 12 HOUR", ADD)

    def _coalesce(self, family: str, depth: int) -> Expression:
        return Expression(f"coalesce({self._mixed(family, depth)}, {self.draw(family, depth).text})")

    def _extreme(self, family: str, depth: int) -> Expression:
        word = self.choices.one(("greatest", "least"))
        return Expression(f"{word}({self.draw(family, depth).text}, {self._mixed(family, depth)})")

    def _mixed(self, family: str, depth: int) -> str:
        """Of the family, or a column that is NULL."""
        if any(each == NOTHING for _, each in self.columns) and self.choices.chance(10):
            return self._leaf(NOTHING).text
        return self.draw(family, depth).text

    def _case(self, family: str, depth: int) -> Expression:
        end = f" ELSE {self._mixed(family, depth)}" if self.choices.chance(70) else ""
        condition, value = self.condition(depth and depth - 1).text, self.draw(family, depth).text
        return Expression(f"CASE WHEN {condition} THEN {value}{end} END")

    def _cast(self, family: str, depth: int) -> Expression:
        operand, type_ = self.draw(family, depth), self.choices.one(_CASTS[family])
        if self.choices.chance(25):
            return Expression(f"{self.within(operand, ATOM)}::{type_}")
        return Expression(f"CAST({operand.text} AS {type_})")

    def _family(self) -> str:
        families = [family for family in dict.fromkeys(family for _, family in self.columns) if family != LIST]
        return self.choices.one(families or [NUMBER])

    def _comparison(self, depth: int) -> Expression:
        family = self._family()
        family = LIST if not self.is_plain and self.choices.chance(3) else family
        left = self.draw(family, depth)
        right = self._leaf(NOTHING) if not self.is_plain and self.choices.chance(2) else self.draw(family, depth)
        words = ("=", "<", ">=", "<>", ">", "<=") if family not in (BOOLEAN, LIST) else ("=", "<>")
        return Expression(f"{self.within(left, RANGE)} {self.choices.one(words)} {self.within(right, RANGE)}", COMPARE)

    def _distinct_from(self, depth: int) -> Expression:
        family, word = self._family(), self.choices.one(("IS DISTINCT FROM", "IS NOT DISTINCT FROM"))
        left, right = (self.within(self.draw(family, depth), RANGE) for _ in range(2))
        return Expression(f"{left} {word} {right}", IS)

    def _junction(self, depth: int) -> Expression:
        level = self.choices.one((AND, OR))
        left, right = (self.draw(BOOLEAN, depth) if self.choices.chance(30) else self.condition(depth and depth - 1)
                       for _ in range(2))  # fmt: skip
        return self._binary(("AND",) if level == AND else ("OR",), level, left, right)

    def _negation(self, depth: int) -> Expression:
        return Expression(f"NOT {self.within(self.condition(depth and depth - 1), NOT)}", NOT)

    def _is_null(self, depth: int) -> Expression:
        word = self.choices.one((" IS NULL", " IS NOT NULL"))
        return Expression(self.within(self.draw(self._family(), depth), COMPARE) + word, IS)

    def _between(self, depth: int) -> Expression:
        word = self.choices.one(("BETWEEN", "NOT BETWEEN"))
        operand, least, most = (self.within(self.draw(NUMBER, depth), CONCAT) for _ in range(3))
        return Expression(f"{operand} {word} {least} AND {most}", RANGE)

    def _in_list(self, depth: int) -> Expression:
        family = self.choices.one((NUMBER, STRING))
        word = self.choices.one(("IN", "NOT IN"))
        values = ", ".join(self._leaf(family).text for _ in range(1 + self.choices.below(3)))
        return Expression(f"{self.within(self.draw(family, depth), CONCAT)} {word} ({values})", RANGE)

    def _like(self, depth: int) -> Expression:
        pattern = self.choices.one(("'%a%'", "'a'", "'_'", "''"))
        word = self.choices.one(("LIKE", "NOT LIKE"))
        return Expression(f"{self.within(self.draw(STRING, depth), CONCAT)} {word} {pattern}", RANGE)

    def _contains(self, depth: int) -> Expression:
        return Expression(f"list_contains({self._leaf(LIST).text}, {self.draw(NUMBER, 0).text})")
