"""Whether DuckDB answers a query for many instants at once."""

from __future__ import annotations

from sqlglot import exp

from sash.oracle.over_order import has_over
from sash.sql.aggregate_order import own_nodes
from sash.sql.functions import is_aggregate
from sash.sql.join_trees import ASOF
from sash.sql.parsed_ranks import read_ranks


def can_be_lateral(tree: exp.Query) -> bool:
    """Whether DuckDB answers for many instants at once.

    DuckDB 2.0 loses the one row of an aggregate over no rows there if DISTINCT, a set operation or IN stands above it.
    An ASOF join is asked as it is written.
    """
    if any(join.args.get("method") == ASOF for join in tree.find_all(exp.Join)):
        return False
    if has_over(tree) or any(read_ranks(query, "") for query in tree.find_all(exp.Select, exp.SetOperation)):
        return False
    alone = [select for select in tree.find_all(exp.Select) if _is_aggregate(select) and not _has_groups(select)]
    return not alone or (alone == [tree] and not tree.args.get("distinct"))


def _has_groups(select: exp.Select) -> bool:
    """Whether there may be no group at all; not where GROUP BY ALL finds nothing to group by."""
    group = select.args.get("group")
    return group is not None and (bool(group.expressions) or not group.args.get("all"))


def _is_aggregate(select: exp.Select) -> bool:
    names = {node.name.lower() for node in own_nodes(select) if isinstance(node, exp.Anonymous)}
    return any(map(is_aggregate, names)) or any(isinstance(node, exp.AggFunc) for node in own_nodes(select))
