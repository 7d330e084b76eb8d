"""Aggregates of groups whose values come and go, against a plain recomputation after every run.

Law: the result is a function of the multiset of values in the group. So it is the same however the events are cut into
calls, and after groups were renumbered and the state went through a pickle.
"""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sash.errors import PlanError, SourceError
from sash.operators.accumulators import BOUNDED, Accumulator, AggregateRuns, make_accumulator, make_running_accumulator
from sash.store.directory import Directory
from sash.store.vector import Memory, dump, load

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


def as_runs(runs: list[Run], renumbered: dict[int, int] | None = None) -> AggregateRuns:
    groups = [(renumbered or {}).get(run[0].group, run[0].group) for run in runs]
    events = [event for run in runs for event in run]
    return AggregateRuns(
        np.cumsum([0, *(len(run) for run in runs)]),
        np.array(groups, np.int64),
        max(groups, default=-1) + 1,
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


def exact_mean(values: list[float]) -> float:
    if any(not math.isfinite(value) for value in values):
        return exact_sum(values)
    return nearest(sum(map(Fraction, values), Fraction(0)) / len(values))


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
    mean = of_present(lambda values: sum(int(Fraction(value) * unit) for value in values) / (len(values) * unit))
    check("avg", type, pa.float64(), runs, mean)


@given(run_lists(nullable(DOUBLES)))
def test_sum_of_doubles(runs: list[Run]):
    check("sum", pa.float64(), pa.float64(), runs, of_present(exact_sum))


@given(run_lists(nullable(DOUBLES)))
def test_average_of_doubles(runs: list[Run]):
    check("avg", pa.float64(), pa.float64(), runs, of_present(exact_mean))


@pytest.mark.parametrize("infinity", [math.inf, -math.inf])
def test_an_infinity_among_doubles_leaves(infinity: float):
    accumulator = make_accumulator("sum", pa.float64(), pa.float64(), Memory())
    [(before, after)] = apply(accumulator, one_run([infinity, 1.0], 1), pa.float64())
    assert (before, after) == (None, 1.0)


@given(run_lists(nullable(st.floats(width=32))))
def test_average_of_floats(runs: list[Run]):
    check("avg", pa.float32(), pa.float64(), runs, of_present(exact_mean))


@pytest.mark.parametrize(
    ("values", "leaving", "mean"),
    [
        ([1e308, 1e308], 0, 1e308),
        ([1e308, 1e308, 1.0], 2, 1.0),
        ([1e308, 1e308, 1e308, -1e308, -1e308], 0, 2e307),
        ([1.7976931348623157e308] * 3, 0, 1.7976931348623157e308),
        ([5e-324, 5e-324, 5e-324, 0.0], 0, 5e-324),
        ([5e-324, 0.0], 0, 0.0),
        ([2.0**53, 1.0, 1.0], 0, (2**53 + 2) / 3),
        ([1e16, 1.0, 1.0], 0, (10**16 + 2) / 3),
        ([2.0**1023, 2.0**970, 2.0**-1000], 0, float((2**1023 + 2**970) // 3)),
    ],
)
def test_what_breaks_means_that_are_rounded_twice(values: list[float], leaving: int, mean: float):
    accumulator = make_accumulator("avg", pa.float64(), pa.float64(), Memory())
    [(before, after)] = apply(accumulator, one_run(values, leaving), pa.float64())
    assert (before, after) == (None, mean)


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
        ([2.0**1023, 2.0**970, -5e-324], 0, 2.0**1023),
        ([2.0**1023, 2.0**970, 5e-324], 0, 2.0**1023 + 2.0**971),
        ([2.0**1023, 2.0**970, 2.0**-980, -(2.0**-1060)], 0, 2.0**1023 + 2.0**971),
        ([2.0**1023, 2.0**970, -(2.0**-980), 2.0**-1060], 0, 2.0**1023),
        ([2.0**970, -(2.0**969), -(2.0**969), 5e-324], 0, 5e-324),
        ([2.0**970, -(2.0**969), -(2.0**969), 2.0**-790, 2.0**-843, 5e-324], 0, math.nextafter(2.0**-790, 1)),
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


def order_key(value: Any) -> tuple:
    """NULL first, NaN last, -0.0 with 0.0."""
    if value is None:
        return (0,)
    is_nan = isinstance(value, float) and math.isnan(value)
    return 1, is_nan, 0 if is_nan else value.encode() if isinstance(value, str) else value


def plain(value: Any) -> Any:
    """As it is stored: without a sign of zero."""
    return value + 0.0 if isinstance(value, float) else value


SORTABLE = {
    **INTEGERS,
    "float64": (pa.float64(), DOUBLES),
    "float32": (pa.float32(), st.floats(width=32)),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us"), st.datetimes().map(lambda each: each.replace(fold=0))),
    "time": (pa.time64("us"), st.times().map(lambda each: each.replace(fold=0))),
    "duration": (pa.duration("us"), st.timedeltas(datetime.timedelta(-9), datetime.timedelta(9))),
    "string": (pa.string(), st.text(max_size=3) | st.text("ab", max_size=3)),
    "large_string": (pa.large_string(), st.text("ab", max_size=3)),
    "binary": (pa.binary(), st.binary(max_size=3)),
}
NUMBERS = [name for name in SORTABLE if name in INTEGERS or name.startswith("float")]


@pytest.mark.parametrize("name", SORTABLE)
@given(data=st.data())
def test_min_and_max(name: str, data: st.DataObject):
    type, values = SORTABLE[name]
    runs = data.draw(run_lists(nullable(values)))
    check("min", type, type, runs, of_present(lambda values: plain(min(values, key=order_key))))
    check("max", type, type, runs, of_present(lambda values: plain(max(values, key=order_key))))


@pytest.mark.parametrize("name", SORTABLE)
@given(data=st.data())
def test_count_distinct(name: str, data: st.DataObject):
    type, values = SORTABLE[name]
    runs = data.draw(run_lists(nullable(values)))
    check("count_distinct", type, pa.int64(), runs, lambda members: len({order_key(each) for each in present(members)}))


@pytest.mark.slow
@pytest.mark.parametrize("name", SORTABLE)
@given(data=st.data())
def test_first_and_last(name: str, data: st.DataObject):
    """Several tuples may have entered at one instant: the value decides, and NULL comes before all values."""
    type, values = SORTABLE[name]
    runs = data.draw(run_lists(nullable(values)))

    def key(member: tuple[int, Any]) -> tuple:
        return member[0], order_key(member[1])

    check("first", type, type, runs, lambda members: plain(min(members, key=key)[1]) if members else None)
    check("last", type, type, runs, lambda members: plain(max(members, key=key)[1]) if members else None)


def middle(values: list[Any], unit: int) -> float:
    values = sorted(values, key=order_key)
    low, high = values[(len(values) - 1) // 2], values[len(values) // 2]
    if any(isinstance(value, float) and not math.isfinite(value) for value in (low, high)):
        return low + high
    return nearest((Fraction(low) + Fraction(high)) * unit / 2) / unit


@pytest.mark.parametrize("name", [name for name in NUMBERS if name not in ("hugeint", "wide")])
@given(data=st.data())
def test_median(name: str, data: st.DataObject):
    type, values = SORTABLE[name]
    unit = 10**type.scale if pa.types.is_decimal(type) else 1
    runs = data.draw(run_lists(nullable(values)))
    check("median", type, pa.float64(), runs, of_present(lambda values: middle(values, unit)))


@pytest.mark.parametrize("name", ["hugeint", "wide"])
@given(data=st.data())
def test_median_of_wide_decimals_is_that_of_doubles(name: str, data: st.DataObject):
    type, values = SORTABLE[name]
    runs = data.draw(run_lists(nullable(values)))
    before, after = make_accumulator("median", type, pa.float64(), Memory()).apply(as_runs(runs), argument(runs, type))
    for result, values in zip(after.to_pylist(), expected(runs, present), strict=True):
        if values[1]:
            ordered = sorted(values[1])
            pair = ordered[(len(ordered) - 1) // 2], ordered[len(ordered) // 2]
            assert result == pytest.approx(float(sum(map(Fraction, pair)) / 2), rel=1e-15, abs=1e-15)
        else:
            assert result is None
    assert len(before) == len(runs)


MEASURES = ("stddev", "stddev_pop", "var_samp", "var_pop")


def deviation(values: list[Any], function: str = "stddev") -> float:
    """From exact sums; a square root of 200 bits, rounded."""
    if any(isinstance(value, float) and not math.isfinite(value) for value in values):
        return math.nan
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction(0)) / len(exact)
    variance = sum(((each - mean) ** 2 for each in exact), Fraction(0)) / (len(exact) - (not function.endswith("_pop")))
    if variance == 0:
        return 0.0
    if function.startswith("var"):
        return nearest(variance)
    shift = 2 * (200 - (variance.numerator.bit_length() - variance.denominator.bit_length()) // 2)
    root = math.isqrt(int(variance * Fraction(2) ** shift))
    return nearest(Fraction(root) / Fraction(2) ** (shift // 2))


def check_deviation(type: pa.DataType, runs: list[Run], function: str = "stddev") -> None:
    """A few units in the last place, and to the last bit the same however it is cut."""
    n_least = 1 if function.endswith("_pop") else 2
    reference = expected(runs, of_present(lambda values: deviation(values, function), n_least))
    whole = apply(make_accumulator(function, type, pa.float64(), Memory()), runs, type)
    for result, correct in zip(sum(whole, ()), sum(reference, ()), strict=True):
        assert (result is None) == (correct is None)
        if correct is not None:
            assert result == pytest.approx(correct, rel=1e-15, abs=5e-324, nan_ok=True)
            assert correct or result == 0.0
    by_run = make_accumulator(function, type, pa.float64(), Memory())
    assert [show(pair) for run in runs for pair in apply(by_run, [run], type)] == [show(pair) for pair in whole]


@pytest.mark.parametrize("function", MEASURES)
@pytest.mark.parametrize("name", [name for name in INTEGERS if name not in ("hugeint", "wide")])
@given(data=st.data())
def test_deviation_of_integers(name: str, function: str, data: st.DataObject):
    type, values = INTEGERS[name]
    check_deviation(type, data.draw(run_lists(nullable(values))), function)


@pytest.mark.parametrize("function", MEASURES)
@given(data=st.data())
def test_deviation_of_doubles(function: str, data: st.DataObject):
    odd = st.sampled_from([2.0**-400, 2.0**480, 1e-200, 1e200])
    check_deviation(pa.float64(), data.draw(run_lists(nullable(DOUBLES | odd))), function)


@given(FINITE, st.integers(2, 40))
def test_equal_values_do_not_deviate(value: float, n_values: int):
    accumulator = make_accumulator("stddev", pa.float64(), pa.float64(), Memory())
    assert apply(accumulator, one_run([value] * n_values), pa.float64()) == [(None, 0.0)]


@given(FINITE.filter(lambda value: abs(value) < 1e300), st.integers(2, 40), st.integers(1, 39))
def test_neighbours_deviate_a_little(value: float, n_values: int, n_other: int):
    values = [value] * n_values + [math.nextafter(value, math.inf)] * n_other
    check_deviation(pa.float64(), one_run(values))


@given(st.lists(st.decimals(-(10**24), 10**24, places=5), min_size=2, max_size=9))
def test_deviation_of_wide_decimals_is_that_of_doubles(values: list[Decimal]):
    type = pa.decimal128(30, 5)
    [(_, result)] = apply(make_accumulator("stddev", type, pa.float64(), Memory()), one_run(values), type)
    assert result == pytest.approx(deviation([float(value) for value in values]), rel=1e-15)


FUNCTIONS = [
    ("count", "int64", pa.int64()),
    ("sum", "int64", DECIMAL),
    ("avg", "decimal", pa.float64()),
    ("sum", "float64", pa.float64()),
    ("stddev", "int64", pa.float64()),
    ("stddev", "float64", pa.float64()),
    ("stddev_pop", "float64", pa.float64()),
    ("var_samp", "int64", pa.float64()),
    ("var_pop", "float64", pa.float64()),
    ("count_if", "bool", DECIMAL),
    ("bool_and", "bool", pa.bool_()),
    ("bool_or", "bool", pa.bool_()),
    ("median", "float64", pa.float64()),
    ("count_distinct", "string", pa.int64()),
    ("max", "string", pa.string()),
    ("last", "string", pa.string()),
    ("first", "float64", pa.float64()),
]


@pytest.mark.parametrize(("function", "name", "result"), FUNCTIONS)
@given(data=st.data())
def test_renumbered_groups_and_another_process_change_nothing(
    function: str, name: str, result: pa.DataType, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    """After every run: another process takes over, and the groups that hold anything are numbered the other way."""
    type, values = SORTABLE[name]
    runs = data.draw(run_lists(nullable(values)))
    reference = apply(make_accumulator(function, type, result, Memory()), runs, type)
    path = tmp_path_factory.mktemp("vectors")
    arena = Directory(path)
    accumulator, numbers = make_accumulator(function, type, result, arena), {group: group for group in range(N_GROUPS)}
    for run, pair in zip(runs, reference, strict=True):
        before, after = accumulator.apply(as_runs([run], numbers), argument([run], type))
        assert show((before[0].as_py(), after[0].as_py())) == show(pair)
        data_of_state, arena = dump(accumulator, arena), Directory(path)
        accumulator = load(data_of_state, arena)
        accumulator.compact(np.arange(N_GROUPS)[::-1].copy())
        numbers = {group: N_GROUPS - 1 - number for group, number in numbers.items()}


@st.composite
def entering_runs(draw: st.DrawFn, values: st.SearchStrategy) -> list[Run]:
    """Runs in order of time, in which nothing leaves."""
    groups = draw(st.lists(st.integers(0, N_GROUPS - 1), max_size=8))
    some = st.lists(nullable(values), min_size=1, max_size=4)
    return [[Event(group, 1, now // 2, value) for value in draw(some)] for now, group in enumerate(groups)]


RUNNING = [
    *(each for each in FUNCTIONS if each[0] in BOUNDED),
    *((function, name, SORTABLE[name][0]) for function in ("min", "first") for name in SORTABLE),
]


@pytest.mark.parametrize(("function", "name", "result"), RUNNING)
@given(data=st.data())
def test_what_was_written_down_goes_on_as_it_was(
    function: str, name: str, result: pa.DataType, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
):
    """After any run the groups so far are written down, and read by an accumulator that numbers them the other way."""
    type, values = SORTABLE[name]
    runs = data.draw(entering_runs(values))
    reference = apply(make_accumulator(function, type, result, Memory()), runs, type)
    arena = Directory(tmp_path_factory.mktemp("vectors"))
    accumulator, numbers = make_running_accumulator(function, type, result, arena), dict(enumerate(range(N_GROUPS)))
    groups: set[int] = set()
    for run, pair in zip(runs, reference, strict=True):
        before, after = accumulator.apply(as_runs([run], numbers), argument([run], type))
        assert show((before[0].as_py(), after[0].as_py())) == show(pair)
        groups.add(run[0].group)
        if data.draw(st.booleans()):
            dumped = accumulator.dump(np.array([numbers[group] for group in groups]))
            accumulator, numbers = make_running_accumulator(function, type, result, arena), _turned(numbers)
            accumulator.load(np.array([numbers[group] for group in groups]), dumped)


def _turned(numbers: dict[int, int]) -> dict[int, int]:
    return {group: N_GROUPS - 1 - number for group, number in numbers.items()}


def test_sums_of_many_parts_are_read_beside_sums_of_few():
    """What a sum needs room for may differ between the groups that are read at once."""

    def sums(*runs: Run) -> Any:
        accumulator = make_running_accumulator("sum", pa.float64(), pa.float64(), Memory())
        apply(accumulator, list(runs), pa.float64())
        return accumulator

    values = [2.0 ** (-60 * i) for i in range(16)]
    long, short = sums([Event(0, 1, 0, value) for value in values]), sums([Event(0, 1, 0, 0.5)])
    both = [pa.concat_arrays(pair) for pair in zip(short.dump(np.zeros(1, int)), long.dump(np.zeros(1, int)))]
    assert len(both[1][0].as_py()) < len(both[1][1].as_py())
    read = sums()
    read.load(np.arange(2), both)
    back = [Event(1, -1, 0, value) for value in values[:-1]]
    assert apply(read, [[Event(0, 1, 0, 0.25)], back], pa.float64()) == [(0.5, 0.75), (1.0, values[-1])]


@pytest.mark.parametrize(("function", "name", "result"), FUNCTIONS)
def test_a_group_that_is_gone_leaves_nothing(function: str, name: str, result: pa.DataType):
    type, _ = SORTABLE[name]
    accumulator = make_accumulator(function, type, result, Memory())
    sample = {"int64": 5, "decimal": Decimal("5.00"), "float64": 5.0, "string": "five", "bool": True}[name]
    empty, held = apply(accumulator, [[Event(0, 1, 0, sample)]], type)[0]
    apply(accumulator, [[Event(2, 1, 0, sample)]], type)
    assert apply(accumulator, [[Event(0, -1, 0, sample)]], type) == [(held, empty)]
    accumulator.compact(np.array([-1, -1, 0]))
    assert apply(accumulator, [[Event(1, 1, 0, sample)], [Event(0, -1, 0, sample)]], type) == [
        (empty, held),
        (held, empty),
    ]
    accumulator.reset(Memory())
    assert apply(accumulator, [[Event(1, 1, 0, sample)]], type) == [(empty, held)]


@pytest.mark.parametrize(("function", "name", "result"), FUNCTIONS)
def test_no_events(function: str, name: str, result: pa.DataType):
    type, _ = SORTABLE[name]
    before, after = make_accumulator(function, type, result, Memory()).apply(as_runs([]), pa.array([], type))
    assert (before.type, after.type, len(before), len(after)) == (result, result, 0, 0)


@pytest.mark.parametrize("function", ["max", "last"])
def test_strings_that_are_gone_are_forgotten(function: str):
    """A window that slides for long: what is kept follows what is in it."""
    accumulator: Any = make_accumulator(function, pa.string(), pa.string(), Memory())
    for now in range(0, 5000, 50):
        entering = [Event(0, 1, now, f"{now + i:06}") for i in range(50)]
        leaving = [Event(0, -1, now - 50, f"{now - 50 + i:06}") for i in range(50)] if now else []
        [(_, latest)] = apply(accumulator, [entering + leaving], pa.string())
        assert latest == f"{now + 49:06}"
    assert accumulator._members._strings.n_strings < 400


@pytest.mark.parametrize(
    ("function", "sql"), [("avg", "DECIMAL(9, 2)"), ("avg", "DECIMAL(30, 5)"), ("avg", "BIGINT"), ("stddev", "BIGINT")]
)
@given(values=st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=20))
def test_means_and_deviations_are_those_of_duckdb(function: str, sql: str, values: list[int]):
    with duckdb.connect() as connection:
        query = f"SELECT (x / 7)::{sql} AS x FROM (SELECT unnest({values}::BIGINT[]) AS x)"
        column = connection.sql(query).to_arrow_table().column("x").combine_chunks()
        [(theirs,)] = connection.sql(f"SELECT {function}(x) FROM ({query})").fetchall()
    accumulator = make_accumulator(function, column.type, pa.float64(), Memory())
    _, ours = accumulator.apply(as_runs(one_run(values)), column)
    assert ours[0].as_py() == pytest.approx(theirs, rel=1e-14 if function == "stddev" else 4e-16, abs=0)


@pytest.mark.parametrize(("function", "aggregate"), [("bool_and", all), ("bool_or", any)])
@given(runs=run_lists(nullable(st.booleans())))
def test_whether_all_or_any_are_true(function: str, aggregate: Callable[[list[bool]], bool], runs: list[Run]):
    check(function, pa.bool_(), pa.bool_(), runs, of_present(aggregate))


@given(run_lists(nullable(st.booleans())))
def test_how_many_are_true(runs: list[Run]):
    check("count_if", pa.bool_(), DECIMAL, runs, of_present(lambda values: Decimal(sum(values))))


@pytest.mark.parametrize("function", ["count", "sum", "first", "last", "median"])
@given(data=st.data())
def test_events_that_do_not_pass_might_as_well_not_be(function: str, data: st.DataObject):
    """What enters and does not pass does not pass when it leaves either."""
    runs = data.draw(run_lists(nullable(st.integers(-9, 9))))
    result = {"count": pa.int64(), "sum": DECIMAL, "median": pa.float64()}.get(function, pa.int64())
    passes = np.array([event.value is None or event.value > 0 for run in runs for event in run], np.bool_)
    kept = [[event for event in run if event.value is None or event.value > 0] for run in runs]
    given, accumulator = as_runs(runs), make_accumulator(function, pa.int64(), result, Memory())
    before, after = accumulator.apply(given.only(passes), argument(runs, pa.int64()).filter(pa.array(passes)))
    reference = apply(
        make_accumulator(function, pa.int64(), result, Memory()), [run for run in kept if run], pa.int64()
    )
    seen = zip(before.to_pylist(), after.to_pylist(), strict=True)
    assert [pair for pair, run in zip(seen, kept, strict=True) if run] == reference
    unmoved = [pair[0] == pair[1] for pair, run in zip(zip(before.to_pylist(), after.to_pylist()), kept) if not run]
    assert all(unmoved)


def test_a_type_without_a_meaning_is_refused():
    with pytest.raises(PlanError, match="`SUM` has no meaning for values of type `string`; cast the argument"):
        make_accumulator("sum", pa.string(), pa.float64(), Memory())
