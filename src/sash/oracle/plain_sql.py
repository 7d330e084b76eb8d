"""A query over windows as a plain relational query over tables, made from its text alone.

Every stream in the text, wherever it stands, becomes a subquery over its rows that are in their window at an instant;
nothing else changes:

    SELECT k, count(*) FROM s [RANGE 5 us] A GROUP BY k

    SELECT k, count(*) FROM (SELECT ts, k, v FROM "#0" WHERE "#enters" <= "#i".instant AND "#i".instant < "#leaves") A
    GROUP BY k

Where pairs of streams have windows, a stream's own is as long as the longest of them, and the rest is a condition on
the times of rows:

    SELECT A.v FROM s A, s B WINDOW (A, B) = 5 us

    SELECT A.v FROM (… rows in [RANGE 5 us] …) A, (… rows in [RANGE 5 us] …) B WHERE B.ts - A.ts BETWEEN -4 AND 4

A table that is read as of the time of a stream is joined by a range: `WHERE R.since <= S.ts AND S.ts < R.until`.

As a LATERAL subquery next to a table of instants, it answers for many of them at once. How Sash binds and plans the
query plays no part in it. DuckDB runs it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from sash.errors import PlanError, Span
from sash.operators.changes import read_times
from sash.oracle import pair_walks
from sash.oracle.asof_partners import leave_one_partner
from sash.oracle.first_rows import spell_out_first_rows
from sash.oracle.from_items import add_condition, as_item, inline_named_queries, joins_of, window_of
from sash.oracle.hop_walks import spread_rows
from sash.oracle.lateral_queries import can_be_lateral
from sash.oracle.over_order import spell_out_over
from sash.oracle.reference import ALWAYS, Tables, find_stream_lives
from sash.sql import duck
from sash.sql.aggregate_order import TIME, alias_of, items_of, order_aggregates
from sash.sql.catalog import Catalog, RelationInfo, StreamInfo
from sash.sql.cursor import IS_ARRIVAL
from sash.sql.dialect import Sash
from sash.sql.window_graph import PairWindow
from sash.sql.window_kinds import (
    WINDOW_COLUMNS,
    SinceWindow,
    TableWindow,
    TimeWindow,
    Window,
)
from sash.sql.windows import WindowClause
from sash.store.batch import BEGINNING, NEVER

INSTANT = "_instant"
_ENTERS, _LEAVES = "#enters", "#leaves"
_HELD = f'"{_ENTERS}" <= "#i".instant AND "#i".instant < "{_LEAVES}"'
_N_ROWS_AT_ONCE = 2_000
"""DuckDB is asked about as many instants at once as make about so many rows: beyond, one by one is much faster."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A table of the catalog as the query reads it: a stream with a window, or a relation."""

    name: str
    window: Window | None


@dataclass(eq=False)
class RelationalQuery:
    """A query over the rows that count, ready to be asked about instants."""

    tree: exp.Query
    """As the parser made it, windows in `meta`. It is not changed."""
    catalog: Catalog
    tables: Tables
    sql: str = field(init=False)
    _readings: dict[_Reading, str] = field(init=False, default_factory=dict)
    _rows: dict[str, pa.Table] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        tree = self.tree.copy()
        if "emit_final" in tree.meta and not any(_is_closing(table) for table in tree.find_all(exp.Table)):
            raise PlanError("what `EMIT FINAL` gives is no answer at an instant; leave it out to compare the query")
        inline_named_queries(tree)
        for select in list(tree.find_all(exp.Select)):
            order_aggregates(select)
            self._spell_out_pair_windows(select)
            self._spell_out_periods(select)
            select.set("hint", None)
        tree = spell_out_over(spell_out_first_rows(tree))
        for join in [join for select in tree.find_all(exp.Select) for join in joins_of(select)]:
            leave_one_partner(join, self.catalog)
        for table in list(tree.find_all(exp.Table)):
            table.replace(self._read(table))
        self.sql = tree.sql(dialect=Sash, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.RAISE)

    def _spell_out_pair_windows(self, select: exp.Select) -> None:
        """The windows of pairs as windows of single streams and conditions on their times."""
        pairs = [
            PairWindow(pair.left.name.lower(), pair.right.name.lower(), pair.length_us, pair.is_directed, pair.span)
            for pair in select.meta.get("pair_windows", ())
        ]
        tables = {alias_of(item).name.lower(): item for item in items_of(select)} if pairs else {}
        for alias in {name for pair in pairs for name in (pair.left, pair.right)}:
            window = TimeWindow(pair_walks.life_us(pairs, alias))
            tables[alias].meta["window"] = WindowClause(window, pairs[0].span or Span(0, 0))
        for pair in pairs:
            gap = exp.Sub(this=self._time_us(tables[pair.right]), expression=self._time_us(tables[pair.left]))
            bounds = -pair_walks.newest_before(pair), pair.length_us - 1
            select.where(exp.Paren(this=gap).between(*bounds), copy=False)

    def _spell_out_periods(self, select: exp.Select) -> None:
        """FOR SYSTEM_TIME AS OF as conditions on the columns that say when rows of a table are valid."""
        for item in [item for item in items_of(select) if item.args.get("version")]:
            info, time = self.catalog[item.name.lower()], item.args["version"].expression
            if time.meta.get(IS_ARRIVAL):
                continue  # here, all rows come in one batch
            assert isinstance(info, RelationInfo), "only tables are read as of a time"
            assert info.validity is not None
            start, end = (
                exp.column(exp.to_identifier(name, quoted=True), alias_of(item).copy())
                for name in (info.validity.start, info.validity.end)
            )
            begun, lasts = start.is_(exp.Null()).or_(start <= time.copy()), end.is_(exp.Null()).or_(time.copy() < end)
            add_condition(select, item, exp.and_(begun, lasts))

    def _time_us(self, table: exp.Expr) -> exp.Expr:
        """The time of a stream's rows, in microseconds."""
        info = self.catalog[table.name.lower()]
        assert isinstance(info, StreamInfo), "only streams have windows"
        time = exp.column(exp.to_identifier(info.time, quoted=True), alias_of(table).copy())
        is_number = pa.types.is_integer(info.schema.field(info.time).type)
        return time if is_number else exp.Anonymous(this="epoch_us", expressions=[time])

    def interesting_instants(self) -> list[int]:
        """When the answer may change, and the instants right before and after."""
        points: set[int] = set()
        for reading, name in self._readings.items():
            rows = self._rows[name]
            points.update(rows.column(_ENTERS).to_pylist(), rows.column(_LEAVES).to_pylist())
            points.update(self._times(reading.name))
            if isinstance(reading.window, SinceWindow):
                points.add(reading.window.since_us)
        points -= {BEGINNING, NEVER}
        return sorted({point + step for point in points for step in (-1, 0, 1)})

    def last_instant(self) -> int:
        """The end of a run: the last timestamp of any stream that the query reads."""
        return max([time for reading in self._readings for time in self._times(reading.name)], default=BEGINNING)

    def answers(self, instants: Sequence[int]) -> Iterator[tuple[Sequence[int], pa.Table]]:
        """The answer at each instant, some instants at a time: the query's columns after `_instant`."""
        n_rows = sum(rows.num_rows for rows in self._rows.values())
        n_at_once = max(1, _N_ROWS_AT_ONCE // max(1, n_rows))
        with duck.connect() as connection:
            for name, rows in self._rows.items():
                connection.register(name, rows)
            for start in range(0, len(instants), n_at_once):
                chunk = instants[start : start + n_at_once]
                answer = self._ask(connection, chunk)
                yield chunk, answer.rename_columns([INSTANT, *answer.column_names[1:]])

    def _ask(self, connection: duckdb.DuckDBPyConnection, instants: Sequence[int]) -> pa.Table:
        if len(instants) > 1 and can_be_lateral(self.tree):
            connection.register("#instants", pa.table({"instant": pa.array(instants, pa.int64())}))
            sql = f'SELECT "#i".instant, "#q".* FROM "#instants" "#i", LATERAL ({self.sql}) "#q"'
            with suppress(duckdb.BinderException, duckdb.NotImplementedException):
                return connection.sql(sql).to_arrow_table()
        found = [self._ask_alone(connection, instant) for instant in instants]
        # The name of a column may be the text of a subquery, with the instant in it.
        return pa.concat_tables([each.rename_columns(found[0].column_names) for each in found])

    def _ask_alone(self, connection: duckdb.DuckDBPyConnection, instant: int) -> pa.Table:
        sql = self.sql.replace('"#i".instant', f"CAST({instant} AS BIGINT)")
        return connection.sql(f'SELECT CAST({instant} AS BIGINT) AS instant, "#q".* FROM ({sql}) "#q"').to_arrow_table()

    def _read(self, table: exp.Table) -> exp.Expr:
        """What stands in FROM instead of a table of the catalog."""
        name = table.name.lower()
        info = self.catalog[name]
        reading = _Reading(name, window_of(table, info) if isinstance(info, StreamInfo) else None)
        if reading not in self._readings:
            self._readings[reading] = f"#{len(self._readings)}"
            self._rows[self._readings[reading]] = self._rows_of(reading)
        rows = self._readings[reading]
        shown = WINDOW_COLUMNS if isinstance(reading.window, TableWindow) else ()
        columns = [*info.schema.names, *shown, *([TIME] if table.meta.get("shows_time") else [])]
        names = [exp.to_identifier(column, quoted=True) for column in columns]
        held = exp.select(*names).from_(exp.table_(rows, quoted=True)).where(_HELD, dialect=Sash)
        return as_item(held, table)

    def _rows_of(self, reading: _Reading) -> pa.Table:
        """The rows with their lives; those of a relation are always there."""
        info, rows = self.catalog[reading.name], self.tables[reading.name]
        is_stream = isinstance(info, StreamInfo)
        if is_stream and isinstance(reading.window, TableWindow):
            rows = spread_rows(info, reading.window, rows)
        lives = find_stream_lives(info, reading.window, rows) if is_stream else [ALWAYS] * rows.num_rows
        times = read_times(rows.column(info.time)).tolist() if is_stream else [BEGINNING] * rows.num_rows
        rows = rows.append_column(TIME, pa.array(times, pa.int64()))
        rows = rows.append_column(_ENTERS, pa.array([life.enters for life in lives], pa.int64()))
        return rows.append_column(_LEAVES, pa.array([life.leaves for life in lives], pa.int64()))

    def _times(self, name: str) -> list[int]:
        info = self.catalog[name]
        return read_times(self.tables[name].column(info.time)).tolist() if isinstance(info, StreamInfo) else []


def _is_closing(table: exp.Table) -> bool:
    """Whether a stream shows its rows when their windows are over."""
    clause = table.meta.get("window")
    return clause is not None and isinstance(clause.window, TableWindow) and clause.window.is_final
