"""IN and EXISTS as operators: the rows for which a subquery has, or has not, an equal row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from sash.errors import PlanError
from sash.operators.evaluator import quote
from sash.operators.membership import MembershipSpec
from sash.operators.unmet import UnmetSpec
from sash.plan.column_names import EXPIRY_ID, ROW_ID, columns_of
from sash.plan.draft import Draft
from sash.plan.flow import Flow
from sash.plan.logical import RowTest, Select, scans_of
from sash.plan.relational import BuildBody
from sash.plan.rules.prune_columns import read_on_top
from sash.sql.casts import without_read
from sash.sql.expressions import to_column
from sash.store.keys import is_hashable


class RowTests:
    """Builds the tests of one SELECT; `build` builds what stands in a subquery, with or without identities."""

    def __init__(self, draft: Draft, query: Select, build: BuildBody):
        self._draft = draft
        self._query = query
        self._build = build

    def build(self, flow: Flow, with_ids: bool) -> Flow:
        """The rows of a flow that pass all tests."""
        if self._query.tests:
            flow = self._told_apart(flow)
        for test in self._query.tests:
            flow = self._test(flow, test, with_ids)
        return flow

    def _told_apart(self, flow: Flow) -> Flow:
        """The flow without columns that nobody reads and by which a test could not tell rows apart."""
        unread = set(_unhashable_unread(self._query))
        kept = [name for name in flow.columns if name not in unread]
        return self._draft.project(flow, [(name, quote(name)) for name in kept]) if unread else flow

    def _test(self, flow: Flow, test: RowTest, with_ids: bool) -> Flow:
        """The rows for which a subquery has, or has not, an equal row."""
        operands = list(map(to_column, test.operands))
        rule = "absent" if test.is_negated else "present"
        if test.is_final:
            return self._unmet(flow, operands, self._build(test.body, False), test.nulls_match)
        if not test.is_null_aware:
            return self._member(flow, operands, self._build(test.body, False), rule, with_ids, test.nulls_match)
        (operand,) = test.operands
        any_row, null_row = self._build(test.body, False), self._build(test.body, False)
        (column,) = any_row.columns
        flow = self._member(flow, operands, self._build(test.body, False), rule, with_ids)
        # NULL in the subquery equals, for all we know, every operand; and a NULL operand any row of it.
        null_row = self._draft.project(null_row, [(column, f"CASE WHEN {quote(column)} IS NULL THEN 0 END")])
        flow = self._member(flow, ["0"], null_row, rule, with_ids)
        any_row = self._draft.project(any_row, [(column, "0")])
        return self._member(flow, [f"CASE WHEN {_operand_sql(operand)} IS NULL THEN 0 END"], any_row, rule, with_ids)

    def _member(
        self, flow: Flow, operands: list[str], matches: Flow, rule: str, with_ids: bool, nulls_match: bool = False
    ) -> Flow:
        """The rows of a flow whose operands some row of another equals, or none; NULL equals nothing, unless asked.

        Rows are told apart by what is read of them, whether identities are wanted or not: one that leaves as an equal
        one comes is no change, by whatever schedule. Expressions tell 0.0 from -0.0, which are equal.
        """
        columns, ids = flow.columns, (ROW_ID, EXPIRY_ID) if with_ids else ()
        flow, keys, matches = self._meeting(replace(flow, ids=()), operands, matches)
        names = set(map(quote, columns))
        content = (*columns, *(key for key, operand in zip(keys, operands, strict=True) if operand not in names))
        return add_membership(flow, matches, MembershipSpec(
            rule, content, keys, matches.columns, (flow.life_us, matches.life_us), flow.expires_by_negatives,
            nulls_match, ids,
        ), columns=columns, ids=ids)  # fmt: skip

    def _unmet(self, flow: Flow, operands: list[str], matches: Flow, nulls_match: bool) -> Flow:
        """The rows of a flow whose operands no row of another has equalled as long as they were there."""
        columns = flow.columns
        flow, keys, matches = self._meeting(replace(flow, ids=()), operands, matches)
        assert flow.life_us is not None
        assert matches.life_us is not None
        spec = UnmetSpec(columns, keys, matches.columns, (flow.life_us, matches.life_us), nulls_match)
        distribution = flow.distribution.renamed({name: [name] for name in columns})
        return flow.then(spec, matches, columns=columns, life_us=None, distribution=distribution)

    def _meeting(self, flow: Flow, operands: list[str], matches: Flow) -> tuple[Flow, tuple[str, ...], Flow]:
        """A flow with operands as columns, and another, such that they meet where those equal its columns."""
        keys = tuple(f"_operand.{idx}" for idx in range(len(operands)))
        items = [*((name, quote(name)) for name in flow.columns), *zip(keys, operands)]
        flow, matches = self._draft.project(flow, items), replace(matches, ids=())
        flow, matches = self._draft.meet(flow, keys, matches, matches.columns)
        return flow, keys, matches


def add_membership(
    flow: Flow, matches: Flow, spec: MembershipSpec, columns: tuple[str, ...], ids: tuple[str, ...]
) -> Flow:
    """The rows of a flow that pass a test against another; the two meet already."""
    distribution = flow.distribution.renamed({name: [name] for name in columns})
    return flow.then(spec, matches, columns=columns, ids=ids, retracts=True, distribution=distribution)


def _operand_sql(expr: exp.Expr) -> str:
    """An expression as the operand of an operator: in brackets, unless it is a name."""
    sql = to_column(expr)
    return sql if isinstance(without_read(expr), exp.Column) else f"({sql})"


def _unhashable_unread(query: Select) -> Iterator[str]:
    """A test tells rows apart by all that is read of them, beside which a window that counts rows keeps all columns."""
    read = {name for expr in read_on_top(query) for name in columns_of(expr)}
    for scan in scans_of(query.input):
        for name in scan.columns:
            type, column = scan.source.schema.field(name).type, f"{scan.source.alias}.{name}"
            if is_hashable(type):
                continue
            if column not in read:
                yield column
            else:
                raise PlanError(
                    f"`IN` and `EXISTS` cannot pass on `{scan.source.alias}.{name}`, whose values of type {type} they "
                    "cannot tell apart; leave the column out, or cast it in a subquery",
                    query.bound.text,
                    query.bound.spans["select"],
                )
