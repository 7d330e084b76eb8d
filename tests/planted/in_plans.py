"""Mistakes in what a query is taken to mean, and in how it is planned."""

from __future__ import annotations

from planted.mistake import Mistake

RULES = (
    Mistake(
        "an-interval-whose-least-distance-nobody-checks",
        "drop_interval_conditions",
        "sql/interval_joins.py",
        "all(bound.is_exact and bound.most_us >= 0 for bound in bounds)",
        "all(bound.is_exact for bound in bounds)",
        ("tests/golden/test_golden.py -k interval_join",),
    ),
    Mistake(
        "conditions-that-go-with-an-interval",
        "drop_interval_conditions",
        "plan/rules/drop_interval_conditions.py",
        "if not is_said_by_reach(each, query.bound.sources)",
        "if each.key == 'eq'",
        ("tests/plan/test_rules.py -k drop_interval", "tests/golden/test_golden.py -k interval_join"),
    ),
    Mistake(
        "an-open-interval-that-is-closed",
        "interval_joins",
        "sql/interval_joins.py",
        "(-1 if is_strict else 0) if is_exact else 1",
        "0 if is_exact else 1",
        ("tests/golden/test_golden.py -k interval_join",),
    ),
    Mistake(
        "a-relation-that-leads-the-join",
        "order_joins",
        "plan/rules/order_joins.py",
        "first = next(scan for scan in left if scan.source.is_stream)",
        "first = left[0]",
    ),
    Mistake(
        "a-window-of-rows-ordered-by-the-columns-that-are-read",
        "prune_columns",
        "plan/rules/prune_columns.py",
        "        if scan.counts_rows:\n            return scan\n",
        "",
    ),
    Mistake(
        "a-constant-condition-that-nobody-checks",
        "push_filters",
        "plan/rules/push_filters.py",
        "aliases_of(conjunct) or frozenset([first])",
        "aliases_of(conjunct)",
        ("tests/plan/test_rules.py", "tests/sql"),
    ),
    Mistake(
        "a-union-that-keeps-its-rows-for-ever",
        "refuse_unbounded",
        "plan/rules/refuse_unbounded.py",
        "if isinstance(each, SetOperation) and not _is_union_all(each):",
        'if isinstance(each, SetOperation) and each.bound.operation != "union":',
        ("tests/plan/test_refuse_unbounded.py",),
    ),
    Mistake(
        "keys-of-two-types-that-are-equal-only-once-rounded",
        "split_join_condition",
        "plan/rules/split_join_condition.py",
        "if key is None or key.is_cast)",
        "if key is None)",
        ("tests/golden/test_golden.py -k window_join",),
    ),
)

PLANS = (
    Mistake(
        "an-exchange-by-a-key-that-the-joins-do-not-share",
        "partition",
        "plan/distribution.py",
        "            merged |= other\n",
        "",
        ("tests/plan/test_distribution.py",),
    ),
    Mistake(
        "a-window-of-rows-spread-by-any-key",
        "partition",
        "plan/distribution.py",
        "    return not isinstance(window, RowsWindow | SessionWindow) or name in {",
        "    return not isinstance(window, RowsWindow | SessionWindow) or not window.partition_by or name in {",
        ("tests/plan/test_distribution.py",),
    ),
    Mistake(
        "having-ignored-where-parts-are-added-up",
        "aggregation",
        "plan/aggregation.py",
        "grouping = self._grouping((), calls, having, None, with_ids)",
        "grouping = self._grouping((), calls, None, None, with_ids)",
        ("tests/operators/test_partial_aggregate.py",),
    ),
    Mistake(
        "a-sum-over-nothing-that-is-zero",
        "aggregation",
        "plan/aggregation.py",
        'return f"CASE WHEN {count} > 0 THEN {total} END"',
        "return total",
    ),
    Mistake(
        "not-exists-taken-as-exists",
        "builder",
        "plan/builder.py",
        'rule = "absent" if test.is_negated else "present"',
        'rule = "present"',
    ),
)

MEANING = (
    Mistake(
        "rows-converted-before-they-are-told-apart",
        "sets",
        "sql/sets.py",
        "if isinstance(block, BoundSet) or block.is_distinct or block.ranking:",
        "if isinstance(block, BoundSet) or block.ranking:",
        ("tests/sql/test_meaning.py",),
    ),
    Mistake(
        "not-in-that-ignores-null",
        "memberships",
        "sql/memberships.py",
        "is_null_aware=is_negated and isinstance(predicate, exp.In),",
        "is_null_aware=False,",
    ),
    Mistake(
        "a-double-negation-taken-as-one",
        "subqueries",
        "sql/subqueries.py",
        "is_negated ^= isinstance(condition, exp.Not)",
        "is_negated |= isinstance(condition, exp.Not)",
        ("tests/sql/test_meaning.py",),
    ),
    Mistake(
        "an-aggregate-named-by-the-one-before-it",
        "aggregates",
        "sql/aggregates.py",
        "return self._aggregates.index(aggregate)",
        "return [each.function for each in self._aggregates].index(aggregate.function)",
        ("tests/sql/test_meaning.py",),
    ),
    Mistake(
        "a-huge-sum-divided-as-a-decimal",
        "aggregates",
        "sql/aggregates.py",
        "return read_as(column, own.sql_type) if duck.is_renamed(own.sql_type, own.type) else column",
        "return column",
    ),
    Mistake(
        "distinct-ignored-in-a-count",
        "calls",
        "sql/calls.py",
        'if is_distinct and function == "count":',
        'if is_distinct and function == "count" and len(arguments) > 1:',
        ("tests/sql/test_meaning.py",),
    ),
    Mistake(
        "a-direction-ignored",
        "window_graph",
        "sql/window_graph.py",
        "back_us = 0 if pair.is_directed else pair.length_us - 1",
        "back_us = pair.length_us - 1",
    ),
    Mistake(
        "two-tuples-as-far-apart-as-the-window-of-their-pair",
        "window_graph",
        "sql/window_graph.py",
        "bounds[left][right] = min(bounds[left][right], pair.length_us - 1)",
        "bounds[left][right] = min(bounds[left][right], pair.length_us)",
    ),
    Mistake(
        "a-stream-that-lives-for-its-shortest-window",
        "window_graph",
        "sql/window_graph.py",
        "lives[alias] = max(lives[alias], window.length_us)",
        "lives[alias] = min(lives[alias] or window.length_us, window.length_us)",
    ),
)

OUTER_JOINS = (
    Mistake(
        "a-condition-on-what-was-not-found-asked-too-early",
        "push_filters",
        "plan/rules/push_filters.py",
        "late = tuple(conjunct for conjunct in query.conjuncts if aliases_of(conjunct) & padded)",
        "late = ()",
        ("tests/golden/test_golden.py -k outer_join",),
    ),
    Mistake(
        "a-key-computed-before-it-is-padded",
        "split_join_condition",
        "plan/rules/split_join_condition.py",
        "if len(read) == 1 and not read & padded_aliases(join.left):",
        "if len(read) == 1:",
        ("tests/golden/test_golden.py -k outer_join",),
    ),
    Mistake(
        "keys-of-a-lookup-taken-for-equal-in-every-row",
        "partition",
        "plan/distribution.py",
        "for join in _joins_of(node) if join.kind == INNER for pair",
        "for join in _joins_of(node) for pair",
        ("tests/plan/test_distribution.py",),
    ),
    Mistake(
        "a-full-join-that-pads-one-side",
        "outer_joins",
        "sql/outer_joins.py",
        "[: 2 if kind == FULL else 1]",
        "[:1]",
        ("tests/golden/test_golden.py -k outer_join",),
    ),
    Mistake(
        "a-condition-of-ON-asked-before-a-left-join",
        "outer_joins",
        "sql/outer_joins.py",
        "if tree.kind == INNER:\n            conjuncts",
        "if tree.kind in (INNER, LEFT):\n            conjuncts",
        ("tests/golden/test_golden.py -k outer_join",),
    ),
    Mistake(
        "a-condition-on-the-kept-side-that-nobody-asks",
        "partner_tests",
        "sql/partner_tests.py",
        "        if own:\n",
        "        if own and not pairs:\n",
    ),
    Mistake(
        "a-row-with-nulls-that-does-not-find-its-pairs",
        "partner_tests",
        "sql/partner_tests.py",
        "            nulls_match=True,",
        "            nulls_match=False,",
        ("tests/golden/test_golden.py -k outer_join",),
    ),
)

MISTAKES = (*RULES, *PLANS, *MEANING, *OUTER_JOINS)
