"""Generated cases: drawn from a seed, run in several ways, and held against the truth."""

from __future__ import annotations

import re
import sqlite3
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb
import pyarrow as pa

import sash
from support.generated.choices import Choices
from support.generated.data import Table, draw_tables
from support.generated.queries import DEVIATIONS, StatementWriter
from support.generated.reading import SYSTEM, difference, read_counted, read_replaced, rows_of
from support.generated.tree import Derived, Select, SetOperation, Statement, Window, selects_in
from support.generated.truth import Truth

WAYS = {"sql": 5, "cuts": 4, "session": 1}
"""How often a case is run in each way."""
ANSWERS = 4
"""At about so many instants `sash.answer` is asked."""
LIMITS = {None: 6, "64k": 2, "16k": 2}
"""How often with which limit of memory, on top of what the environment says."""


class RefusedError(Exception):
    """DuckDB refuses the query, or an expression of it fails on some row: there is nothing to compare."""


@dataclass(frozen=True, eq=False)
class GeneratedCase:
    """A statement with its tables, and how it is run."""

    statement: Statement
    tables: Mapping[str, Table]
    is_plain: bool
    way: str
    made: Sequence[int]
    """The decisions that made it."""
    cuts: Sequence[int]
    """Decisions on how rows come, where they come bit by bit."""
    memory: str | None = None
    """The limit under which it runs."""

    @property
    def text(self) -> str:
        return self.statement.text

    @property
    def params(self) -> dict[str, Any]:
        return self.statement.params

    @property
    def frames(self) -> dict[str, Any]:
        return {name: table.frame for name, table in self.tables.items()}

    @cached_property
    def truth(self) -> Truth:
        return Truth(self.statement.body, self.tables)

    def __str__(self) -> str:
        """Python that runs it again."""
        lines = []
        for name, table in self.tables.items():
            columns = ", ".join(
                f'"{field.name}": pa.array({table.rows.column(field.name).to_pylist()!r}, {_write_type(field.type)})'
                for field in table.rows.schema
            )
            options = ", ".join(f"{key}={value!r}" for key, value in table.options.items())
            made = f"sash.{'stream' if table.is_stream else 'relation'}({{}}{f', {options}' if options else ''})"
            lines.append(f"{name} = {made.format(f'pa.table({{{columns}}})')}")
        frames = ", ".join(f"{name}={name}" for name in self.tables)
        if self.memory:
            lines.append(f"sash.configure(memory={self.memory!r})")
        params = f"params={self.params!r}, " if self.params else ""
        return "\n".join([*lines, f'text = """{self.text}"""', f"sash.sql(text, {params}{frames})  # {self.way}"])


def draw_case(choices: Choices, way: str | None = None) -> GeneratedCase:
    """The case that follows from decisions, run in the way that is drawn or asked for."""
    is_plain = choices.chance(35)
    tables = draw_tables(choices, is_plain)
    statement = StatementWriter(choices, tables, is_plain, is_tame=choices.chance(60)).draw()
    way = way or choices.weighted(WAYS)
    cuts = [choices.below(100) for _ in range(24)] if way != "sql" else ()
    memory = choices.weighted(LIMITS)
    return GeneratedCase(statement, tables, is_plain, way, tuple(choices.made), cuts, memory)


def check(case: GeneratedCase) -> str | None:
    """What is wrong with Sash's answer, if anything; `RefusedError` if nothing can be said of it."""
    answers = Answers(case)
    problem = None
    try:
        changes = run_case(case)
    except sash.SashError as error:
        if isinstance(error, sash.InternalError):
            return f"internal error: {error}"
        raise RefusedError(str(error)) from None
    except Exception as error:
        answers.of_duckdb([case.truth.end])
        return f"{type(error).__name__}: {error}"
    try:
        problem = answers.compare(changes)
    except duckdb.ParserException as error:
        return f"DuckDB refuses what Sash answers: {error}"
    return problem


def run_case(case: GeneratedCase, may_restart: bool = True) -> pa.Table:
    """Sash's changes; if it may be restarted, it is now and then, where rows come in cuts."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sash.SashWarning)
        try:
            with _limited(case.memory):
                return _run(case, may_restart)
        except sash.ResourceError as error:
            # What it is told to need must do.
            least = re.search(r"need.* at least ([^;]+);", str(error))
            if least is None:
                raise
            with _limited(least[1]):
                return _run(case, may_restart)


@contextmanager
def _limited(memory: str | None) -> Iterator[None]:
    sash.configure(memory=memory)
    try:
        yield
    finally:
        sash.configure()


def _run(case: GeneratedCase, may_restart: bool) -> pa.Table:
    if case.way == "sql":
        return sash.sql(case.text, params=case.params, **case.frames)
    if case.way == "session":
        return _run_in_session(case)
    return _run_in_cuts(case, may_restart)


def _run_in_cuts(case: GeneratedCase, may_restart: bool) -> pa.Table:
    """Row by row, or some at a time, of one stream and then another, which may be declared complete up to a time."""
    running = sash.query(case.text, params=case.params, **case.frames)
    changes, n_restarts = [], 0
    for number, (name, rows, complete_us) in enumerate(cut(case)):
        changes.append(running.push(name, rows))
        if case.cuts[number % len(case.cuts)] % 7 == 0 and complete_us is not None:
            changes.append(running.advance(complete_us, name))
        if may_restart and case.cuts[-1 - number % len(case.cuts)] >= 85:
            snapshot, running = running.snapshot(), sash.query(case.text, params=case.params, **case.frames)
            if n_restarts == 0:
                _refuse_changed_tables(
                    case, snapshot, {name for lookup in running.plan.lookups for name in lookup.tables}
                )
            n_restarts += 1
            running.restore(snapshot)
    changes.append(running.finish())
    return pa.concat_tables(changes)


def _refuse_changed_tables(case: GeneratedCase, snapshot: bytes, looked_up: set[str]) -> None:
    """Whatever the query, it does not go on beside another content of a table in which it looks rows up."""
    for name in sorted(looked_up):
        if case.tables[name].rows.num_rows:
            other = replace(case.tables[name], rows=case.tables[name].rows.slice(1)).frame
            reason = ""
            try:
                sash.query(case.text, params=case.params, **(case.frames | {name: other})).restore(snapshot)
            except sash.SourceError as error:
                reason = str(error)
            assert f"table `{name}` has changed since the query began" in reason, f"restored beside another `{name}`"


def cut(case: GeneratedCase) -> Iterator[tuple[str, pa.Table, int | None]]:
    """Stretches of the rows of streams that the statement reads, and up to when no more of that stream will come."""
    read = {name for name, _ in case.truth._names}
    waiting = {name: table.arrivals for name, table in case.tables.items() if table.is_stream and name in read}
    number = 0
    while any(rows.num_rows for rows in waiting.values()):
        names = [name for name, rows in waiting.items() if rows.num_rows]
        name = names[case.cuts[number % len(case.cuts)] % len(names)]
        n_rows = 1 + case.cuts[(number + 1) % len(case.cuts)] % 4
        rows, waiting[name] = waiting[name].slice(0, n_rows), waiting[name].slice(n_rows)
        left = waiting[name].column("ts").cast(pa.int64()).to_pylist()
        # What is declared says how far a stream has come, and so what is too far ahead of it.
        yield name, rows, min(left) - 1 if left and case.tables[name].ahead_us is None else None
        number += 2


def _run_in_session(case: GeneratedCase) -> pa.Table:
    """Beside a query over the same streams, with which it may share a join."""
    session = sash.Session()
    for name, table in case.tables.items():
        if table.is_stream:
            session.stream(name, table.rows, **table.options)
        else:
            session.relation(name, table.rows, **table.options)
    session.query("it", case.text, params=case.params)
    session.query("other", _companion(case))
    return session.run()["it"]


def _companion(case: GeneratedCase) -> str:
    """The joins of the outermost SELECT, counted, in a window of its own if that is all it takes."""
    name = next(table.name for table in case.tables.values() if table.is_stream)
    return f"SELECT x.k, y.v FROM {name} x, {name} y WHERE x.k = y.k WINDOW 4 us"


class Answers:
    """What the truth says of a case at instants."""

    def __init__(self, case: GeneratedCase):
        self._case = case
        self._truth = case.truth

    def compare(self, changes: pa.Table) -> str | None:
        """How changes differ from the truth, if they do."""
        instants = self._instants(changes)
        expected, types = self.of_duckdb(instants)
        shown = changes.drop_columns(list(SYSTEM)).schema.types
        if shown != types:
            return f"types are {shown}, DuckDB's are {types}"
        problem = self._compare(changes, instants, expected) or self.check_answers(changes, instants, expected)
        if problem is None and self._case.is_plain:
            expected = self._of_sqlite_if_it_can(instants)
            problem = self._compare(_with_integers(changes), instants, expected, "SQLite") if expected else None
        return problem

    def _instants(self, changes: pa.Table) -> list[int]:
        """When something may change, and right before; beyond the end of the run where all is known by then."""
        points = set(self._truth.points())
        for name in ("_ts", "_expires"):
            points.update(time for time in changes.column(name).cast(pa.int64()).to_pylist() if time is not None)
        limit = 2**62 if is_join(self._case.statement) else self._truth.end
        return sorted({point - step for point in points for step in (0, 1) if point - step <= limit})

    def _compare(
        self, changes: pa.Table, instants: list[int], expected: Mapping[int, Counter], oracle: str = "DuckDB"
    ) -> str | None:
        for name, readings in self._readings(changes, instants):
            for instant, seen in readings:
                found = difference(expected[instant], seen, is_rounded(self._case.statement))
                if found:
                    return f"by {name}, at {instant}, against {oracle}: {found}"
        return None

    def check_answers(self, changes: pa.Table, instants: list[int], expected: Mapping[int, Counter]) -> str | None:
        """How `sash.answer` differs from the truth at some of the instants, if it does."""
        known = [instant for instant in instants if instant <= self._truth.end]
        for instant in known[:: max(1, len(known) // ANSWERS)]:
            seen = Counter(rows_of(sash.answer(changes, at=instant)))
            found = difference(expected[instant], seen, is_rounded(self._case.statement))
            if found:
                return f"by sash.answer, at {instant}: {found}"
        return None

    def _readings(self, changes: pa.Table, instants: list[int]) -> Iterator[tuple[str, Iterable]]:
        """The ways in which changes may be read; where there are two, both must be right."""
        body, until = self._case.statement.body, [instant for instant in instants if instant <= self._truth.end]
        if self._case.statement.emit_changes:
            yield "the sum of _op", read_counted(changes, until, has_ends=True)
        elif isinstance(body, Select) and body.replaced_by is not None:
            yield "the newest row of a group", read_replaced(changes, until, body.replaced_by)
            return
        yield "_expires", read_counted(changes, instants, has_ends=False)

    def of_duckdb(self, instants: list[int]) -> tuple[dict[int, Counter], list[pa.DataType]]:
        """The answer at each instant, and the types of its columns."""
        with _duckdb().cursor() as connection:
            connection.register("instants", pa.table({"t": pa.array(instants, pa.int64())}))
            for name, rows in self._truth.rows.items():
                connection.register(name, rows)
            try:
                answer = connection.sql(self._truth.sql).to_arrow_table()
            except duckdb.ParserException:
                raise
            except duckdb.Error as error:
                raise RefusedError(f"DuckDB: {error}") from None
        found: dict[int, Counter] = {instant: Counter() for instant in instants}
        for instant, row in zip(answer.column("_i").to_pylist(), rows_of(answer.drop_columns(["_i"])), strict=True):
            found[instant][row] += 1
        return found, answer.schema.types[1:]

    def _of_sqlite_if_it_can(self, instants: list[int]) -> dict[int, Counter] | None:
        """SQLite reads queries in queries in queries up to a depth."""
        try:
            return self.of_sqlite(instants)
        except sqlite3.OperationalError as error:
            if "parser stack overflow" in str(error):
                return None
            raise

    def of_sqlite(self, instants: list[int]) -> dict[int, Counter]:
        with sqlite3.connect(":memory:") as connection:
            connection.execute("PRAGMA case_sensitive_like = ON")
            tables = {"instants": pa.table({"t": pa.array(instants, pa.int64())}), **self._truth.rows}
            for name, rows in tables.items():
                columns = ", ".join(f'"{column}"' for column in rows.column_names)
                connection.execute(f'CREATE TABLE "{name}" ({columns})')
                slots = ", ".join("?" * rows.num_columns)
                records = [tuple(row.values()) for row in rows.to_pylist()]
                connection.executemany(f'INSERT INTO "{name}" VALUES ({slots})', records)
            rows = connection.execute(self._truth.sql).fetchall()
        connection.close()
        found: dict[int, Counter] = {instant: Counter() for instant in instants}
        for instant, *row in rows:
            found[instant][tuple(row)] += 1
        return found


def is_join(statement: Statement) -> bool:
    """Whether all rows of the answer are known with their ends by the end of the run."""
    body = statement.body
    if isinstance(body, SetOperation) or body.is_once or body.keys is not None:
        return False
    if body.is_distinct or body.tests or body.marks or body.ranks or body.overs:
        return False
    if any(link.is_outer and getattr(item, "is_stream", True) for item, link in zip(body.items[1:], body.links)):
        return False  # rows return when their partners have left
    windows = [body.window, *(getattr(item, "window", None) for item in body.items)]
    slides = any(window is not None and _enters_late(window) for window in windows)
    return not slides and not any(isinstance(item, Derived) for item in body.items)


def _enters_late(window: Window) -> bool:
    """Whether rows may enter, or come again, after their time."""
    is_sliding = window.slide is not None and window.kind != "hop"
    return is_sliding or window.is_final or window.kind == "session"


def is_rounded(statement: Statement) -> bool:
    """Whether the last digit of a float may depend on the order in which values are added."""
    functions = {call.function for select in selects_in(statement.body) for call in select.calls}
    functions |= {item.function for select in selects_in(statement.body) for item in select.overs}
    return bool(functions & {"avg", "sum", "quantile_cont", "percentile_cont", *DEVIATIONS})


_CONNECTIONS: list[duckdb.DuckDBPyConnection] = []


def _duckdb() -> duckdb.DuckDBPyConnection:
    if not _CONNECTIONS:
        connection = duckdb.connect(":memory:")
        connection.execute("SET GLOBAL TimeZone = 'UTC'; SET GLOBAL threads = 1")
        _CONNECTIONS.append(connection)
    return _CONNECTIONS[0]


def _with_integers(changes: pa.Table) -> pa.Table:
    """SQLite's booleans are integers, and so are sums."""
    for idx, field in enumerate(changes.schema):
        if field.name not in SYSTEM and (pa.types.is_boolean(field.type) or pa.types.is_decimal(field.type)):
            changes = changes.set_column(idx, field.name, changes.column(idx).cast(pa.int64()))
    return changes


def _write_type(type_: pa.DataType) -> str:
    written: dict[pa.DataType, str] = {
        pa.timestamp("us"): 'pa.timestamp("us")',
        pa.timestamp("us", "UTC"): 'pa.timestamp("us", "UTC")',
    }
    if pa.types.is_list(type_):
        return f"pa.list_({_write_type(type_.value_type)})"
    if pa.types.is_decimal(type_):
        return f"pa.decimal128({type_.precision}, {type_.scale})"
    names = {"double": "float64", "float": "float32", "bool": "bool_"}
    return written.get(type_) or f"pa.{names.get(str(type_), str(type_).replace('[day]', ''))}()"
