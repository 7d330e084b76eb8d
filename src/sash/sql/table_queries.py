"""Subqueries that read tables alone: nothing in them changes, so DuckDB answers each once, and the answer is a table.

    scans S JOIN (SELECT code, MAX(price) AS price FROM prices GROUP BY code) AS P ON P.code = S.code
    S.code IN (SELECT code FROM recalled)

What is asked is the user's query, with every name found and every type known as in any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from sash.errors import PlanError, SourceError
from sash.sql import duck
from sash.sql.aggregate_order import order_aggregates
from sash.sql.bound_query import Block, BoundSet, sources_in
from sash.sql.catalog import Catalog, DerivedInfo, RelationInfo, Source, StreamInfo, TableQuery
from sash.sql.dialect import Sash
from sash.sql.first_table_rows import say_which_come_first
from sash.sql.parsed import NamedQueries, ParsedQuery, ParsedSelect
from sash.store.batch import content_order


def reads_stream(query: ParsedQuery, catalog: Catalog) -> bool:
    """Whether a query reads a stream, also within subqueries and by names that WITH gives."""
    if not isinstance(query, ParsedSelect):
        return reads_stream(query.left, catalog) or reads_stream(query.right, catalog)
    return _names_stream(to_tree(query), query.named, catalog)


def _names_stream(tree: exp.Expr, named: NamedQueries, catalog: Catalog) -> bool:
    for table in tree.find_all(exp.Table):
        name = table.name.lower()
        if isinstance(catalog.get(name), StreamInfo):
            return True
        if name in named and _names_stream(named[name], _before(name, named), catalog):
            return True
    return False


def _before(name: str, named: NamedQueries) -> NamedQueries:
    """What a query that WITH names may itself use of it."""
    return dict(list(named.items())[: list(named).index(name)])


def to_tree(query: ParsedQuery) -> exp.Query:
    """A query as a tree of its own, with the clauses that it has now."""
    if not isinstance(query, ParsedSelect):
        tree = query.tree.copy()
        tree.set("this", to_tree(query.left).subquery())
        tree.set("expression", to_tree(query.right).subquery())
        return tree
    tree = query.tree.copy()
    tree.set("expressions", [output.copy() for output in query.outputs])
    tree.set("where", exp.Where(this=query.where.copy()) if query.where is not None else None)
    tree.set("distinct", _distinct(query) if query.is_distinct else None)
    if query.groups is not None and not query.groups_all:
        tree.set("group", exp.Group(expressions=[group.copy() for group in query.groups]) if query.groups else None)
    tree.set("having", exp.Having(this=query.having.copy()) if query.having is not None else None)
    tree.set("hint", None)
    return tree


def _distinct(query: ParsedSelect) -> exp.Distinct:
    on = query.ranks.distinct_on if query.ranks is not None else ()
    return exp.Distinct(on=exp.Tuple(expressions=[each.copy() for each in on]) if on else None)


def as_relation(query: ParsedQuery, block: Block) -> RelationInfo:
    """A query that reads tables alone as a table. `block` is what it means."""
    for timed in _timed(block):
        reason = f"rows of tables have no order for `{timed.upper()}` to go by; order it, as in `{timed}(x ORDER BY x)`"
        raise PlanError(reason, block.text, block.spans.get("select"))
    tree = _with_named(to_tree(query), query.named)
    for part in list(tree.find_all(exp.Select, exp.SetOperation)):
        say_which_come_first(part, block.text)
        if isinstance(part, exp.Select):
            order_aggregates(part)
    sql = tree.sql(dialect=Sash, normalize_functions=False, comments=False, unsupported_level=ErrorLevel.RAISE)
    schema = pa.schema([(output.name, output.type) for output in block.outputs])
    types = ((each.name, each.sql_type) for each in block.outputs if duck.is_renamed(each.sql_type, each.type))
    return RelationInfo(schema, tuple(types), query=TableQuery(sql, tuple(sources_in(block))))


def _timed(block: Block) -> Iterator[str]:
    """Aggregates that go by the time of rows, which those of tables have not."""
    if isinstance(block, BoundSet):
        yield from (each for side in (block.left, block.right) for each in _timed(side))
        return
    yield from (each.function for each in block.aggregates if each.is_timed)
    inner = [source.info.block for source in block.sources if isinstance(source.info, DerivedInfo)]
    for each in (*inner, *(membership.block for membership in block.memberships)):
        yield from _timed(each)


def _with_named(tree: exp.Query, named: NamedQueries) -> exp.Query:
    """The query with what WITH around it has named."""
    known = tree.args.get("with_")
    own: set[str] = {item.alias.lower() for item in known.expressions} if known else set()
    used = _names_used(tree, named) - own
    items = [_named_item(name, query) for name, query in named.items() if name in used]
    if items:
        tree.set("with_", exp.With(expressions=[*items, *(known.expressions if known else ())]))
    return tree


def _named_item(name: str, query: exp.Query) -> exp.CTE:
    columns = [column.copy() for column in query.meta.get("columns", ())]
    return exp.CTE(this=query.copy(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True), columns=columns))


def _names_used(tree: exp.Expr, named: NamedQueries) -> set[str]:
    """What a query reads of what WITH has named, also by way of others."""
    found = {table.name.lower() for table in tree.find_all(exp.Table)} & named.keys()
    return found.union(*(_names_used(named[name], _before(name, named)) for name in found))


def rename_table(source: Source, names: Mapping[str, str]) -> RelationInfo:
    """A table whose columns have other names."""
    info = source.info
    assert isinstance(info, RelationInfo)
    renamed = [
        exp.alias_(exp.column(exp.to_identifier(name, quoted=True)), names[name], quoted=True)
        for name in info.schema.names
    ]
    types = tuple((names[name], type_) for name, type_ in info.sql_types)
    query = TableQuery(exp.select(*renamed).from_(exp.table_(source.name, quoted=True)).sql(dialect=Sash), (source,))
    if info.query is not None:
        columns = ", ".join(_quote(names[name]) for name in info.schema.names)
        query = TableQuery(f"SELECT * FROM ({info.query.sql}) AS t({columns})", info.query.sources)
    schema = pa.schema([(names[field.name], field.type) for field in info.schema])
    return RelationInfo(schema, types, info.hint, info.validity and info.validity.renamed(names), query)


def with_unique(source: Source, names: tuple[str, ...]) -> Source:
    """An item of FROM, of whose rows no two may have equal values in these columns; of streams, this is so anyway."""
    info = source.info
    if not isinstance(info, RelationInfo) or info.query is None:
        return source
    return replace(source, info=replace(info, query=replace(info.query, unique=names)))


def answer_table_query(info: RelationInfo, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of a table that is the answer of a query, over the tables that it reads, by name.

    They follow from the rows of these, not from their order: whoever goes on after a restart may be given another.
    """
    assert info.query is not None
    with duck.connect() as connection:
        for source in info.query.sources:
            rows = tables[source.name].replace_schema_metadata()
            rows = rows.take(pa.array(content_order(rows, []))).combine_chunks()
            connection.register(f"#{source.name}", rows)
            connection.execute(f"CREATE OR REPLACE TEMP VIEW {_quote(source.name)} AS {_typed(source)}")
        try:
            answer = connection.sql(info.query.sql).to_arrow_table()
        except duckdb.Error as error:
            reason = str(error).split("\n")[0]
            raise SourceError(
                f"a subquery over tables cannot be answered: {reason}; correct it, or its tables"
            ) from None
        _check_unique(answer, info.query, connection)
    return pa.table([column.cast(field.type) for column, field in zip(answer.columns, info.schema)], schema=info.schema)


def _check_unique(answer: pa.Table, query: TableQuery, connection: duckdb.DuckDBPyConnection) -> None:
    """SQL knows no value of a subquery with several rows."""
    if query.unique is None or answer.num_rows < 2:
        return
    found = f"{answer.num_rows} rows"
    if query.unique:
        connection.register("#answer", answer)
        keys = [_quote(name) for name in query.unique]
        known = " AND ".join(f"{key} IS NOT NULL" for key in keys)
        groups = f'FROM "#answer" WHERE {known} GROUP BY {", ".join(keys)} HAVING count(*) > 1 LIMIT 1'
        again = connection.execute(f"SELECT count(*), {', '.join(keys)} {groups}").fetchall()
        if not again:
            return
        n_rows, *values = again[0]
        found = f"{n_rows} rows for {', '.join(map(str, values))}"
    remedy = "remove all but one, or aggregate what it selects, as in `MAX(…)`"
    raise SourceError(f"a subquery as a value may have one row, but tables give it {found}; {remedy}: {query.sql}")


def _typed(source: Source) -> str:
    """The rows of a table with the types that they have in queries."""
    types = dict(source.info.sql_types)
    columns = [
        f"CAST({_quote(name)} AS {types[name]}) AS {_quote(name)}" if name in types else _quote(name)
        for name in source.info.schema.names
    ]
    return f"SELECT {', '.join(columns)} FROM {_quote(f'#{source.name}')}"


def _quote(name: str) -> str:
    return exp.to_identifier(name, quoted=True).sql(dialect=Sash)
