"""A clock that has moved far moves bit by bit: so many tuples expire in one step, and no more.

    clock    ────────────────────────▶│
    paces    ───▶│──▶│──────▶│───────▶│      each as far as about `N_PACED` tuples of an operator expire

Tuples that nothing puts in order come when the clock has reached them: what expires before has to be gone then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from sash.operators.operator import Stateful
from sash.store.batch import NEVER, TS, int64_column, sorted_by_time
from sash.store.bites import Use
from sash.store.timed_turns import OrderedTuples

Arriving: TypeAlias = pa.Table | OrderedTuples
"""What comes in at a slot: at once, or part by part if it is too much for memory."""
N_PACED = 1 << 16
"""So many tuples of an operator expire in one step, at most; more if they expire at the same instant."""


class Pace(NamedTuple):
    """A step, or a bit of one: tuples by slot, the clock after them, and that of each slot, which may be ahead."""

    arrivals: Mapping[int, Arriving]
    clock: int
    clocks: Mapping[int, int]


def paces(operators: Sequence[Stateful], clock: int, use: Use) -> Iterator[int]:
    """The clocks by which it moves bit by bit; what an operator says depends on the steps before. `use`: what becomes
    of tuples that are let go; unless they are kept all at once, as many may be as there is memory for.
    """
    n_max = N_PACED if use is Use.KEPT else NEVER
    while True:
        until = min((operator.pace(clock, n_max) for operator in operators), default=clock)
        yield until
        if until == clock:
            return


def paced(operators: Sequence[Stateful], loose: Set[int], step: Pace, use: Use) -> Iterator[Pace]:
    """A step of operators bit by bit; `loose` are the slots that nothing puts in order. `use`: see `paces`."""
    arrivals, clock, clocks = step
    is_sorted = False
    for until in paces(operators, clock, use):
        if until == clock:
            yield Pace(arrivals, clock, clocks)
            return
        if not is_sorted:
            arrivals = {slot: _ordered(each) for slot, each in arrivals.items()}
            is_sorted = True
        due = {slot: _due(each, until) if slot in loose else each for slot, each in arrivals.items()}
        arrivals = {slot: _without(each, due[slot]) for slot, each in arrivals.items()}
        reached = {slot: min(each, until) if slot in loose else each for slot, each in clocks.items()}
        yield Pace(due, until, reached)


def _due(arrivals: Arriving, until: int) -> Arriving:
    """Of tuples in order of time, those that come in before the clock moves on."""
    if isinstance(arrivals, OrderedTuples):
        return arrivals.up_to(until)
    return arrivals.slice(0, int(np.searchsorted(int64_column(arrivals, TS), until, "right")))


def _ordered(arriving: Arriving) -> Arriving:
    return sorted_by_time(arriving.combine_chunks(), False) if isinstance(arriving, pa.Table) else arriving


def _without(arriving: Arriving, due: Arriving) -> Arriving:
    """What is left. Of what comes part by part it is not there yet, unless that was all."""
    if isinstance(arriving, pa.Table):
        return arriving.slice(due.num_rows)
    return arriving.schema.empty_table() if due is arriving else arriving
