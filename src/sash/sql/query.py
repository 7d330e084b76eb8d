"""What a query means once its text has been parsed and bound: the hand-over from `sql` to `plan`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa
from sqlglot import exp

from sash.errors import Span

NOW_US = 1
"""`[NOW]` holds a tuple for its own instant only: a window of one microsecond."""


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """A tuple with timestamp `ts` is in the window at T iff `ts <= T < ts + length_us`."""

    length_us: int


@dataclass(frozen=True, slots=True)
class CountWindow:
    """The last `n_rows` tuples of the stream, or of each partition, in the stream's total order."""

    n_rows: int
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnboundedWindow:
    """A tuple never leaves."""


@dataclass(frozen=True, slots=True)
class SinceWindow:
    """A landmark window: tuples with `ts >= since_us`, which never leave."""

    since_us: int


Window: TypeAlias = TimeWindow | CountWindow | UnboundedWindow | SinceWindow


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """What binding has to know of a stream."""

    schema: pa.Schema
    time: str
    slack_us: int = 0
    tie: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """What binding has to know of a relation."""

    schema: pa.Schema


Catalog: TypeAlias = dict[str, StreamInfo | RelationInfo]
"""Names in lower case; SQL identifiers are matched without regard to case."""


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM. `alias` is unique within the query; `name` is the catalog's."""

    name: str
    alias: str
    info: StreamInfo | RelationInfo
    window: Window | None
    span: Span

    @property
    def is_stream(self) -> bool:
        return isinstance(self.info, StreamInfo)


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the answer. Every column in `expr` is `alias.column` with the declared spelling of both."""

    name: str
    expr: exp.Expr
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """A query whose every name and type is known. `conjuncts` are ON and WHERE together, taken apart at AND."""

    text: str
    sources: tuple[Source, ...]
    outputs: tuple[Output, ...]
    conjuncts: tuple[exp.Expr, ...]
    hints: tuple[str, ...] = ()
    emit_changes: bool = False
    spans: dict[str, Span] = field(default_factory=dict)
    """Where clauses stand in the text, for later errors: `select`, `from`, and if given `where`, `window`, `hint`."""
