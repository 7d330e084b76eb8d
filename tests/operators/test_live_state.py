"""Every operator serves many groups in turn, and none of them notices: `STATE` names all that steps change.

The operators are found in the package. One that has no case here fails a test, which says so.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sash.operators
from sash.cost import replan, replan_multiway
from sash.cost.choose_join import SHIPPED, JoinChoice, choose_method
from sash.cost.choose_multiway import ALTERNATIVES, choose_algorithm
from sash.cost.join_cost import HASH, INVALIDATIONS, WHJ, WNL, JoinMethod
from sash.cost.replan import LoadWatch, ReplanPolicy
from sash.cost.replan_multiway import ManyStep, MultiwayWatch
from sash.index import circular_buckets, hash_index, join_index, key_tables, multiway_index, probe_index
from sash.operators import (
    front_rows,
    group_top_k,
    keyed,
    membership,
    over,
    pacing,
    running_group_by,
    shown_rows,
    window_join,
)
from sash.operators.accumulators.manner import SortKey
from sash.operators.asof_join import AsofJoin, AsofJoinSpec
from sash.operators.close import Close, CloseSpec
from sash.operators.combination_checks import Condition
from sash.operators.count_window import CountWindow, CountWindowSpec
from sash.operators.distinct import Distinct, DistinctSpec
from sash.operators.expire import Expire, ExpireSpec
from sash.operators.group_by import GroupBy, GroupBySpec
from sash.operators.group_top_k import GroupTopK, make_top_k
from sash.operators.grouping import Call
from sash.operators.lookup_join import LookupJoin, LookupJoinSpec
from sash.operators.membership import RULES, Membership, MembershipSpec
from sash.operators.multiway_join import MultiwayJoin, MultiwayJoinSpec
from sash.operators.operator import FrontierKeeper, FrontierReader, Operator, Stateless
from sash.operators.operator_kinds import OPERATORS
from sash.operators.operator_names import TapName
from sash.operators.over import Over, OverSpec
from sash.operators.partial_aggregate import PartialAggregate, PartialAggregateSpec
from sash.operators.project import Project, ProjectSpec
from sash.operators.reorder import Reorder, ReorderSpec
from sash.operators.row_frames import Frame, OverCall
from sash.operators.running_group_by import RunningGroupBy, RunningGroupBySpec
from sash.operators.sessions import Sessions, SessionsSpec
from sash.operators.slide import Slide, SlideSpec
from sash.operators.tap_spec import Tap, TappedJoinSpec
from sash.operators.tapped_join import TappedJoin
from sash.operators.top_k import TopK, TopKSpec
from sash.operators.union import Union, UnionSpec
from sash.operators.unmet import Unmet, UnmetSpec
from sash.operators.window_join import WindowJoin, WindowJoinSpec
from sash.plan.physical import Plan
from sash.store import key_index, trace
from sash.store.batch import NEVER, SIGNED_FIELDS
from sash.store.block import BLOCK_PREFIX
from sash.store.block_log import BlockLog
from sash.store.codec import decode_table
from sash.testing.case import Case, Push, Step
from sash.testing.plans import plans
from sash.testing.strategies import arrival_cuts
from support import live_state
from support.live_state import Script, check_live_state, modules_unchanged, serve_in_turns
from support.profiles import volume
from support.steps import Lived, due, signed

N_SEEDS = volume(dev=1, ci=1, deep=5)
N_PLANS = volume(dev=3, ci=5, deep=60)
N_PACED = 6
WINDOW_US = 6
END = 24
SIGNED_NAMES = tuple(field.name for field in SIGNED_FIELDS)
TYPES = {"k": pa.int64(), "s": pa.string(), "v": pa.int64(), "x": pa.float64(), "time": pa.int64(), "n": pa.int64()}


@dataclass(frozen=True)
class Lives:
    """What the tuples of an input are like."""

    length_us: int | None = None
    """How long they live; None: some shorter than the window, some longer."""
    may_be_taken_back: bool = True
    are_told: bool = False
    """Whether what expires comes as a negative."""
    are_early: bool = False
    """Whether tuples may come before the clock has reached them."""


MIXED = Lives()
TOLD = Lives(are_told=True)
WHOLE = Lives(WINDOW_US, may_be_taken_back=False)
ENDLESS = Lives(NEVER, may_be_taken_back=False)
ENDLESS_MIXED = Lives(NEVER)


def process(operator: Operator, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
    return operator.process(inputs, clock)


@dataclass(frozen=True)
class Served:
    """A way in which an operator runs, and what it is given."""

    make: Callable[..., Any]
    """Of a spec and the columns of each input."""
    spec: Any
    columns: Sequence[str]
    """Of each input, the names of its columns; what follows a dot says what they hold."""
    lives: Lives = MIXED
    step: Callable[[Any, Sequence[pa.Table], int], Any] = process
    meddle: Callable[[Any, Random], Any] = lambda operator, random: None
    """What else may happen to an operator between two steps."""

    @property
    def schemas(self) -> list[pa.Schema]:
        return [pa.schema([(name, type_of(name)) for name in names.split()]) for names in self.columns]

    def fresh(self) -> Any:
        return self.make(self.spec, *(pa.schema([*columns, *SIGNED_FIELDS]) for columns in self.schemas))


def type_of(name: str) -> pa.DataType:
    return pa.int64() if name.startswith("_id.") else TYPES[name.rpartition(".")[2]]


def draw_lives(random: Random, columns: pa.Schema, lives: Lives) -> list[Lived]:
    """Tuples of few keys, so that they meet, at few times, so that some come together."""
    found = []
    for number in range(random.randint(7, 11)):
        ts, k = random.randint(1, END), random.choice((0, 0, 1, 1, 2, 3, None))
        length_us = lives.length_us or random.randint(1, WINDOW_US)
        back = ts + random.randint(1, WINDOW_US) if lives.may_be_taken_back and random.random() < 0.4 else None
        expires = NEVER if length_us == NEVER else ts + length_us
        v = random.choice((1, 2, 3, 7, None))
        cells = {"k": k, "v": v, "time": ts, "n": number, "s": None if k is None else "abcd"[k]}
        cells["x"] = None if v is None else v / 3
        values = tuple(number if name.startswith("_id.") else cells[name.rpartition(".")[2]] for name in columns.names)
        found.append(Lived(values, ts, expires, back if back is not None and back < expires else None))
    return found


def draw_script(random: Random, served: Served) -> Script:
    """Steps of a group: what comes, and how far the clock moves; at last everything has expired."""
    lives = [draw_lives(random, columns, served.lives) for columns in served.schemas]
    clocks = sorted({*(random.randint(1, END) for _ in range(random.randint(2, 4))), 3 * END})
    return partial(run_script, served=served, lives=lives, clocks=clocks, seed=random.random())


def run_script(
    operator: Any, served: Served, lives: list[list[Lived]], clocks: list[int], seed: float
) -> Iterator[tuple]:
    """As a pipeline would: the clock moves bit by bit if much expires, and who wants to hear of frontiers does."""
    random, last = Random(seed), 0
    hears, keeps = bool(isinstance(operator, FrontierReader)), bool(isinstance(operator, FrontierKeeper))
    for clock in clocks:
        until = last
        while until < clock:
            served.meddle(operator, random)
            until = operator.pace(clock, N_PACED)
            upto = until + random.randint(0, 3) if served.lives.are_early else until
            inputs = [
                signed(due(own, last, upto, served.lives.are_told), columns)
                for own, columns in zip(lives, served.schemas, strict=True)
            ]
            if hears and random.random() < 0.7:
                operator.hear([(draw_frontier(random, own, until),) for own in lives])
            answer = rows_of(served.step(operator, inputs, until))
            frontier = operator.frontier(until + 1) if keeps else None
            told = changes_of_logs(operator) if random.random() < 0.3 else None
            yield until, answer, frontier, operator.registers(), told
            last = upto
    assert last >= clocks[-1]


def draw_frontier(random: Random, lives: list[Lived], clock: int) -> int:
    """Not beyond the next tuple."""
    return min([clock + random.randint(1, 9), *(lived.ts for lived in lives if lived.ts > clock)])


def rows_of(answer: Any) -> Any:
    """All rows of a table, or of tables, in their order."""
    return answer.to_pylist() if isinstance(answer, pa.Table) else [(key, each.to_pylist()) for key, each in answer]


def changes_of_logs(operator: Operator) -> dict[str, Any]:
    """What a store would be told. Blocks are read: the bytes where they have no value are anything."""
    told = {}
    for name, log in operator.logs().items():
        puts, deletes = log.take_changes()
        blocks = {key: decode_table(entry).to_pylist() for key, entry in puts.items() if key.startswith(BLOCK_PREFIX)}
        told[name] = puts | blocks, sorted(deletes)
    return told


def draw_groups(random: Random, served: Served) -> tuple[list[Script], list[int]]:
    """Two groups, and whose turn it is."""
    return [draw_script(random, served) for _ in range(2)], [random.randint(0, 1) for _ in range(8)]


def check(served: Served, seed: int) -> None:
    check_live_state(served.fresh, *draw_groups(Random(seed), served))


def join_spec(method: JoinMethod, **more: Any) -> WindowJoinSpec:
    spec = {"keys": (("A.k", "B.k"),), "residual": None, "windows_us": (WINDOW_US, WINDOW_US), "method": method}
    return WindowJoinSpec(**spec | more)


METHODS = (
    JoinMethod(HASH),
    *(JoinMethod(WNL, 1, each) for each in INVALIDATIONS),
    *(JoinMethod(WHJ, 3, each) for each in INVALIDATIONS),
)
PAIR = ("A.k A.s A.n", "B.k B.s B.n")
PAIR_WITH_IDS = ("A.k A.s _id.A", "B.k B.s _id.B")


class Restless(ReplanPolicy):
    """Another method after every step; which one follows from what the join has seen."""

    def next_method(self, watch: LoadWatch, clock: int, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        return METHODS[(watch.n_changes + watch.n_since_change) % len(METHODS)]

    def first_method(self, load: Any, step_s: float, method: JoinMethod, choice: JoinChoice) -> JoinMethod | None:
        return METHODS[-1]


def restless_algorithm(watch: MultiwayWatch, step: ManyStep, *more: Any) -> str:
    watch.see(step)
    return ALTERNATIVES[(watch.n_changes + watch.n_since_change) % len(ALTERNATIVES)]


def adopt_another(join: WindowJoin, random: Random) -> None:
    join.adopt(random.choice(METHODS))


def reach_of(*rows: str) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, row)) for row in rows)


def multiway(keys: str = "k", reach: Sequence[str] = ("044", "404", "440"), **more: Any) -> Served:
    own = tuple(tuple((f"{alias}.{key}",) for alias in "ABC") for key in keys)
    spec = MultiwayJoinSpec(("A", "B", "C"), own, reach_of(*reach), **more)
    return Served(MultiwayJoin, spec, ("A.k A.s A.n", "B.k B.s B.n", "C.k C.s C.n"), WHOLE)


CHAIN = (Condition('"A.n" <= "B.n"', (0, 1)), Condition('"C.n" > 1', (2,)))
UNEVEN = ("025", "306", "710")
RELATION = pa.table({"R.k": [0, 1, 1, None, 2], "R.s": ["a", "b", "c", "d", None]})


def sessions(partition_by: str, **more: Any) -> Served:
    spec = {"start": "start", "end": "end", "type": pa.int64(), "id_column": "_id.A"} | more
    return Served(Sessions, SessionsSpec(2, tuple(partition_by.split()), **spec), ("s v",), ENDLESS)


def lookup(keys: Sequence[tuple[str, str]], residual: str | None = None, kind: str = "INNER") -> Served:
    make: Callable[..., Any] = lambda spec, stream: LookupJoin(spec, stream, RELATION)  # noqa: E731
    return Served(make, LookupJoinSpec(tuple(keys), residual, kind=kind), ("A.k A.s A.n",))


def call(function: str, column: str | None, type: pa.DataType) -> Call:
    return Call(function, column, f"{function}_{column}", type)


RUNNING_CALLS = (
    call("count", None, pa.int64()),
    call("sum", "v", pa.decimal128(38, 0)),
    call("sum", "x", pa.float64()),
    call("avg", "v", pa.float64()),
    call("stddev", "v", pa.float64()),
    call("stddev", "x", pa.float64()),
    call("min", "s", pa.string()),
    call("max", "x", pa.float64()),
    call("first", "v", pa.int64()),
    call("last", "s", pa.string()),
)
CALLS = (*RUNNING_CALLS, call("median", "v", pa.float64()), call("count_distinct", "s", pa.int64()))
GROUPED = ("k s v x time",)
RANK = OverCall("rank", None, "n", pa.int64())
LAG = OverCall("lag", "v", "before", pa.int64(), n_rows=1)
FRAMED = OverCall("count", "s", "around", pa.int64(), Frame(is_range=False, start=-1, end=1))


def grouped(lives: Lives = MIXED, **more: Any) -> Served:
    by_negatives, window_us = lives.are_told, None if lives.length_us == NEVER else WINDOW_US
    spec = {
        "keys": ("k",),
        "calls": CALLS,
        "time": "time",
        "window_us": window_us,
        "expires_by_negatives": by_negatives,
    }
    return Served(GroupBy, GroupBySpec(**spec | more), GROUPED, lives)


def running(**more: Any) -> Served:
    spec = {"keys": ("k",), "calls": RUNNING_CALLS, "time": "time"}
    return Served(RunningGroupBy, RunningGroupBySpec(**spec | more), GROUPED, ENDLESS)


def distinct(lives: Lives, ids: tuple[str, ...] = ()) -> Served:
    window_us = None if lives.length_us == NEVER else WINDOW_US
    return Served(Distinct, DistinctSpec(("s", "v"), window_us, lives.are_told, ids), ("s v",), lives)


def top(lives: Lives, function: str, partition_by: tuple[str, ...], id_column: str | None = None) -> Served:
    window_us = None if lives.length_us == NEVER else WINDOW_US
    bounds = {"first": 1 if function == "row_number" else 0, "last": 2, "function": function}
    spec = TopKSpec(
        columns=("s", "v"), partition_by=partition_by, order=(("v", SortKey(is_descending=True)),), **bounds,
        window_us=window_us, expires_by_negatives=lives.are_told, id_column=id_column,
    )  # fmt: skip
    return Served(TopK, spec, ("s v k",), lives)


def numbered(lives: Lives, *calls: OverCall, **more: Any) -> Served:
    window_us = None if lives.length_us == NEVER else WINDOW_US
    spec = OverSpec(
        columns=("s", "v", "k"), ties=("s", "v"), order=(("v", SortKey(is_descending=True)),), calls=calls,
        window_us=window_us, expires_by_negatives=lives.are_told, **{"partition_by": (), **more},
    )  # fmt: skip
    return Served(Over, spec, ("s v k",), lives)


def group_top(function: str, id_column: str | None = None) -> Served:
    spec = TopKSpec(
        columns=("n", "s"), partition_by=(), order=(("v", SortKey(is_descending=True)),), last=2, function=function,
        window_us=None, expires_by_negatives=True, id_column=id_column, unique_by=("n",),
    )  # fmt: skip
    return Served(GroupTopK, spec, ("n s v",), ENDLESS_MIXED)


def member(rule: str, lives: Lives, of_rows: bool, ids: tuple[str, ...] = ()) -> Served:
    """Of rows, or by a key that follows from them."""
    names = (("s",), ("s",), ("w.s",)) if of_rows else (("v", "s"), ("key.s",), ("w.s",))
    spec = MembershipSpec(rule, *names, (WINDOW_US, WINDOW_US), lives.are_told, of_rows, ids)
    return Served(Membership, spec, ("s v key.s", "w.s"), lives)


def asof(lives: Lives, **more: Any) -> Served:
    spec = {
        "columns": (("s", "v"), ("w.s", "w.v")),
        "keys": (("s", "w.s"),),
        "times": ("v", "w.v"),
        "comparison": ">=",
        "deciding": ("w.s", "w.v"),
        "windows_us": (WINDOW_US, WINDOW_US),
        "expires_by_negatives": lives.are_told,
    }
    return Served(AsofJoin, AsofJoinSpec(**spec | more), ("s v", "w.s w.v"), lives)


def unmet(left: tuple[str, ...], right: tuple[str, ...], nulls_match: bool = False) -> Served:
    spec = UnmetSpec(("s", "v"), left, right, (WINDOW_US, WINDOW_US), nulls_match)
    return Served(Unmet, spec, ("s v", "w.s"), Lives(may_be_taken_back=False))


def tapped(schedule: str, **more: Any) -> Served:
    """Three queries, of which one came later."""
    columns = tuple((f"{side}.{name}", f"{alias}.{name}") for side, alias in (("l", "A"), ("r", "B")) for name in "ksn")
    taps = (
        Tap(TapName("q", 0), (WINDOW_US, 4), (None, 0), columns, (("A.k", "B.k"),), None),
        Tap(TapName("q", 1), (WINDOW_US, 4), (1, None), columns, (("A.k", "B.k"),), '"A.n" <> "B.n"'),
        Tap(TapName("q", 2), (2, 2), (None, None), columns, (("A.k", "B.k"),), None),
    )
    conditions = (('"l.n" > 2', '"l.n" < 9'), ('"r.n" > 1',))
    join = WindowJoinSpec((("l.k", "r.k"),), None, (WINDOW_US, 4), method=more.get("method", JoinMethod(HASH)))
    spec = TappedJoinSpec(join, conditions, taps, schedule)
    return Served(TappedJoin, spec, ("l.k l.s l.n", "r.k r.s r.n"), WHOLE, pour, open_tap)


def pour(join: TappedJoin, inputs: Sequence[pa.Table], clock: int) -> list[tuple[Any, pa.Table]]:
    """What all taps give, and now and then what one would have given that is opened now."""
    given = [
        ((each.complete_us, tap), table)
        for each in join.tap_outputs(inputs, clock)
        for tap, table in each.tables.items()
        if isinstance(table, pa.Table)  # as all are without a limit
    ]
    return given if clock % 3 else [*given, ("backfill", pa.concat_tables(join.backfill(1, clock)))]


def open_tap(join: TappedJoin, random: Random) -> None:
    """As a pipeline does when a query comes."""
    if random.random() < 0.3:
        join.since_us[random.randint(0, 2), random.randint(0, 1)] = random.randint(0, END)


CASES: dict[type, dict[str, Served]] = {
    Project: {
        "computes": Served(Project, ProjectSpec((("y", '"v" + 1'),), ("s", *SIGNED_NAMES), '"v" > 1'), ("s v",)),
        "passes on": Served(Project, ProjectSpec((), ("s", *SIGNED_NAMES)), ("s v",)),
    },
    Slide: {"slides": Served(Slide, SlideSpec(4), ("s v",))},
    Close: {"closes": Served(Close, CloseSpec(), ("s v",))},
    Reorder: {
        "by time": Served(Reorder, ReorderSpec(is_total=False), ("s v",), replace(MIXED, are_early=True)),
        "in total": Served(Reorder, ReorderSpec(True, ("v",), "_id.A"), ("s v",), replace(WHOLE, are_early=True)),
    },
    CountWindow: {
        "of all": Served(CountWindow, CountWindowSpec(3, (), "_id.A"), ("s v",), ENDLESS),
        "of partitions": Served(CountWindow, CountWindowSpec(2, ("s",), "_id.A"), ("s v",), ENDLESS),
    },
    Sessions: {
        "with versions": sessions("s"),
        "of all": sessions("", end=None),
        "without ends": sessions("s", end=None),
        "final": sessions("s", is_final=True),
    },
    WindowJoin: {
        **{
            f"{each.algorithm} {each.invalidation}": Served(WindowJoin, join_spec(each), PAIR, WHOLE)
            for each in METHODS
        },
        "of strings": Served(WindowJoin, join_spec(METHODS[0], keys=(("A.s", "B.s"),)), PAIR, WHOLE),
        "without keys": Served(WindowJoin, join_spec(METHODS[1], keys=(), residual='"A.k" < "B.k"'), PAIR, WHOLE),
        "between rows": Served(WindowJoin, join_spec(METHODS[0], windows_us=(None, None)), PAIR, WHOLE),
        "taken back": Served(WindowJoin, join_spec(METHODS[0], has_identities=True), PAIR_WITH_IDS, MIXED),
        "taken back, told": Served(
            WindowJoin, join_spec(METHODS[-1], has_identities=True, expires_by_negatives=True), PAIR_WITH_IDS, TOLD
        ),
        "of changing methods": Served(WindowJoin, join_spec(METHODS[0]), PAIR, WHOLE, meddle=adopt_another),
        "re-planned": Served(WindowJoin, join_spec(METHODS[0], choice=choose_method(None, True)), PAIR, WHOLE),
    },
    MultiwayJoin: {
        "of one key": multiway(),
        "of strings": multiway("s", UNEVEN),
        "of two keys": multiway("ks", UNEVEN, conditions=CHAIN),
        "of no key": multiway("", UNEVEN, conditions=CHAIN, checks_lives=True),
        **{each: multiway(algorithm=each) for each in ("nlw", "hw", "mw", "ripple", "xjoin")},
        **{each: multiway("k", UNEVEN, algorithm=each) for each in ("gca", "lca")},
        "gca with hw": multiway("k", UNEVEN, algorithm="gca", inner="hw"),
        "re-planned": multiway("k", UNEVEN, choice=choose_algorithm(None, SHIPPED)),
    },
    LookupJoin: {
        "by key": lookup([("A.k", "R.k")]),
        "by string": lookup([("A.s", "R.s")], '"A.k" < "R.k"'),
        "with all": lookup([], '"A.k" < "R.k"'),
        **{kind: lookup([("A.k", "R.k")], '"A.s" < "R.s"', kind) for kind in ("LEFT", "SEMI", "ANTI")},
    },
    Distinct: {
        "clocked": distinct(MIXED),
        "told": distinct(TOLD, ("_id.k", "_id._expires")),
        "endless": distinct(ENDLESS_MIXED, ("_id.k", "_id._expires")),
    },
    TopK: {
        "clocked": top(MIXED, "row_number", ("k",)),
        "told": top(TOLD, "rank", (), "_id.row"),
        "endless": top(ENDLESS_MIXED, "dense_rank", ("k",), "_id.row"),
    },
    Over: {
        "clocked": numbered(MIXED, RANK, partition_by=("k",)),
        "told": numbered(TOLD, LAG, FRAMED, copy_column="_id.copy", id_column="_id.row"),
        "endless": numbered(ENDLESS_MIXED, RANK, FRAMED, partition_by=("k",), copy_column="_copy"),
    },
    GroupTopK: {
        "first rows": group_top("row_number"),
        "ranks": group_top("rank", "_id.row"),
    },
    GroupBy: {
        "clocked": grouped(having='"count_None" > 1'),
        "told": grouped(TOLD, id_column="_id.g"),
        "endless": grouped(ENDLESS_MIXED, retracts=False),
        "of all": grouped(keys=(), id_column="_id.g"),
        "of all, told": grouped(TOLD, keys=()),
    },
    RunningGroupBy: {
        "by key": running(id_column="_id.g"),
        "by two keys": running(keys=("k", "s")),
        "of all": running(keys=()),
    },
    PartialAggregate: {
        "clocked": Served(PartialAggregate, PartialAggregateSpec(("v",), WINDOW_US, False), ("v",)),
        "told": Served(PartialAggregate, PartialAggregateSpec(("v",), WINDOW_US, True), ("v",), TOLD),
    },
    Membership: {
        **{rule: member(rule, MIXED, of_rows=True) for rule in RULES},
        "present, told": member("present", TOLD, True, ("_id.c", "_id._expires")),
        "absent, by key": member("absent", MIXED, False, ("_id.c", "_id._expires")),
        "present, by key, told": member("present", TOLD, False),
    },
    AsofJoin: {
        "clocked": asof(MIXED, keeps_all=True),
        "told, with identities": asof(TOLD, keeps_all=False, id_columns=("_id.l", "_id.r", "_id._expires")),
        "without keys": asof(MIXED, keeps_all=True, keys=(), comparison="<"),
    },
    Unmet: {
        "by key": unmet(("s",), ("w.s",)),
        "of rows": unmet(("s",), ("w.s",), nulls_match=True),
        "without keys": unmet((), ()),
    },
    Union: {
        "plain": Served(Union, UnionSpec(("s", "v")), ("s v", "v s")),
        "with identities": Served(Union, UnionSpec(("s",), ("_id.A",), ("_id.B",)), ("s _id.A", "s _id.B")),
    },
    Expire: {
        "taken back": Served(Expire, ExpireSpec(WINDOW_US), ("s _id.A",)),
        "whole": Served(Expire, ExpireSpec(None), ("s v",), Lives(may_be_taken_back=False)),
    },
    TappedJoin: {
        **{schedule: tapped(schedule) for schedule in ("lwo", "swf", "mqt")},
        "lwo by buckets": tapped("lwo", method=JoinMethod(WHJ, 3)),
    },
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def nothing_in_modules() -> Iterator[None]:
    """No step of any test here leaves something in a variable of a module."""
    operators_found()
    with modules_unchanged():
        yield


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """What happens only once much has gathered happens all the time: tables grow, keys are numbered anew, methods
    change.
    """
    for module in (circular_buckets, hash_index, key_tables, key_index):
        monkeypatch.setattr(module, "FIRST_SLOTS", 2)
    for module in (keyed, membership, group_top_k, front_rows):
        monkeypatch.setattr(module, "MIN_DEAD", 1)
    monkeypatch.setattr(membership, "CHANGES_PER_CALL", 2)
    monkeypatch.setattr(over, "ROWS_PER_CALL", 2)
    monkeypatch.setattr(shown_rows, "CHANGES_PER_CALL", 2)
    for name in ("LEAST_IN_FRONT", "N_TIMES_SHOWN"):
        monkeypatch.setattr(group_top_k, name, 1)
    monkeypatch.setattr(group_top_k, "MAX_BLOCKS", 3)
    monkeypatch.setattr(circular_buckets, "FIRST_BUCKETS", 1)
    monkeypatch.setattr(join_index, "PAIRS_PER_CHUNK", 16)
    monkeypatch.setattr(multiway_index, "COMBINATIONS_PER_CHUNK", 16)
    monkeypatch.setattr(probe_index, "N_OBSERVED", 4)
    monkeypatch.setattr(probe_index, "OBSERVE_EVERY", 4)
    monkeypatch.setattr(trace, "MIN_STRUCK_OUT", 1)
    monkeypatch.setattr(running_group_by, "MIN_GONE", 1)
    monkeypatch.setattr(running_group_by, "MAX_BLOCKS", 3)
    monkeypatch.setattr(window_join, "N_TELLING", 2)
    monkeypatch.setattr(replan, "POLICY", Restless())
    monkeypatch.setattr(replan_multiway, "next_algorithm", restless_algorithm)
    monkeypatch.setattr(pacing, "N_PACED", N_PACED)
    monkeypatch.setattr(BlockLog, "is_sparse", property(lambda log: any(block.n_dead for block in log.blocks)))


def operators_found() -> set[type]:
    """All classes of the package that can run and say what their state is."""
    found = set()
    for each in pkgutil.walk_packages(sash.operators.__path__, "sash.operators."):
        for value in vars(importlib.import_module(each.name)).values():
            is_own = isinstance(value, type) and value.__module__ == each.name
            if is_own and hasattr(value, "STATE") and (hasattr(value, "process") or hasattr(value, "tap_outputs")):
                found.add(value)
    return found


def test_every_operator_has_a_case() -> None:
    found = operators_found()
    assert {*OPERATORS.values(), LookupJoin, TappedJoin, TopK, GroupTopK} - {make_top_k} <= found
    missing = sorted(each.__name__ for each in found - CASES.keys())
    assert not missing, f"add a case to `CASES` for {', '.join(missing)}: what it is given, in each of its ways to run"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(N_SEEDS))
@pytest.mark.parametrize(
    "served",
    [pytest.param(served, id=f"{each.__name__} {way}") for each, ways in CASES.items() for way, served in ways.items()],
)
def test_groups_in_turn_get_what_they_get_alone(served: Served, seed: int) -> None:
    check(served, seed)


@pytest.mark.slow
@settings(max_examples=N_PLANS)
@given(st.data())
def test_whole_plans_serve_groups_in_turn(data: st.DataObject) -> None:
    """A group has some of the rows of each stream, in cuts of its own."""
    case = data.draw(plans(max_rows=12))
    scripts = []
    for _ in range(2):
        arrivals = {name: data.draw(some_rows(table)) for name, table in case.arrivals.items()}
        scripts.append(partial(run_plan, case=case, arrivals=arrivals, steps=data.draw(arrival_cuts(arrivals))))
    make = partial(Plan.alone(case.plan).pipeline, case.tables)
    check_live_state(make, scripts, data.draw(st.lists(st.integers(0, 1), max_size=12)))


@st.composite
def some_rows(draw: st.DrawFn, table: pa.Table) -> pa.Table:
    kept = draw(st.lists(st.sampled_from((True, True, False)), min_size=table.num_rows, max_size=table.num_rows))
    return table.filter(pa.array(kept, pa.bool_()))


def run_plan(operators: Any, case: Case, arrivals: dict[str, pa.Table], steps: list[Step]) -> Iterator[list]:
    """A query whose operators are these."""
    query = case.start()
    query._job._running = query._job._running._replace(pipeline=operators)
    for step in steps:
        if isinstance(step, Push):
            yield query.push(step.stream, arrivals[step.stream].slice(step.start, step.stop - step.start)).to_pylist()
        else:
            yield query.advance(step.time_us, step.stream).to_pylist()
    yield query.finish().to_pylist()


@pytest.mark.parametrize(
    ("operator", "name"),
    [pytest.param(each, name, id=f"{each.__name__} {name}") for each in CASES for name in each.STATE],
)
def test_whatever_state_forgot_to_name_would_be_noticed(operator: type, name: str) -> None:
    state = tuple(each for each in operator.STATE if each != name)
    assert any(
        is_noticed(replace(served, make=forgetting(served, state))) for served in reversed(CASES[operator].values())
    )


def forgetting(served: Served, state: tuple[str, ...]) -> Callable[..., Any]:
    """Makes the operator with another `STATE`."""

    def make(*args: Any) -> Any:
        operator = served.make(*args)
        operator.__class__ = type(type(operator).__name__, (type(operator),), {"STATE": state})
        return operator

    return make


def is_noticed(served: Served) -> bool:
    try:
        serve_in_turns(served.fresh, *draw_groups(Random(0), served))
    except AssertionError as error:
        return "`STATE` does not name" in str(error)
    return False


class Tally(Stateless):
    """How many tuples there have been so far, which it keeps in one place or another."""

    N_SEEN: ClassVar[list[int]] = [0]

    def __init__(self, place: str, input: pa.Schema):
        self.schema = input
        own, self._nested, self._array = [0], {"deep": ([0],)}, np.zeros(1, np.int64)
        places = {"class": self.N_SEEN, "nested": self._nested["deep"][0], "array": self._array, "closure": own}
        self._add = partial(_add_to, places[place])
        self._again = lambda: own

    def process(self, inputs: Sequence[pa.Table], clock: int) -> pa.Table:
        return pa.table({"n": [self._add(inputs[0].num_rows)]})


def _add_to(n_seen: Any, n_more: int) -> int:
    n_seen[0] += n_more
    return int(n_seen[0])


@pytest.mark.parametrize("place", ["class", "nested", "array", "closure"])
def test_no_place_is_overlooked(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tally, "N_SEEN", [0])
    served = Served(Tally, place, ("s",))
    with pytest.raises(AssertionError, match=r"step . of group . changes what `STATE` does not name"):
        check(served, seed=0)


def test_answers_alone_give_it_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is kept between steps could not be seen."""
    monkeypatch.setattr(live_state, "_check_rest", lambda served, before, what: before)
    with pytest.raises(AssertionError, match=r"step . of group . is not what it is alone"):
        check(Served(Tally, "array", ("s",)), seed=0)


def test_variables_of_modules_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed, "N_SEEN", [0], raising=False)
    with pytest.raises(AssertionError, match=r"sash\.operators\.keyed\.N_SEEN"), modules_unchanged():
        vars(keyed)["N_SEEN"][0] += 1
