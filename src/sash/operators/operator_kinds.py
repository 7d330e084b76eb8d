"""What a node of a plan may be, and what runs it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sash.operators.asof_join import AsofJoin, AsofJoinSpec
from sash.operators.close import Close, CloseSpec
from sash.operators.count_window import CountWindow, CountWindowSpec
from sash.operators.distinct import Distinct, DistinctSpec
from sash.operators.expire import Expire, ExpireSpec
from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.group_top_k import make_top_k
from sash.operators.lookup_join import LookupJoinSpec
from sash.operators.membership import Membership, MembershipSpec
from sash.operators.multiway_join import MultiwayJoin, MultiwayJoinSpec
from sash.operators.operator import Operator
from sash.operators.over import Over, OverSpec
from sash.operators.partial_aggregate import PartialAggregate, PartialAggregateSpec
from sash.operators.project import Project, ProjectSpec
from sash.operators.reorder import Reorder, ReorderSpec
from sash.operators.running_group_by import RunningGroupBy, RunningGroupBySpec
from sash.operators.sessions import Sessions, SessionsSpec
from sash.operators.slide import Slide, SlideSpec
from sash.operators.top_k import TopKSpec
from sash.operators.union import Union, UnionSpec
from sash.operators.unmet import Unmet, UnmetSpec
from sash.operators.window_join import WindowJoin, WindowJoinSpec


@dataclass(frozen=True, slots=True)
class InputSpec:
    """A leaf: tuples that the runtime brings in at this slot."""

    slot: int


@dataclass(frozen=True, slots=True)
class ExchangeSpec:
    """Where a plan is cut: tuples go to the group that the hash of `partition` says, or all to one if there is none.

    Within a whole plan it passes on what its input puts out. In the fragment above the cut it is a leaf, into which the
    runtime brings at `slot` what the fragment below has put out.
    """

    slot: int
    partition: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RelationSpec:
    """A leaf: a relation, by its alias in the query."""

    alias: str


Spec: TypeAlias = (
    InputSpec
    | ExchangeSpec
    | RelationSpec
    | ProjectSpec
    | SlideSpec
    | CloseSpec
    | ReorderSpec
    | CountWindowSpec
    | SessionsSpec
    | WindowJoinSpec
    | MultiwayJoinSpec
    | LookupJoinSpec
    | DistinctSpec
    | GroupBySpec
    | RunningGroupBySpec
    | PartialAggregateSpec
    | MembershipSpec
    | AsofJoinSpec
    | UnmetSpec
    | UnionSpec
    | TopKSpec
    | OverSpec
    | ExpireSpec
)

OPERATORS: dict[type, Callable[..., Operator]] = {
    ProjectSpec: Project,
    SlideSpec: Slide,
    CloseSpec: Close,
    ReorderSpec: Reorder,
    CountWindowSpec: CountWindow,
    SessionsSpec: Sessions,
    WindowJoinSpec: WindowJoin,
    MultiwayJoinSpec: MultiwayJoin,
    DistinctSpec: Distinct,
    GroupBySpec: GroupBy,
    RunningGroupBySpec: RunningGroupBy,
    PartialAggregateSpec: PartialAggregate,
    MembershipSpec: Membership,
    AsofJoinSpec: AsofJoin,
    UnmetSpec: Unmet,
    UnionSpec: Union,
    TopKSpec: make_top_k,
    OverSpec: Over,
    ExpireSpec: Expire,
}
"""What runs a spec, made of it and of the columns of its inputs. A LookupJoin is made of a relation as well."""
