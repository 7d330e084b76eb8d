"""Functions OVER rows as operators: one for each window, one upon the other."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from sash.operators.accumulators.manner import SortKey
from sash.operators.over import OverSpec
from sash.operators.row_frames import Frame, OverCall
from sash.plan.column_names import ROW_ID, column_name
from sash.plan.draft import Draft
from sash.plan.flow import Flow
from sash.sql.bound_over import OVER, OverFunction, OverRows, OverWindow
from sash.store.batch import ID_PREFIX

COPY = "_copy"
COPY_ID = f"{ID_PREFIX}{COPY}"


def add_over(draft: Draft, flow: Flow, rows: OverRows, with_ids: bool) -> Flow:
    """The rows of a flow with the values of functions over them as columns `_over.0` …

    Equal rows are numbered by the first operator: above it, what it says of them would else tell them apart in an order
    of its own.
    """
    flow = replace(flow, ids=())
    for place, window in enumerate(rows.windows):
        is_last = place == len(rows.windows) - 1
        has_ids, tells_apart = with_ids and is_last, place == 0 and not is_last
        copies = COPY_ID if has_ids else COPY if tells_apart else None
        spec = replace(_spec(flow, rows, window), copy_column=copies, id_column=ROW_ID if has_ids else None)
        flow = draft.gather(flow, spec.partition_by)
        added = (*([COPY] if tells_apart else []), *(call.name for call in spec.calls))
        flow = flow.then(
            spec,
            columns=(*spec.columns, *added),
            ids=(ROW_ID, COPY_ID) if has_ids else (),
            retracts=True,
            distribution=flow.distribution.renamed({name: [name] for name in spec.columns}),
        )
    return flow


def _spec(flow: Flow, rows: OverRows, window: OverWindow) -> OverSpec:
    plain = tuple(map(column_name, rows.columns))
    made = tuple(name for name in flow.columns if name not in plain)
    return OverSpec(
        columns=(*plain, *made),
        ties=plain,
        partition_by=tuple(map(column_name, window.partition_by)),
        order=tuple((_name(each.expr), SortKey(each.is_descending, each.nulls_first)) for each in window.order),
        calls=tuple(_call(number, function) for number, function in window.functions),
        window_us=flow.life_us,
        expires_by_negatives=flow.expires_by_negatives,
    )


def _call(number: int, function: OverFunction) -> OverCall:
    frame = function.frame
    return OverCall(
        function=function.function,
        argument=None if function.argument is None else column_name(function.argument),
        name=f"{OVER}.{number}",
        type=function.type,
        frame=Frame(frame.is_range, frame.start, frame.end, frame.is_time),
        n_rows=function.n_rows,
        default=None if function.default is None else column_name(function.default),
    )


def _name(expr: exp.Expr) -> str:
    assert isinstance(expr, exp.Column)
    return column_name(expr)
