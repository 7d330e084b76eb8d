"""What the parts of a pipeline are called.

A name is made of parts and stays so; where a store wants a text, it is a JSON array of them, whatever characters a
query's name has.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple


class BranchName(NamedTuple):
    """Of a part of a query that runs by itself: the query, and which of its parts."""

    query: str
    number: int = 0


class TapName(NamedTuple):
    """Of what gives a query the pairs of one of its joins: the query, and which of its joins."""

    query: str
    number: int


class OperatorName(NamedTuple):
    """Of an operator: its number and kind in the tree that it is in, and whose that is."""

    operator: str
    branch: BranchName | None = None
    """None: it belongs to no query, as the join that queries share does."""

    def encode(self) -> str:
        """As a text from which `decode` makes the same name."""
        return _to_text([*(self.branch or ()), self.operator])

    @classmethod
    def decode(cls, text: str) -> OperatorName:
        return _operator_name(json.loads(text))

    def __str__(self) -> str:
        return self.operator if self.branch is None else f"{self.branch.query}: {self.operator}"


class EntryName(NamedTuple):
    """Of an entry of a store that holds a pipeline's state: the operator, which of its logs, and the key there."""

    operator: OperatorName
    log: str
    key: str

    def encode(self) -> str:
        """As a text from which `decode` makes the same name."""
        return _to_text([*(self.operator.branch or ()), self.operator.operator, self.log, self.key])

    @classmethod
    def decode(cls, text: str) -> EntryName:
        *operator, log, key = json.loads(text)
        return cls(_operator_name(operator), log, key)


def _operator_name(parts: Sequence[Any]) -> OperatorName:
    *branch, operator = parts
    return OperatorName(operator, BranchName(*branch) if branch else None)


def _to_text(parts: Sequence[str | int]) -> str:
    return json.dumps(parts, separators=(",", ":"))
