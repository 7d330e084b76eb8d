"""What a join asks of its keys."""

from __future__ import annotations

import pyarrow as pa

from sash.operators.join_keys import pair_condition, without_null_keys


def test_rows_with_a_null_key_are_left_out() -> None:
    table = pa.table({"x": [1, None, 3], "y": ["a", "b", None], "z": [None, None, 5]})
    assert without_null_keys(table, ("x", "y"))["x"].to_pylist() == [1]
    assert without_null_keys(table, ()).num_rows == 3


def test_what_is_left_to_check_of_a_pair() -> None:
    """Exact keys need no second look, others do."""
    left = pa.schema([("a.n", pa.int64()), ("a.s", pa.string())])
    assert pair_condition((("a.n", "b.n"),), None, left) is None
    assert pair_condition((("a.n", "b.n"),), "x < y", left) == "(x < y)"
    assert pair_condition((("a.s", "b.s"),), None, left) == '"a.s" = "b.s"'
    both = (("a.n", "b.n"), ("a.s", "b.s"))
    assert pair_condition(both, "x < y", left) == '(x < y) AND "a.n" = "b.n" AND "a.s" = "b.s"'
    assert pair_condition((), None, left) is None
