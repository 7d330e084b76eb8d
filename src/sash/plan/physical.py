"""The physical plan: what runs together, in this process whole, on Spark in fragments.

That is one query alone, or several on top of a join that they share, the trunk. A branch is the query's own plan with a
leaf in place of the join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import pyarrow as pa

from sash.operators.branch import Branch
from sash.operators.operator_names import BranchName, TapName
from sash.operators.operator_tree import OperatorTree
from sash.operators.pipeline import Pipeline
from sash.operators.segmented_lookup import SegmentedRelation
from sash.plan.fragment import Fragment, Input, stack_fragments
from sash.plan.identity import identify
from sash.plan.query_plan import Place, QueryPlan, Slot
from sash.plan.sharing.trunk_plan import TrunkPlan, plan_trunk
from sash.sql.catalog import StreamInfo


@dataclass(frozen=True)
class Plan:
    """Queries that run together, by name: one, or those that share the join of the trunk."""

    queries: Mapping[str, QueryPlan]
    trunk: TrunkPlan | None = None
    n_fragments: int = 1
    """So many there are at least: the number of stages has to stay while queries come and go."""

    def __post_init__(self) -> None:
        assert self.trunk is not None or len(self.queries) == 1, "queries that share nothing run each for itself"

    @classmethod
    def alone(cls, query: QueryPlan, name: str = "") -> Plan:
        """Of a query that shares nothing."""
        return cls({name: query})

    @classmethod
    def sharing(cls, queries: Mapping[str, QueryPlan], n_fragments: int = 1) -> Plan:
        """Of queries whose joins have one signature; raises PlanError if they ask for different things."""
        return cls(queries, plan_trunk(queries), n_fragments)

    @property
    def fingerprint(self) -> str:
        """Tells plans apart whose state differs. Of a trunk it does not depend on which queries are on top of it."""
        if self.trunk is not None:
            return self.trunk.signature.fingerprint
        (query,) = self.queries.values()
        return query.fingerprint

    @cached_property
    def edition(self) -> str:
        """Tells apart plans that run differently, whether their state differs or not."""
        members = {name: query.fingerprint for name, query in self.queries.items()}
        shared = (self.trunk.spec, self.trunk.serving_order) if self.trunk else None
        return identify(state=self.fingerprint, members=members, shared=shared)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """How streams come in."""
        if self.trunk is not None:
            return self.trunk.slots
        (query,) = self.queries.values()
        return query.slots

    @property
    def streams(self) -> dict[str, StreamInfo]:
        """The streams that are read, by name."""
        return {slot.source.name: slot.info for slot in self.slots}

    def columns_read(self, stream: str) -> list[str]:
        """The columns of a stream that some query needs, in their declared order."""
        read = {name for query in self.queries.values() for name in query.columns_read(stream)}
        return [name for name in self.streams[stream].schema.names if name in read]

    @cached_property
    def fragments(self) -> tuple[Fragment, ...]:
        """What runs one after the other on Spark: first what reads streams, last what answers."""
        if self.trunk is None:
            cut = [query.cut(name, query.root, query.inputs) for name, query in self.queries.items()]
            return stack_fragments(cut, None, self.n_fragments)
        numbers = count(len(self.slots))
        cut = [self.trunk.cut(name, numbers) for name in sorted(self.queries)]
        return stack_fragments(cut, [slot.input for slot in self.slots], self.n_fragments)

    def reader(self, slot: int) -> tuple[Fragment, Input]:
        """The fragment that reads what comes in at a slot, and how it is spread there."""
        return next((fragment, input) for fragment in self.fragments if (input := fragment.input(slot)))

    def pipeline(self, relations: Mapping[str, pa.Table], place: Place | None = None) -> Pipeline:
        """A fresh pipeline of all of it, with everything in order of time; relations by name, as they were declared.
        `place` decides where these are; without it, in memory.
        """
        if self.trunk is None:
            trees = {name: query.tree(relations, place) for name, query in self.queries.items()}
            return Pipeline(None, [self._answering(name, tree, {}) for name, tree in trees.items()])
        numbers = count(len(self.slots))
        branches: list[Branch] = []
        for name, query in sorted(self.queries.items()):
            root, leaves = self.trunk.graft(name, numbers, is_ordered=False)
            loaded = query.load(relations, place)
            tree = OperatorTree(root, {leaf.input.slot: leaf.input.schema for leaf in leaves}, loaded)
            branches.append(self._answering(name, tree, {leaf.input.slot: leaf.tap for leaf in leaves}))
        return Pipeline(self.trunk.trunk(is_in_order=True), branches)

    def fragment_pipeline(
        self,
        number: int,
        relations: Mapping[str, pa.Table],
        prepared: Mapping[tuple[str, str], SegmentedRelation] | None = None,
    ) -> Pipeline:
        """A fresh pipeline of one fragment. Relations are `prepared`, by query and label, or given by name."""
        trunk = self.trunk.trunk(is_in_order=False) if self.trunk is not None and number == 0 else None
        branches: list[Branch] = []
        for each in self.fragments[number].branches:
            query = each.name.query
            own = {label: found for (name, label), found in (prepared or {}).items() if name == query}
            tree = each.tree(self.queries[query].load(relations, prepared=own))
            branches.append(self._branch(each.name, tree, each.taps))
        return Pipeline(trunk, branches)

    def _answering(self, query: str, tree: OperatorTree, taps: Mapping[int, TapName]) -> Branch:
        """A whole query, whose answers are seen in their order."""
        return replace(self._branch(BranchName(query), tree, taps), order=tuple(self.queries[query].schema.names))

    def _branch(self, name: BranchName, tree: OperatorTree, taps: Mapping[int, TapName]) -> Branch:
        numbers = {tap.name: number for number, tap in enumerate(self.trunk.spec.taps)} if self.trunk else {}
        fed = {slot: numbers[tap] for slot, tap in taps.items()}
        return Branch(name, self.queries[name.query].fingerprint, tree, fed)
