"""Aggregates of values in their order, of different values, and of values that others place, against plain Python.

Law: as of all accumulators, the result is a function of the multiset of values in the group.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.operators.accumulators import (
    BOUNDED,
    Accumulator,
    AggregateRuns,
    make_accumulator,
    make_running_accumulator,
)
from sash.operators.accumulators.manner import PLAIN, CallManner, SortKey
from sash.store.directory import Directory
from sash.store.vector import Memory, dump, load

N_GROUPS = 3
DISTINCT = CallManner(is_distinct=True)
INTEGERS = st.none() | st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1])
STRINGS = st.none() | st.sampled_from(["", "a", "b", "ab", "a\0", "\0", "a\0b", "é", "\x01"])
DOUBLES = st.none() | st.sampled_from([0.1, 0.2, 1e308, -1e308, 5e-324, 3.7, 1e17, 2.0**53]) | st.floats(-10, 10)

Event = tuple[int, int, Any]
"""A group, a sign and a value."""


@st.composite
def run_lists(draw: st.DrawFn, values: st.SearchStrategy) -> list[list[Event]]:
    """Runs, positives first; what leaves had entered."""
    held: dict[int, list[Any]] = defaultdict(list)
    runs = []
    for _ in range(draw(st.integers(1, 12))):
        group = draw(st.integers(0, N_GROUPS - 1))
        entering = draw(st.lists(values, max_size=5))
        held[group] += entering
        leaving = [
            held[group].pop(draw(st.integers(0, len(held[group]) - 1)))
            for _ in range(draw(st.integers(0, len(held[group]))))
        ]
        if entering or leaving:
            runs.append([(group, 1, value) for value in entering] + [(group, -1, value) for value in leaving])
    return runs


def apply(
    accumulator: Accumulator, runs: list[list[Event]], type: pa.DataType, numbers: Any = range(N_GROUPS)
) -> list[tuple[Any, Any]]:
    events = [event for run in runs for event in run]
    given = AggregateRuns(
        np.cumsum([0, *map(len, runs)]),
        np.array([numbers[run[0][0]] for run in runs], np.int64),
        N_GROUPS,
        np.array([sign for _, sign, _ in events], np.int8),
        np.zeros(len(events), np.int64),
    )
    sides = accumulator.apply(given, pa.array([None, *(value for _, _, value in events)], type)[1:])
    for side in sides:
        side.validate(full=True)
    return list(zip(*(side.to_pylist() for side in sides), strict=True))


def expected(runs: list[list[Event]], aggregate: Callable[[list[Any]], Any]) -> list[tuple[Any, Any]]:
    held: dict[int, list[Any]] = defaultdict(list)
    results = []
    for run in runs:
        before = aggregate(held[run[0][0]])
        for group, sign, value in run:
            held[group].append(value) if sign > 0 else held[group].remove(value)
        results.append((before, aggregate(held[run[0][0]])))
    return results


def check(
    function: str,
    type: pa.DataType,
    result: pa.DataType,
    manner: CallManner,
    runs: list[list[Event]],
    aggregate: Callable[[list[Any]], Any],
) -> None:
    """At once, and run by run."""
    reference = expected(runs, aggregate)
    assert apply(make_accumulator(function, type, result, Memory(), manner), runs, type) == reference
    by_run = make_accumulator(function, type, result, Memory(), manner)
    assert [pair for run in runs for pair in apply(by_run, [run], type)] == reference


def of_present(aggregate: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    def aggregate_present(values: list[Any]) -> Any:
        present = [value for value in values if value is not None]
        return aggregate(present) if present else None

    return aggregate_present


def nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.copysign(math.inf, value)


def continuous(fraction: Fraction) -> Callable[[list[Any]], Any]:
    def quantile(values: list[Any]) -> float:
        exact = sorted(map(Fraction, values))
        place = (len(exact) - 1) * fraction
        low, high = exact[math.floor(place)], exact[math.ceil(place)]
        return nearest(low + (high - low) * (place - math.floor(place)))

    return of_present(quantile)


def discrete(fraction: Fraction, is_descending: bool = False) -> Callable[[list[Any]], Any]:
    def quantile(values: list[Any]) -> Any:
        return sorted(values, reverse=is_descending)[max(1, math.ceil(len(values) * fraction)) - 1]

    return of_present(quantile)


FRACTIONS = st.sampled_from([Fraction(0), Fraction(1), Fraction(1, 2), Fraction(9, 10), Fraction(333, 1000)])


@given(run_lists(INTEGERS), FRACTIONS | st.fractions(0, 1, max_denominator=10**9))
@example([[(0, 1, 2**63 - 1), (0, 1, -(2**63))]], Fraction(999_999_999, 10**9))
def test_continuous_quantiles_of_integers(runs: list[list[Event]], fraction: Fraction):
    manner = CallManner(fraction=fraction.as_integer_ratio())
    check("quantile_cont", pa.int64(), pa.float64(), manner, runs, continuous(fraction))


@given(run_lists(st.none() | st.integers(0, 2**64 - 1)), FRACTIONS)
def test_continuous_quantiles_of_unsigned_integers(runs: list[list[Event]], fraction: Fraction):
    manner = CallManner(fraction=fraction.as_integer_ratio(), is_descending=True)
    check("quantile_cont", pa.uint64(), pa.float64(), manner, runs, continuous(1 - fraction))


@given(run_lists(DOUBLES), FRACTIONS)
def test_continuous_quantiles_of_doubles(runs: list[list[Event]], fraction: Fraction):
    manner = CallManner(fraction=fraction.as_integer_ratio())
    check("quantile_cont", pa.float64(), pa.float64(), manner, runs, continuous(fraction))


@pytest.mark.parametrize("is_descending", [False, True])
@given(runs=run_lists(STRINGS), fraction=FRACTIONS)
def test_discrete_quantiles(is_descending: bool, runs: list[list[Event]], fraction: Fraction):
    manner = CallManner(fraction=fraction.as_integer_ratio(), is_descending=is_descending)
    check("quantile_disc", pa.string(), pa.string(), manner, runs, discrete(fraction, is_descending))


def mode(values: list[Any]) -> Any:
    counts = Counter(values)
    return min(value for value, n_times in counts.items() if n_times == max(counts.values()))


@given(run_lists(INTEGERS))
def test_the_mode_is_the_least_of_the_most_frequent(runs: list[list[Event]]):
    check("mode", pa.int64(), pa.int64(), PLAIN, runs, of_present(mode))


@given(run_lists(STRINGS))
def test_the_mode_of_strings(runs: list[list[Event]]):
    check("mode", pa.string(), pa.string(), PLAIN, runs, of_present(mode))


def test_the_mode_of_many_values_that_come_and_go():
    random = np.random.default_rng(5)
    values = [int(value) for value in random.zipf(1.3, 400) % 200]
    events = [[(0, 1, value)] for value in values] + [[(0, -1, value)] for value in random.permutation(values).tolist()]
    check("mode", pa.int64(), pa.int64(), PLAIN, events, of_present(mode))


@pytest.mark.parametrize("function", ["mode", "quantile_disc", "list"])
def test_strings_that_have_gone_are_forgotten(function: str):
    """Those that stay have new numbers then, in the same order."""
    manner = CallManner(fraction=(1, 2))
    result = pa.list_(pa.string()) if function == "list" else pa.string()
    aggregate = {"mode": of_present(mode), "quantile_disc": discrete(Fraction(1, 2))}.get(
        function, lambda v: sorted(v) or None
    )
    names = [f"{number * 7919 % 1000:03}" for number in range(300)]
    runs = [[(number % 2, 1, name)] for number, name in enumerate(names)]
    runs += [[(number % 2, -1, name)] for number, name in enumerate(names) if number % 50]
    runs += [[(number % 2, 1, f"{name}!")] for number, name in enumerate(names[:80])]
    check(function, pa.string(), result, manner, runs, aggregate)


def mean(values: set[int]) -> float:
    return nearest(sum(map(Fraction, values), Fraction(0)) / len(values))


@pytest.mark.parametrize(
    ("function", "result", "aggregate"),
    [
        ("sum", pa.decimal128(38, 0), lambda values: Decimal(sum(set(values)))),
        ("avg", pa.float64(), lambda values: mean(set(values))),
        ("mode", pa.int64(), min),
        ("median", pa.float64(), lambda values: continuous(Fraction(1, 2))(list(set(values)))),
    ],
)
@given(runs=run_lists(INTEGERS))
def test_equal_values_count_once(function: str, result: pa.DataType, aggregate: Any, runs: list[list[Event]]):
    check(function, pa.int64(), result, DISTINCT, runs, of_present(aggregate))


KEYS = [SortKey(is_descending, nulls_first) for is_descending in (False, True) for nulls_first in (False, True)]
PLACED = pa.struct([("0", pa.int64()), ("1", pa.string()), ("2", pa.int64())])
PLACED_VALUES = st.fixed_dictionaries({"0": INTEGERS, "1": STRINGS, "2": st.none() | st.integers(-2, 2)})


class Turned:
    """Orders what it holds the other way round."""

    def __init__(self, value: Any):
        self.value = value

    def __lt__(self, other: Turned) -> bool:
        return other.value < self.value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Turned) and other.value == self.value


def place(value: Any, key: SortKey) -> tuple:
    if value is None:
        return (0 if key.nulls_first else 2,)
    value = value.encode() if isinstance(value, str) else value
    return (1, Turned(value) if key.is_descending else value)


def in_order(rows: list[Any], keys: tuple[SortKey, ...]) -> list[Any]:
    def of_row(row: Any) -> tuple:
        value = (0, 0) if row["0"] is None else (1, row["0"])
        return (*(place(row[str(idx + 1)], key) for idx, key in enumerate(keys)), value)

    return [row["0"] for row in sorted(rows, key=of_row)]


@pytest.mark.parametrize("second", KEYS)
@pytest.mark.parametrize("first", KEYS)
@given(runs=run_lists(PLACED_VALUES))
def test_lists_are_placed_by_their_keys(first: SortKey, second: SortKey, runs: list[list[Event]]):
    manner = CallManner(keys=(first, second))
    check("list", PLACED, pa.list_(pa.int64()), manner, runs, lambda rows: in_order(rows, manner.keys) or None)
    check("first", PLACED, pa.int64(), manner, runs, lambda rows: (in_order(rows, manner.keys) or [None])[0])
    check("last", PLACED, pa.int64(), manner, runs, lambda rows: (in_order(rows, manner.keys) or [None])[-1])


def test_a_list_is_as_long_as_it_gets():
    manner, n_values = CallManner(keys=(SortKey(),)), 3000
    type = pa.struct([("0", pa.int64()), ("1", pa.int64())])
    runs = [[(0, 1, {"0": number, "1": -number}) for number in range(n_values)]]
    [(before, after)] = apply(make_accumulator("list", type, pa.list_(pa.int64()), Memory(), manner), runs, type)
    assert before is None
    assert after == list(reversed(range(n_values)))


@given(run_lists(STRINGS))
def test_strings_put_together(runs: list[list[Event]]):
    """By time, which is the same here, then by value."""
    manner = CallManner(separator="-")
    joined = of_present(lambda values: "-".join(sorted(values, key=str.encode)))
    check("string_agg", pa.string(), pa.string(), manner, runs, joined)


@given(run_lists(STRINGS))
def test_different_strings_put_together(runs: list[list[Event]]):
    type = pa.struct([("0", pa.string()), ("1", pa.string())])
    runs = [[(group, sign, {"0": value, "1": value}) for group, sign, value in run] for run in runs]
    manner = CallManner(is_distinct=True, keys=(SortKey(is_descending=True),), separator="")

    def joined(rows: list[Any]) -> str | None:
        values = {row["0"] for row in rows} - {None}
        return "".join(sorted(values, key=str.encode, reverse=True)) if values else None

    check("string_agg", type, pa.string(), manner, runs, joined)


DECIDED = pa.struct([("0", pa.int64()), ("1", pa.string())])
DECIDED_VALUES = st.fixed_dictionaries({"0": INTEGERS, "1": STRINGS})


def decided(choose: Callable) -> Callable[[list[Any]], Any]:
    def take(rows: list[Any]) -> Any:
        there = [(row["1"].encode(), row["0"]) for row in rows if row["0"] is not None and row["1"] is not None]
        return choose(there)[1] if there else None

    return take


@pytest.mark.parametrize(("function", "choose"), [("arg_min", min), ("arg_max", max)])
@given(runs=run_lists(DECIDED_VALUES))
def test_what_another_value_decides(function: str, choose: Callable, runs: list[list[Event]]):
    check(function, DECIDED, pa.int64(), CallManner(keys=(SortKey(),)), runs, decided(choose))


CASES = [
    ("quantile_cont", pa.int64(), INTEGERS, pa.float64(), CallManner(fraction=(1, 3))),
    ("mode", pa.string(), STRINGS, pa.string(), PLAIN),
    ("sum", pa.int64(), INTEGERS, pa.decimal128(38, 0), DISTINCT),
    ("list", PLACED, PLACED_VALUES, pa.list_(pa.int64()), CallManner(keys=(SortKey(True), SortKey()))),
    ("arg_max", DECIDED, DECIDED_VALUES, pa.int64(), CallManner(keys=(SortKey(),))),
]


@pytest.mark.parametrize(("function", "type", "values", "result", "manner"), CASES, ids=[case[0] for case in CASES])
@given(data=st.data())
def test_another_process_goes_on(
    function: str, type: Any, values: Any, result: Any, manner: CallManner, data: st.DataObject, tmp_path_factory: Any
):
    """After every run another one takes over, and the groups are numbered anew."""
    runs = data.draw(run_lists(values))
    reference = apply(make_accumulator(function, type, result, Memory(), manner), runs, type)
    arena = Directory(tmp_path_factory.mktemp("vectors"))
    accumulator, numbers = make_accumulator(function, type, result, arena, manner), list(range(N_GROUPS))
    for run, pair in zip(runs, reference, strict=True):
        assert apply(accumulator, [run], type, numbers) == [pair]
        accumulator = load(dump(accumulator, arena), arena)
        accumulator.compact(np.array([N_GROUPS - 1 - number for number in range(N_GROUPS)]))
        numbers = [N_GROUPS - 1 - number for number in numbers]


@pytest.mark.parametrize(
    ("function", "manner"),
    [
        ("arg_min", CallManner(keys=(SortKey(),))),
        ("arg_max", CallManner(keys=(SortKey(),))),
        ("last", CallManner(keys=(KEYS[3],))),
    ],
)
@given(data=st.data())
def test_what_was_written_down_goes_on_as_it_was(function: str, manner: CallManner, data: st.DataObject):
    """Where nothing leaves: after any run the groups are written down, and read by another accumulator."""
    assert function in BOUNDED
    runs = [[event for event in run if event[1] > 0] for run in data.draw(run_lists(DECIDED_VALUES))]
    runs = [run for run in runs if run]
    reference = apply(make_accumulator(function, DECIDED, pa.int64(), Memory(), manner), runs, DECIDED)
    accumulator = make_running_accumulator(function, DECIDED, pa.int64(), Memory(), manner)
    everything = np.arange(N_GROUPS)
    for run, pair in zip(runs, reference, strict=True):
        assert apply(accumulator, [run], DECIDED) == [pair]
        if data.draw(st.booleans()):
            written = accumulator.dump(everything)
            accumulator = make_running_accumulator(function, DECIDED, pa.int64(), Memory(), manner)
            accumulator.load(everything, written)
