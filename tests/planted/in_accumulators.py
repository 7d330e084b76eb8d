"""Mistakes in aggregate functions."""

from __future__ import annotations

from planted.mistake import Mistake

MISTAKES = (
    Mistake(
        "decimals-summed-without-their-scale",
        "sums",
        "operators/accumulators/sums.py",
        "scale = self._type.scale if pa.types.is_decimal(self._type) else 0",
        "scale = 0",
    ),
    Mistake(
        "deviations-of-decimals-without-their-unit",
        "deviations",
        "operators/accumulators/deviations.py",
        "MEASURES[function]._replace(unit=unit_of(type))",
        "MEASURES[function]",
        ("tests/operators/test_accumulators.py -k 'deviation_of_integers and decimal'",),
    ),
    Mistake(
        "a-first-value-that-is-null-lost-at-a-restart",
        "extremes",
        "operators/accumulators/extremes.py",
        "int(groups.max(initial=-1)) + 1, columns[-1].is_valid()",
        "int(groups.max(initial=-1)) + 1, columns[0].is_valid()",
        ("tests/operators/test_accumulators.py -k 'written_down and first-float64'",),
    ),
    Mistake(
        "nulls-passed-over-by-first-and-last",
        "members",
        "operators/accumulators/members.py",
        "valid = ALL_VALID if self._has_time else valid_flags(values)",
        "valid = valid_flags(values)",
        ("tests/operators/test_accumulators.py -k 'first_and_last and int64'",),
    ),
    Mistake(
        "a-median-between-two-integers-rounded-down",
        "ordered",
        "operators/accumulators/ordered.py",
        "(2 * floor + half).astype(np.float64) / 2",
        "floor.astype(np.float64)",
        ("tests/operators/test_accumulators.py -k 'median and int64'",),
    ),
    Mistake(
        "zeros-of-either-sign-that-differ",
        "sortable",
        "operators/accumulators/sortable.py",
        ".to_numpy(zero_copy_only=False) + 0.0",
        ".to_numpy(zero_copy_only=False)",
        ("tests/operators/test_accumulators.py -k '(count_distinct or min_and_max) and float64'",),
    ),
    Mistake(
        "negative-integers-without-their-upper-half",
        "columns",
        "operators/accumulators/argument_columns.py",
        "return words.view(np.uint64), words >> 63",
        "return words.view(np.uint64), np.zeros(len(words), np.int64)",
    ),
    Mistake(
        "groups-whose-numbers-are-mixed-up-when-others-have-gone",
        "tallies",
        "operators/accumulators/tallies.py",
        "            each.compact(mapping)",
        "            pass",
        (
            "tests/operators/test_accumulators.py -k 'renumbered and count'",
            "tests/operators/test_accumulators.py -k renumbered",
        ),
    ),
    Mistake(
        "a-filter-that-is-null-taken-for-true",
        "grouping",
        "operators/grouping.py",
        "passes = pc.fill_null(columns[call.filter].cast(pa.bool_()), False)",
        "passes = pc.fill_null(columns[call.filter].cast(pa.bool_()), True)",
        ("tests/golden -k 'some_of_the_rows'",),
    ),
    Mistake(
        "a-filter-that-moves-the-events-of-later-runs",
        "aggregate_runs",
        "operators/accumulators/aggregate_runs.py",
        "AggregateRuns(n_before[self.starts], self.groups",
        "AggregateRuns(np.minimum(self.starts, n_before[-1]), self.groups",
        ("tests/operators/test_accumulators.py -k do_not_pass",),
    ),
)
