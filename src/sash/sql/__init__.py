"""Text to bound query: `parse` reads statements, `bind` finds what their names and types are.

The way of a query through the modules:

    text -> dialect, grammar (tokens, sqlglot tree) -> read_query, statements -> bind
    -> bound_query

`bind` asks `sources` for FROM, `memberships` for subqueries in WHERE, `outputs` and `aggregates` for SELECT and GROUP
BY, `sets` for UNION and the like; `scope` finds columns and `expressions` types.
"""
