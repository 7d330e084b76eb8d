"""EMIT FINAL: DuckDB is asked for the rows that have ever met, and for those that never did.

Law: with lives [enters, leaves) of rows in their windows, the changes are the rows of the same join of whole streams,
     where two rows go together only if their lives overlap: a pair comes when the younger one enters, a row without a
     partner when it leaves, and all stay.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sash.frames import Relation, Stream, relation
from sash.operators.changes import read_times
from sash.oracle.reference import find_stream_lives
from sash.oracle.row_keys import row_keys
from sash.sql import duck
from sash.sql.bound_query import sources_in
from sash.sql.catalog import StreamInfo
from sash.store.batch import BEGINNING
from sash.testing import Case, assert_changes
from sash.testing.case import Step
from sash.testing.strategies import TIME_TYPES, batch_cuts, schemas, streams, tables
from support.profiles import volume

N_CASES = volume(dev=8, ci=25, deep=500)
WINDOWS = ("[RANGE 5 us]", "[RANGE 9 us]", "[RANGE 2 us]", "[RANGE 6 us SLIDE 2 us]")
KINDS = ("LEFT", "LEFT", "RIGHT", "FULL", "ANTI", "INNER")
EQUALITIES = ("x.k = y.k", "y.j = x.j AND x.k = y.k", "x.v + 1 = y.v", "TRUE")
OTHERS = ("x.v > 1", "y.v IS NOT NULL", "x.v < y.v", "x.v IS NOT DISTINCT FROM y.v")
FILTERS = ("x.v < 2", "x.k IS NOT NULL")
PADDED_FILTERS = (*FILTERS, "y.v IS NULL", "coalesce(y.v, 0) < 2")


@st.composite
def final_cases(draw: st.DrawFn) -> tuple[Case, str]:
    """A case, and the same query for DuckDB over tables with lives."""
    time = draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))
    schema = draw(schemas(draw(st.tuples(*[st.sampled_from(("number", "string", "number"))] * 2)), time))
    frames: dict[str, Stream | Relation] = {"a": draw(streams(schema, 8)), "b": draw(streams(schema, 8))}
    frames["r"] = relation(draw(tables(schema.remove(schema.get_field_index("ts")), 4)))
    kind = draw(st.sampled_from(KINDS))
    conditions = [draw(st.sampled_from(EQUALITIES)), *draw(st.lists(st.sampled_from(OTHERS), max_size=2))]
    left, right = (draw(st.sampled_from(WINDOWS)) for _ in range(2))
    has_table = draw(st.booleans()) and kind in ("LEFT", "INNER", "ANTI")
    before = " JOIN r z ON z.k = x.k" if has_table else ""
    shows = kind != "ANTI"
    where = draw(st.sampled_from(["", *(f" WHERE {each}" for each in (PADDED_FILTERS if shows else FILTERS))]))
    outputs = "x.v AS a, x.k AS c" + (", y.v AS b" if shows else "") + (", z.v AS d" if has_table else "")
    on = " AND ".join(conditions)
    case = Case(f"SELECT {outputs} FROM a x {left}{before} {kind} JOIN b y {right} ON {on}{where} EMIT FINAL", frames)
    overlap = "x._enters < y._leaves AND y._enters < x._leaves"
    when = {
        "LEFT": "CASE WHEN y._enters IS NULL THEN x._leaves ELSE greatest(x._enters, y._enters) END",
        "RIGHT": "CASE WHEN x._enters IS NULL THEN y._leaves ELSE greatest(x._enters, y._enters) END",
        "FULL": "CASE WHEN x._enters IS NULL THEN y._leaves WHEN y._enters IS NULL THEN x._leaves "
        "ELSE greatest(x._enters, y._enters) END",
        "ANTI": "x._leaves",
        "INNER": "greatest(x._enters, y._enters)",
    }[kind]
    from_ = f'FROM "#x" x{before} {kind} JOIN "#y" y ON {on} AND {overlap}{where}'
    plain = f"SELECT {outputs}, CAST(1 AS TINYINT) AS _op, {when} AS _ts, CAST(NULL AS BIGINT) AS _expires {from_}"
    return case, plain


@st.composite
def asof_cases(draw: st.DrawFn) -> tuple[Case, str]:
    """Each row once, with the newest partner that is in its window when the row comes."""
    schema = draw(schemas(("number", "string"), draw(st.sampled_from(TIME_TYPES[:1] * 3 + TIME_TYPES[1:]))))
    partners = draw(streams(schema, 8))
    frames: dict[str, Stream | Relation] = {"a": draw(streams(schema, 8)), "b": partners}
    left, right = (draw(st.sampled_from((*WINDOWS[:-1], "[ROWS 2]", "[PARTITION BY k ROWS 1]"))) for _ in range(2))
    key, comparison = draw(st.sampled_from(("x.k = y.k AND ", ""))), draw(st.sampled_from((">=", ">")))
    kind, where = draw(st.sampled_from(("LEFT ", ""))), draw(st.sampled_from(("", " WHERE y.v IS NULL OR y.v < 2")))
    on = f"{key}x.ts {comparison} y.ts{draw(st.sampled_from(('', ' AND y.v IS NOT NULL', ' AND x.v > 0')))}"
    outputs = "x.v AS a, x.k AS c, y.v AS b"
    text = f"SELECT {outputs} FROM a x {left} ASOF {kind}JOIN b y {right} ON {on}{where} EMIT FINAL"
    is_there = "y._enters <= x._enters AND x._enters < y._leaves"
    order = ", ".join(f"y.{name} DESC NULLS LAST" for name in ("ts", *partners.tie, *schema.names))
    found = f'"#x" x {kind}JOIN "#y" y ON {on} AND {is_there} QUALIFY row_number() OVER '
    found += f"(PARTITION BY x._number ORDER BY {order}) = 1"
    shown = "x.v AS xv, x.k AS xk, y.v AS yv, x._enters AS _enters"
    plain = (
        "SELECT xv AS a, xk AS c, yv AS b, CAST(1 AS TINYINT) AS _op, _enters AS _ts, CAST(NULL AS BIGINT) AS _expires"
    )
    plain += f" FROM (SELECT {shown} FROM {found}){where.replace('y.v', 'yv')}"
    return Case(text, frames), plain


def expected(case: Case, plain: str) -> pa.Table:
    """What DuckDB says has come by the end of the run."""
    with duck.connect() as connection:
        for source in {source.alias: source for source in sources_in(case.bound)}.values():
            rows = case.tables[source.name]
            if isinstance(source.info, StreamInfo):
                lives = find_stream_lives(source.info, source.window, rows)
                for name in ("enters", "leaves"):
                    rows = rows.append_column(f"_{name}", pa.array([getattr(life, name) for life in lives], pa.int64()))
            rows = rows.append_column("_number", pa.array(range(rows.num_rows), pa.int64()))
            if isinstance(source.info, StreamInfo):
                # What is displaced at its own instant never enters.
                rows = rows.filter(pc.less(rows.column("_enters"), rows.column("_leaves")))
            connection.register(f"#{source.alias}" if isinstance(source.info, StreamInfo) else source.name, rows)
        end = max(_ends(case))
        return connection.sql(f"SELECT * FROM ({plain}) WHERE _ts <= {end}").to_arrow_table()


def _ends(case: Case) -> list[int]:
    """The times of all rows that are read, and one before them."""
    streams = {source.name: source.info for source in sources_in(case.bound) if isinstance(source.info, StreamInfo)}
    times = (read_times(case.tables[name].column(info.time)).tolist() for name, info in streams.items())
    return [BEGINNING, *(time for each in times for time in each)]


def assert_same_rows(changes: pa.Table, other: pa.Table) -> None:
    for name in ("_ts", "_expires"):
        idx = changes.schema.get_field_index(name)
        changes = changes.set_column(idx, name, changes.column(idx).cast(pa.int64()))
    assert sorted(row_keys(changes)) == sorted(row_keys(other))


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given(final_cases() | asof_cases())
def test_each_row_comes_once_when_nothing_can_change_it(drawn: tuple[Case, str]) -> None:
    case, plain = drawn
    assert_same_rows(case.run(), expected(case, plain))


@pytest.mark.slow
@settings(max_examples=N_CASES)
@given((final_cases() | asof_cases()).flatmap(lambda drawn: st.tuples(st.just(drawn[0]), batch_cuts(drawn[0]))))
def test_neither_cuts_nor_restarts_show(cut: tuple[Case, list[Step]]) -> None:
    case, steps = cut
    changes, _ = case.replay(steps)
    whole = case.run()
    assert_changes(changes, whole)
    restarted, _ = case.replay(steps, range(len(steps)))
    assert_changes(restarted, whole)
