"""The rules that turn a query as written into one that runs well, in the order in which they are applied."""

from __future__ import annotations

from sash.plan.rules.drop_interval_conditions import drop_interval_conditions
from sash.plan.rules.follow_session_ends import follow_session_ends
from sash.plan.rules.keep_first_numbered import keep_first_numbered
from sash.plan.rules.order_joins import order_joins
from sash.plan.rules.prune_columns import prune_columns
from sash.plan.rules.push_filters import push_filters
from sash.plan.rules.refuse_unbounded import refuse_unbounded
from sash.plan.rules.split_join_condition import split_join_condition

RULES = (
    drop_interval_conditions,
    order_joins,
    push_filters,
    split_join_condition,
    prune_columns,
    keep_first_numbered,
    follow_session_ends,
    refuse_unbounded,
)
