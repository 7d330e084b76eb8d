"""The plan of an ASOF join."""

from __future__ import annotations

from dataclasses import replace

from sash.operators.asof_join import AsofJoinSpec
from sash.plan.column_names import EXPIRY_ID, ROW_ID
from sash.plan.draft import Draft
from sash.plan.flow import Flow
from sash.sql.bound_query import BoundSet
from sash.store.batch import ID_PREFIX

IDS = (ROW_ID, f"{ID_PREFIX}_partner", EXPIRY_ID)


def join_asof(draft: Draft, bound: BoundSet, left: Flow, right: Flow, with_ids: bool) -> Flow:
    """Two flows, whose tuples meet by the keys of the join."""
    terms = bound.asof
    assert terms is not None
    left, right = replace(left, ids=()), replace(right, ids=())
    left, right = draft.meet(left, [one for one, _ in terms.keys], right, [other for _, other in terms.keys])
    columns = tuple(output.name for output in bound.outputs)
    n_left = len(columns) - len(terms.deciding)
    spec = AsofJoinSpec(
        columns=(columns[:n_left], columns[n_left:]),
        keys=terms.keys,
        times=terms.times,
        comparison=terms.comparison,
        keeps_all=terms.keeps_all,
        deciding=terms.deciding,
        windows_us=(left.life_us, right.life_us),
        expires_by_negatives=left.expires_by_negatives and right.expires_by_negatives,
        is_final=terms.is_final,
        id_columns=IDS if with_ids else (),
    )
    lives = [flow.life_us for flow in (left, right) if flow.life_us is not None]
    return left.then(
        spec,
        right,
        columns=columns,
        ids=spec.id_columns,
        # A row that is kept without a partner lives as long as it does.
        life_us=left.life_us if spec.keeps_all and left.life_us is not None else min(lives, default=None),
        retracts=True,
        distribution=left.distribution.renamed({name: [name] for name in columns}),
    )
