"""Text to bound query: `parse` reads statements, `bind` finds what their names and types are.

The way of a query through the modules:

    text -> dialect (tokens, sqlglot tree) -> parsed, statements -> bind (scope, expressions) -> query.BoundQuery
"""
