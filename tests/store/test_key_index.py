"""The key index against a Python dict.

Law: two rows get the same id iff their keys are equal, where NULL equals NULL, NaN equals NaN and -0.0 equals 0.0;
     ids are dense and in order of first appearance, whatever the hash, the batches and how columns are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sash.store import key_index, keys
from sash.store.directory import Directory
from sash.store.key_index import KeyIndex
from sash.store.vector import dump, load

VALUES: dict[pa.DataType, st.SearchStrategy] = {
    pa.int8(): st.integers(-2, 2),
    pa.int64(): st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    pa.uint64(): st.sampled_from([0, 1, 2**63, 2**64 - 1]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5, math.inf, -math.inf, math.nan]),
    pa.float64(): st.sampled_from([0.0, -0.0, 0.1, 5e-324, math.inf, math.nan, -math.nan]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.dates(date(1969, 12, 30), date(1970, 1, 2)),
    pa.timestamp("us"): st.sampled_from([datetime(1970, 1, 1), datetime(1969, 12, 31), datetime(9999, 1, 1)]),
    pa.timestamp("us", "UTC"): st.sampled_from([datetime(1970, 1, 1), datetime(2020, 12, 31)]),
    pa.time64("us"): st.sampled_from([time(0), time(0, 0, 1), time(23, 59, 59, 999_999)]),
    pa.duration("us"): st.sampled_from([timedelta(0), timedelta(microseconds=-1), timedelta(days=1)]),
    pa.decimal128(9, 2): st.sampled_from([Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")]),
    pa.decimal128(18, 0): st.sampled_from([Decimal(0), Decimal(10**18 - 1), Decimal(1 - 10**18)]),
    pa.decimal128(38, 2): st.sampled_from([Decimal("0.25"), Decimal("-0.25"), Decimal(2**64), Decimal(-(2**64))]),
    pa.string(): st.sampled_from(["", "a", "é", "aa", "a\0", "long" * 10]),
    pa.large_string(): st.sampled_from(["", "a", "aa"]),
    pa.binary(): st.sampled_from([b"", b"\0", b"\0\0", b"a"]),
    pa.null(): st.none(),
}
TEXT_AND_FLOAT = pa.schema([("a", pa.string()), ("b", pa.float64())])


@dataclass(frozen=True)
class Step:
    """A batch, as `stored`; then whether another process goes on, and which ids are let go of, by place."""

    rows: tuple[tuple, ...]
    stored: str = "plain"
    restarts: bool = False
    is_dead: tuple[bool, ...] = ()


@dataclass
class Model:
    """A dict beside the index that should answer alike."""

    schema: pa.Schema
    directory: Path | None = None
    ids: dict[tuple, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.index = KeyIndex(self.schema, self._arena())

    def take(self, step: Step) -> None:
        batch = as_table(step.rows, self.schema, step.stored)
        plain = [canonical(row) for row in step.rows]
        assert self.index.find(batch).tolist() == [self.ids.get(key, -1) for key in plain]
        assert self.index.n_ids == len(self.ids)
        expected = [self.ids.setdefault(key, len(self.ids)) for key in plain]
        assert self.index.encode(batch).tolist() == expected
        assert self.index.find(batch).tolist() == expected
        self._check_keys()
        if step.is_dead:
            self._compact(step.is_dead)
        if step.restarts and (arena := self._arena()) is not None:
            self.index = load(dump(self.index, self.index._arena), arena)
        self._check_keys()

    def _compact(self, is_dead: tuple[bool, ...]) -> None:
        alive = [not is_dead[place % len(is_dead)] for place in range(len(self.ids))]
        new_ids = self.index.compact(np.array(alive, np.bool_))
        kept = [key for key, id in self.ids.items() if alive[id]]
        renumbered = {key: place for place, key in enumerate(kept)}
        assert new_ids.tolist() == [renumbered.get(key, -1) for key in self.ids]
        self.ids = renumbered

    def _check_keys(self) -> None:
        """All ids but backwards, so that order counts."""
        assert self.index.n_ids == len(self.ids)
        ids = np.arange(len(self.ids))[::-1]
        taken = self.index.take(ids)
        assert taken.schema.types == self.schema.types
        assert taken.num_rows == len(ids)
        rows = zip(*(column.to_pylist() for column in taken.columns)) if self.schema.names else [()] * len(ids)
        seen = list(rows)
        assert [canonical(row) for row in seen] == list(self.ids)[::-1]
        assert not any(is_negative_zero(value) for row in seen for value in row)

    def _arena(self) -> Directory | None:
        return Directory(self.directory, resident_bytes=0) if self.directory else None


def canonical(row: tuple) -> tuple:
    """The row as a dict can have it for a key."""
    return tuple(
        "NaN" if isinstance(value, float) and math.isnan(value)
        else value.replace(tzinfo=None) if isinstance(value, datetime)
        else value
        for value in row
    )  # fmt: skip


def is_negative_zero(value: Any) -> bool:
    return isinstance(value, float) and value == 0 and math.copysign(1, value) < 0


def as_table(rows: tuple[tuple, ...], schema: pa.Schema, stored: str) -> pa.Table:
    """A table with a column beside the keys, before them."""
    columns: dict[str, pa.Array | pa.ChunkedArray] = {"other": pa.array(range(len(rows)), pa.int64())}
    for place, one in enumerate(schema):
        columns[one.name] = as_column([row[place] for row in rows], one.type, stored)
    return pa.table(columns)


def as_column(values: list, type: pa.DataType, stored: str) -> pa.Array | pa.ChunkedArray:
    if stored == "sliced":
        return pa.array([*values[:1], None, *values, None], type).slice(len(values[:1]) + 1, len(values))
    if stored == "chunked":
        return pa.chunked_array([pa.array([value], type) for value in values], type)
    if stored == "dictionary" and not pa.types.is_null(type):
        return pa.array(values, type).dictionary_encode()
    return pa.array(values, type)


@st.composite
def runs(draw: st.DrawFn) -> tuple[pa.Schema, list[Step]]:
    types = draw(st.lists(st.sampled_from(list(VALUES)), max_size=3))
    rows = st.lists(st.tuples(*(st.none() | VALUES[type] for type in types)), max_size=12).map(tuple)
    step = st.builds(
        Step,
        rows=rows,
        stored=st.sampled_from(["plain", "sliced", "chunked", "dictionary"]),
        restarts=st.booleans(),
        is_dead=st.lists(st.booleans(), max_size=4).map(tuple),
    )
    schema = pa.schema([(f"k{place}", type) for place, type in enumerate(types)])
    return schema, draw(st.lists(step, max_size=6))


@contextmanager
def least_sizes() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(key_index, "FIRST_SLOTS", 1)
        patch.setattr(key_index, "MAX_ROWS_PER_PART", 3)
        yield patch


def few_hashes(n_hashes: int) -> Any:
    """`hash_rows` with so many results."""
    hash_rows = keys.hash_rows
    return lambda arrays: hash_rows(arrays) % np.uint64(n_hashes)


def run(schema: pa.Schema, steps: list[Step], directory: Path | None = None) -> Model:
    model = Model(schema, directory)
    for step in steps:
        model.take(step)
    return model


@given(runs())
def test_ids_are_those_of_a_dict(run_: tuple[pa.Schema, list[Step]]) -> None:
    run(*run_)
    with least_sizes():
        run(*run_)


@pytest.mark.parametrize("n_hashes", [1, 2])
@given(runs())
@example((TEXT_AND_FLOAT, [Step((("a", 0.0), ("b", 0.0), ("a", -0.0), ("c", None), ("b", 0.0), ("a", None)))]))
def test_a_hash_that_keys_share_never_makes_them_equal(n_hashes: int, run_: tuple[pa.Schema, list[Step]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "hash_rows", few_hashes(n_hashes))
        run(*run_)
    with least_sizes() as patch:
        patch.setattr(keys, "hash_rows", few_hashes(n_hashes))
        run(*run_)


@given(runs())
def test_another_process_goes_on_with_the_files(run_: tuple[pa.Schema, list[Step]]) -> None:
    with TemporaryDirectory() as directory, least_sizes():
        run(*run_, directory=Path(directory))


def test_single_words_are_told_apart_without_a_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """And NULL from the value that stands in its place."""
    monkeypatch.setattr(keys, "hash_rows", None)
    run(
        pa.schema([("k", pa.int64())]),
        [Step(((0,), (None,), (5,), (0,))), Step(((None,), (7,)), is_dead=(True, False))],
    )


@pytest.mark.parametrize("schema", [pa.schema([]), pa.schema([("k", pa.null())])], ids=["none", "of NULL"])
def test_without_columns_that_differ_there_is_one_key(schema: pa.Schema) -> None:
    index = KeyIndex(schema)
    batch = pa.table({"k": pa.nulls(100_000)})
    assert index.encode(batch.slice(0, 0)).tolist() == []
    assert index.n_ids == 0
    assert set(index.find(batch).tolist()) == {-1}
    assert index.encode(batch).tolist() == [0] * 100_000
    assert index.n_ids == 1
    assert index.take(np.array([0, 0])).num_rows == 2


@pytest.mark.parametrize("schema", [pa.schema([("k", pa.int64())]), pa.schema([("k", pa.int64()), ("s", pa.string())])])
def test_no_rows_leave_the_index_as_it_was(schema: pa.Schema) -> None:
    index = KeyIndex(schema)
    assert index.encode(schema.empty_table()).tolist() == []
    assert index.find(schema.empty_table()).dtype == np.int64
    assert index.take(np.empty(0, np.int64)).equals(schema.empty_table())
    assert index.compact(np.empty(0, np.bool_)).tolist() == []
    assert index.n_ids == 0


def test_columns_are_taken_by_name_and_in_the_order_of_the_schema() -> None:
    index = KeyIndex(TEXT_AND_FLOAT)
    index.encode(pa.table({"b": [1.5], "x": [9], "a": ["t"]}))
    assert index.take(np.array([0])).to_pydict() == {"a": ["t"], "b": [1.5]}
    assert index.take(np.array([0])).column_names == ["a", "b"]


def test_a_column_may_come_with_longer_offsets() -> None:
    index = KeyIndex(pa.schema([("s", pa.string())]))
    assert index.encode(pa.table({"s": pa.array(["a", "b"], pa.large_string())})).tolist() == [0, 1]
    assert index.take(np.array([1, 0])).equals(pa.table({"s": ["b", "a"]}))


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_all_nans_become_one(type: pa.DataType) -> None:
    """A window's answer must not tell which of two equal rows came first."""
    signed = np.array([-np.nan, np.nan], type.to_pandas_dtype())
    indexes = [KeyIndex(pa.schema([("f", type), ("s", pa.string())])) for _ in signed]
    for index, nan in zip(indexes, signed, strict=True):
        index.encode(pa.table({"f": pa.array([nan], type), "s": ["a"]}))
    buffers = [index.take(np.array([0])).column("f").chunk(0).buffers()[1] for index in indexes]
    taken = [buffer.to_pybytes() for buffer in buffers if buffer is not None]
    bits = signed.view(f"u{signed.itemsize}")
    assert bits[0] != bits[1]
    assert taken[0][: signed.itemsize] == taken[1][: signed.itemsize]


@pytest.mark.parametrize("is_text", [False, True])
def test_many_keys_over_many_batches(is_text: bool) -> None:
    numbers = np.random.default_rng(0).integers(0, 50_000, 200_000)
    column = pa.array(numbers).cast(pa.string()) if is_text else pa.array(numbers)
    table = pa.table({"k": column})
    index = KeyIndex(table.schema)
    ids = np.concatenate([index.encode(table.slice(start, 30_000)) for start in range(0, len(numbers), 30_000)])
    ids_of: dict[int, int] = {}
    assert ids.tolist() == [ids_of.setdefault(number, len(ids_of)) for number in numbers.tolist()]
    assert index.take(ids).equals(table)


def test_room_follows_the_keys_that_stay() -> None:
    table = pa.table({"k": [f"key {number}" for number in range(100_000)]})
    index = KeyIndex(table.schema)
    index.encode(table)
    alive = np.zeros(100_000, np.bool_)
    alive[::1000] = True
    index.compact(alive)
    assert index.n_ids == 100
    assert len(index._slots) == key_index.FIRST_SLOTS
    assert len(index._hashes) == 100
    assert index.take(np.array([99])).to_pydict() == {"k": ["key 99000"]}
    assert index.encode(table.slice(98_999, 2)).tolist() == [100, 99]


@pytest.mark.parametrize("schema", [TEXT_AND_FLOAT, pa.schema([("b", pa.float64())])], ids=["hashed", "exact"])
def test_a_reset_index_begins_anew(schema: pa.Schema) -> None:
    index = KeyIndex(schema)
    table = pa.table({"a": ["x", None], "b": [None, 1.0]}, schema=TEXT_AND_FLOAT)
    index.encode(table)
    index.reset()
    assert index.n_ids == 0
    assert index.find(table).tolist() == [-1, -1]
    assert index.encode(table.slice(1)).tolist() == [0]
    assert index.take(np.array([0])).equals(table.slice(1).select(schema.names))
