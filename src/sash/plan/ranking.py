"""The first rows of a query, or of each of its partitions, as operators."""

from __future__ import annotations

from dataclasses import replace

from sash.operators.accumulators.manner import SortKey
from sash.operators.evaluator import quote
from sash.operators.group_by import GroupBySpec
from sash.operators.node import Node
from sash.operators.project import ProjectSpec
from sash.operators.running_group_by import RunningGroupBySpec
from sash.operators.top_k import TopKSpec
from sash.plan.column_names import ROW_ID, column_name
from sash.plan.draft import Draft
from sash.plan.flow import Flow
from sash.sql.bound_query import Ranking


def add_ranking(draft: Draft, flow: Flow, ranking: Ranking, with_ids: bool) -> Flow:
    """The rows of a flow that a ranking keeps; of all rows, they are found among the first of each partition group."""
    spec = TopKSpec(
        columns=tuple(map(column_name, ranking.columns)),
        partition_by=tuple(map(column_name, ranking.partition_by)),
        order=tuple(
            (column_name(each.expr), SortKey(each.is_descending, each.nulls_first))  # type: ignore[arg-type]
            for each in ranking.order
        ),
        last=ranking.last,
        first=ranking.first,
        function=ranking.function,
        window_us=flow.life_us,
        expires_by_negatives=flow.expires_by_negatives,
        id_column=ROW_ID if with_ids else None,
    )
    unique_by = _key_of(flow.node)
    if unique_by is not None and set(unique_by) <= set(spec.read):
        spec = replace(spec, unique_by=unique_by)
    flow = replace(flow, ids=())
    if not spec.partition_by and flow.distribution.slot is None and flow.distribution.classes != ():
        within = replace(spec, columns=spec.read, first=0, id_column=None)
        flow = flow.then(within, columns=spec.read, retracts=True)
    flow = draft.gather(flow, spec.partition_by)
    return flow.then(
        spec,
        columns=spec.columns,
        ids=(spec.id_column,) if spec.id_column else (),
        retracts=True,
        distribution=flow.distribution.renamed({name: [name] for name in spec.columns}),
    )


def _key_of(node: Node) -> tuple[str, ...] | None:
    """Columns that no two tuples of a node agree in at an instant, as far as groups tell that; None: nobody knows."""
    spec = node.spec
    if isinstance(spec, GroupBySpec | RunningGroupBySpec):
        return spec.keys or None
    if not isinstance(spec, ProjectSpec):
        return None
    below = _key_of(node.inputs[0])
    names = {sql: name for name, sql in spec.columns} | {quote(name): name for name in spec.passed}
    if below is None or not all(quote(name) in names for name in below):
        return None
    return tuple(names[quote(name)] for name in below)
