"""Tuples of one or several inputs, in order of time, in turns that an operator can take one after the other.

input    ▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏▏        in parts, of which a few are in memory
input    ▏▏   ▏▏▏▏▏▏  ▏▏
turns    ├───┤├─┤├─┤├──┤├─┤       each with a time up to which all inputs are complete after it; the tuples of an
               one instant        instant that are too many for memory come in parts, if whoever takes them can
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from sash.store.batch import BEGINNING, NEVER, TS, concat, int64_column, signs


class Instants(Enum):
    """How one takes the tuples of an instant that are too many for memory."""

    WHOLE = auto()
    """All together, nevertheless."""
    ENTERING_FIRST = auto()
    """What enters in parts, and then what leaves."""
    LEAVING_FIRST = auto()
    """What leaves in parts, input by input, and then what enters, likewise. Inputs have to be in this order."""


class TimedTurn(NamedTuple):
    """Tuples of each input, and a time up to which all have been given after them; `is_part`: all but some at it."""

    inputs: list[pa.Table]
    until: int
    is_part: bool = False


class _Part(NamedTuple):
    tuples: pa.Table
    first_us: int
    last_us: int


class OrderedTuples:
    """Tuples in order of time, made as they are asked for, once. What is loaded has been made and not taken."""

    def __init__(self, parts: Iterable[pa.Table], schema: pa.Schema, num_rows: int = 0):
        self._parts, self._loaded = iter(parts), list[_Part]()
        self.schema = schema
        self.num_rows = num_rows
        """Of all, if it is known."""
        self.is_over = False
        """Whether all is loaded."""

    @property
    def first_us(self) -> int:
        """Of what is loaded."""
        return self._loaded[0].first_us if self._loaded else NEVER

    @property
    def last_us(self) -> int:
        """Of what is loaded: nothing that is not is older."""
        return self._loaded[-1].last_us if self._loaded else BEGINNING

    @property
    def n_bytes(self) -> int:
        """Of what is loaded."""
        return sum(part.tuples.nbytes for part in self._loaded)

    def load(self) -> None:
        """One part more, or it is over."""
        tuples = next(self._parts, None)
        if tuples is None:
            self.is_over = True
        elif tuples.num_rows:
            ts = int64_column(tuples, TS)
            self._loaded.append(_Part(tuples, int(ts[0]), int(ts[-1])))

    def load_up_to(self, us: int, n_bytes: int) -> bool:
        """About so many bytes of what is not newer than a time, or all; whether there is some."""
        while not self.is_over and self.last_us <= us and self.n_bytes <= n_bytes:
            self.load()
        return bool(self._loaded) and self.first_us <= us

    def take(self, us: int) -> pa.Table:
        """What is loaded and not newer than a time."""
        return self._take(lambda part: int(np.searchsorted(int64_column(part, TS), us, side="right")))

    def take_leaving(self, us: int) -> pa.Table:
        """The first that are loaded, as far as they leave and are not newer than a time."""

        def count(part: pa.Table) -> int:
            stays = (signs(part) > 0) | (int64_column(part, TS) > us)
            return int(np.argmax(stays)) if stays.any() else len(stays)

        return self._take(count)

    def up_to(self, us: int) -> OrderedTuples:
        """What is not newer than a time; to be exhausted before anything else is asked for."""

        def parts() -> Iterator[pa.Table]:
            while self.load_up_to(us, 0):
                yield self.take(us)

        return OrderedTuples(parts(), self.schema)

    def __iter__(self) -> Iterator[pa.Table]:
        """All that was not taken yet, part by part."""
        yield from self.up_to(NEVER)._parts

    def _take(self, count: Callable[[pa.Table], int]) -> pa.Table:
        """From the beginning, as many of each part as are counted, until some of one stay."""
        taken = list[pa.Table]()
        while self._loaded:
            tuples, _, last_us = self._loaded[0]
            n_taken = count(tuples)
            taken.append(tuples.slice(0, n_taken))
            if n_taken < tuples.num_rows:
                rest = tuples.slice(n_taken)
                self._loaded[0] = _Part(rest, int(int64_column(rest, TS)[0]), last_us)
                break
            del self._loaded[0]
        return concat([self.schema.empty_table(), *taken]) if len(taken) != 1 else taken[0]


def in_turns(
    inputs: Sequence[OrderedTuples], clock: int, most_bytes: int, instants: Instants = Instants.WHOLE
) -> Iterator[TimedTurn]:
    """All tuples of the inputs, about `most_bytes` at a time. The last turn is complete up to the clock."""
    most_bytes //= 2 * len(inputs)
    while waiting := [each for each in inputs if not each.is_over]:
        behind = min(waiting, key=lambda each: each.last_us)
        instant = behind.last_us
        if behind.n_bytes <= most_bytes:
            behind.load()
        elif any(each.first_us < instant for each in inputs):
            yield TimedTurn([each.take(instant - 1) for each in inputs], min(instant - 1, clock))
        elif instants is Instants.WHOLE or not BEGINNING < instant <= clock:
            behind.load()
        elif instants is Instants.ENTERING_FIRST:
            yield from _entering_first(inputs, instant, most_bytes)
        else:
            yield from _leaving_first(inputs, instant, most_bytes)
    yield TimedTurn([each.take(NEVER) for each in inputs], clock)


def _entering_first(inputs: Sequence[OrderedTuples], instant: int, most_bytes: int) -> Iterator[TimedTurn]:
    """An instant: parts of what enters, and a last turn for what leaves."""
    leaving = [[each.schema.empty_table()] for each in inputs]
    while any(each.load_up_to(instant, most_bytes) for each in inputs):
        tuples = [each.take(instant) for each in inputs]
        enters = [signs(each) > 0 for each in tuples]
        for kept, each, mask in zip(leaving, tuples, enters, strict=True):
            kept.append(each.filter(pa.array(~mask)))
        if any(mask.any() for mask in enters):
            entering = [each.filter(pa.array(mask)) for each, mask in zip(tuples, enters, strict=True)]
            yield TimedTurn(entering, instant, is_part=True)
    yield TimedTurn([concat(each) for each in leaving], instant)


def _leaving_first(inputs: Sequence[OrderedTuples], instant: int, most_bytes: int) -> Iterator[TimedTurn]:
    """An instant in parts: what leaves of the first input, then of the next, and at last what enters, input by input as
    well: of tuples of the same time that join, one of the last input finds the others, which must be there by then.
    """
    nothing = [each.schema.empty_table() for each in inputs]
    for number, each in enumerate(inputs):
        while each.load_up_to(instant, most_bytes) and (leaving := each.take_leaving(instant)).num_rows:
            yield TimedTurn([*nothing[:number], leaving, *nothing[number + 1 :]], instant, is_part=True)
    for number, each in enumerate(inputs):
        while each.load_up_to(instant, most_bytes):
            yield TimedTurn([*nothing[:number], each.take(instant), *nothing[number + 1 :]], instant, is_part=True)
