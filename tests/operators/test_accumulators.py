"""Aggregates of groups whose values come and go, against a plain recomputation after every run.

Law: the result is a function of the multiset of values in the group. So it is the same however the events are cut into
calls, and after groups were renumbered and the state went through a pickle.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import PlanError, SourceError
from sash.operators.accumulators import Accumulator, Runs, make_accumulator
from sash.store.vector import Memory

N_GROUPS = 3
DECIMAL = pa.decimal128(38, 0)


@dataclass(frozen=True)
class Event:
    group: int
    sign: int
    ts: int
    value: Any


Run = list[Event]
Aggregate = Callable[[list[tuple[int, Any]]], Any]
"""Of the (ts, value) that are in a group, NULLs included."""


@st.composite
def run_lists(draw: st.DrawFn, values: st.SearchStrategy) -> list[Run]:
    """Runs in order of time, positives first; what leaves had entered."""
    held: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    runs = []
    for now in range(draw(st.integers(1, 12))):
        group = draw(st.integers(0, N_GROUPS - 1))
        entering = [(now // 2, value) for value in draw(st.lists(values, max_size=4))]
        held[group] += entering
        n_leaving = draw(st.integers(0, len(held[group])))
        leaving = [held[group].pop(draw(st.integers(0, len(held[group]) - 1))) for _ in range(n_leaving)]
        run = [Event(group, 1, *each) for each in entering] + [Event(group, -1, *each) for each in leaving]
        if run:
            runs.append(run)
    return runs


def as_runs(runs: list[Run], renumbered: dict[int, int] | None = None) -> Runs:
    groups = [(renumbered or {}).get(run[0].group, run[0].group) for run in runs]
    events = [event for run in runs for event in run]
    return Runs(
        np.cumsum([0, *(len(run) for run in runs)]),
        np.array(groups, np.int64),
        N_GROUPS,
        np.array([event.sign for event in events], np.int8),
        np.array([event.ts for event in events], np.int64),
    )


def argument(runs: list[Run], type: pa.DataType) -> pa.Array:
    """Behind a value of no meaning, as an array may be a slice of another."""
    return pa.array([None, *(event.value for run in runs for event in run)], type)[1:]


def expected(runs: list[Run], aggregate: Aggregate) -> list[tuple[Any, Any]]:
    held: dict[int, list[tuple[int, Any]]] = defaultdict(list)
    results = []
    for run in runs:
        members = held[run[0].group]
        before = aggregate(members)
        for event in run:
            if event.sign > 0:
                members.append((event.ts, event.value))
            else:
                members.remove((event.ts, event.value))
        results.append((before, aggregate(members)))
    return results


def apply(accumulator: Accumulator, runs: list[Run], type: pa.DataType) -> list[tuple[Any, Any]]:
    before, after = accumulator.apply(as_runs(runs), argument(runs, type))
    before.validate(full=True)
    after.validate(full=True)
    return list(zip(before.to_pylist(), after.to_pylist(), strict=True))


def check(function: str, type: pa.DataType, result: pa.DataType, runs: list[Run], aggregate: Aggregate) -> None:
    """Compares all in one call, and run by run."""
    reference = expected(runs, aggregate)
    whole = apply(make_accumulator(function, type, result, Memory()), runs, type)
    assert [show(pair) for pair in whole] == [show(pair) for pair in reference]
    by_run = make_accumulator(function, type, result, Memory())
    pieces = [pair for run in runs for pair in apply(by_run, [run], type)]
    assert [show(pair) for pair in pieces] == [show(pair) for pair in whole]


def show(pair: tuple[Any, Any]) -> tuple[str, str]:
    """To the last bit, and with NaN equal to NaN."""
    return repr(pair[0]), repr(pair[1])


def present(members: list[tuple[int, Any]]) -> list[Any]:
    return [value for _, value in members if value is not None]


def of_present(aggregate: Callable[[list[Any]], Any], at_least: int = 1) -> Aggregate:
    """NULLs are skipped, and nothing gives NULL."""
    return lambda members: aggregate(present(members)) if len(present(members)) >= at_least else None


def nearest(value: Fraction) -> float:
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def exact_sum(values: list[float]) -> float:
    if any(not math.isfinite(value) for value in values):
        return sum(value for value in values if not math.isfinite(value))
    return nearest(sum(map(Fraction, values), Fraction(0)))


def nullable(values: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | values


INTEGERS = {
    "int64": (pa.int64(), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)),
    "uint64": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "int8": (pa.int8(), st.integers(-128, 127)),
    "uint32": (pa.uint32(), st.integers(0, 2**32 - 1)),
    "bool": (pa.bool_(), st.booleans()),
    "hugeint": (DECIMAL, st.integers(-(10**36), 10**36).map(Decimal)),
    "decimal": (pa.decimal128(9, 2), st.integers(-(10**9) + 1, 10**9 - 1).map(lambda n: Decimal(f"{n}e-2"))),
    "wide": (pa.decimal128(30, 5), st.integers(-(10**30) + 1, 10**30 - 1).map(lambda n: Decimal(f"{n}e-5"))),
}
DOUBLES = (
    st.floats()
    | st.floats(-10, 10)
    | st.sampled_from([1e16, -1e16, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 1e308, -1e308, 2.0**970, -0.0, 2.0**53])
)
FINITE = DOUBLES.filter(math.isfinite)


@given(run_lists(nullable(st.integers(-9, 9))))
def test_count(runs: list[Run]):
    check("count", pa.int64(), pa.int64(), runs, lambda members: len(present(members)))


@given(run_lists(nullable(st.integers(-9, 9))))
def test_count_of_rows(runs: list[Run]):
    before, after = make_accumulator("count", None, pa.int64(), Memory()).apply(as_runs(runs), None)
    assert list(zip(before.to_pylist(), after.to_pylist(), strict=True)) == expected(runs, len)


@pytest.mark.parametrize("name", INTEGERS)
@given(data=st.data())
def test_sum_of_integers(name: str, data: st.DataObject):
    type, values = INTEGERS[name]
    scale = type.scale if pa.types.is_decimal(type) else 0
    runs = data.draw(run_lists(nullable(values)))

    def total(values: list[Any]) -> Decimal:
        whole = sum(int(Fraction(value) * 10**scale) for value in values)
        return Decimal(f"{whole}e-{scale}")

    check("sum", type, pa.decimal128(38, scale), runs, of_present(total))


@pytest.mark.parametrize("name", INTEGERS)
@given(data=st.data())
def test_average_of_integers(name: str, data: st.DataObject):
    type, values = INTEGERS[name]
    unit = 10**type.scale if pa.types.is_decimal(type) else 1
    runs = data.draw(run_lists(nullable(values)))
    mean = of_present(lambda values: float(sum(int(Fraction(value) * unit) for value in values)) / (len(values) * unit))
    check("avg", type, pa.float64(), runs, mean)


@given(run_lists(nullable(DOUBLES)))
def test_sum_of_doubles(runs: list[Run]):
    check("sum", pa.float64(), pa.float64(), runs, of_present(exact_sum))


@given(run_lists(nullable(DOUBLES)))
def test_average_of_doubles(runs: list[Run]):
    check("avg", pa.float64(), pa.float64(), runs, of_present(lambda values: exact_sum(values) / len(values)))


@given(run_lists(nullable(st.floats(width=32))))
def test_sum_of_floats(runs: list[Run]):
    check("sum", pa.float32(), pa.float64(), runs, of_present(exact_sum))


def one_run(values: list[Any], leaving: int = 0) -> list[Run]:
    """All enter at once; the first `leaving` of them leave again."""
    return [[Event(0, 1, 0, value) for value in values] + [Event(0, -1, 0, value) for value in values[:leaving]]]


@pytest.mark.parametrize(
    ("values", "leaving", "total"),
    [
        ([1e16, 1.0, -1e16], 0, 1.0),
        ([1e308, 1e308, -1e308, -1e308, 1e-300], 0, 1e-300),
        ([1e308, 1.5], 1, 1.5),
        ([1e308, 1e308], 0, math.inf),
        ([2.0**1023, 2.0**969, -5e-324], 0, 2.0**1023),
        ([2.0**1023, 2.0**969, 2.0**970, -5e-324], 0, 2.0**1023 + 2.0**971),
        ([5e-324, 5e-324], 0, 1e-323),
        ([math.inf, 2.0], 1, 2.0),
        ([math.nan, 2.0], 1, 2.0),
        ([-0.0], 0, 0.0),
        ([2.0**e for e in range(-1000, 960, 60)], 0, math.fsum(2.0**e for e in range(-1000, 960, 60))),
    ],
)
def test_what_breaks_plain_sums(values: list[float], leaving: int, total: float):
    [(before, after)] = apply(
        make_accumulator("sum", pa.float64(), pa.float64(), Memory()), one_run(values, leaving), pa.float64()
    )
    assert (before, repr(after)) == (None, repr(total))


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_38_digits_is_refused(sign: int):
    most = Decimal(sign * (10**38 - 1))
    accumulator = make_accumulator("sum", DECIMAL, DECIMAL, Memory())
    assert apply(accumulator, [[Event(0, 1, 0, most), Event(0, 1, 0, most), Event(0, -1, 0, most)]], DECIMAL) == [
        (None, most)
    ]
    with pytest.raises(SourceError, match=r"beyond 38 digits.*cast the argument to `DOUBLE`"):
        apply(accumulator, [[Event(0, 1, 0, Decimal(sign))]], DECIMAL)


def test_a_type_without_a_meaning_is_refused():
    with pytest.raises(PlanError, match="`SUM` has no meaning for values of type `string`"):
        make_accumulator("sum", pa.string(), pa.float64(), Memory())
