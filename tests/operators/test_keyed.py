"""Keys: dense ids that change when many keys have gone, identities that never do."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from sash.operators.keyed import IDENTITY, MIN_DEAD, Keys, with_identity
from sash.store.directory import Directory
from sash.store.vector import Memory, dump, load

SCHEMA = pa.schema([("k", pa.string())])


def tuples(*keys: str | None) -> pa.Table:
    return pa.table({"k": pa.array(keys, pa.string()), "other": pa.array(range(len(keys)))})


def make(has_identity: bool = True) -> Keys:
    return Keys(SCHEMA, has_identity, Memory())


def test_equal_keys_have_one_id_and_one_identity() -> None:
    keys = make()
    ids = keys.encode(tuples("a", "b", "a", None, None))
    assert (ids[0], ids[3]) == (ids[2], ids[4])
    assert len({*ids.tolist()}) == keys.n_ids == 3
    assert keys.identities(ids).tolist() == [0, 1, 0, 2, 2]
    assert keys.take(ids)["k"].to_pylist() == ["a", "b", "a", None, None]


def test_the_log_knows_identities_and_gives_them_back() -> None:
    keys = make()
    keys.encode(tuples("x", "y"))
    batch = tuples("b", "a", "x")
    logged = keys.identify(batch, keys.encode(batch))
    assert logged.schema == with_identity(batch.schema, True)
    assert logged[IDENTITY].to_pylist() == [2, 3, 0]
    fresh = make()
    ids = fresh.recall(logged.take([2, 0]))
    fresh.next_identity = keys.next_identity
    assert fresh.identities(ids).tolist() == [0, 2]
    assert fresh.identities(fresh.encode(tuples("b", "new"))).tolist() == [2, 4]


def test_without_identities_the_log_is_as_it_was() -> None:
    keys = make(has_identity=False)
    batch = tuples("a", "b")
    assert keys.identify(batch, keys.encode(batch)) is batch
    assert with_identity(batch.schema, False) == batch.schema
    assert keys.next_identity == 0


def test_without_key_columns_there_is_one_key() -> None:
    keys = Keys(pa.schema([]), True, Memory())
    assert keys.n_ids == 1
    for ids in (keys.encode(tuples("a", "b")), keys.recall(tuples("a", "b"))):
        assert ids.tolist() == keys.identities(ids).tolist() == [0, 0]
    assert keys.take(np.zeros(2, np.int64)) == {}
    assert keys.compact(np.zeros(5000, np.bool_)) is None


def test_keys_are_numbered_anew_only_once_most_have_gone() -> None:
    """
    alive      all but the first 1024      all but 1025 of 2050: half and a thousand must be dead
    """
    keys = make()
    n_keys = 2 * MIN_DEAD + 10
    keys.encode(tuples(*(f"{number}" for number in range(n_keys))))
    alive = np.ones(n_keys, np.bool_)
    alive[:MIN_DEAD] = False
    assert keys.compact(alive) is None
    alive[: n_keys // 2] = False
    assert keys.compact(alive) is None
    alive[: n_keys // 2 + 1] = False
    mapping = keys.compact(alive)
    assert mapping is not None
    assert keys.n_ids == n_keys // 2 - 1
    kept = np.flatnonzero(alive)
    assert keys.take(mapping[kept])["k"].to_pylist() == [f"{number}" for number in kept]
    assert keys.identities(mapping[kept]).tolist() == kept.tolist()
    came_back = keys.encode(tuples("0", f"{n_keys - 1}"))
    assert keys.identities(came_back).tolist() == [n_keys, n_keys - 1]


def test_forgotten_keys_get_new_identities_unless_the_log_recalls_them() -> None:
    keys = make()
    logged = keys.identify(tuples("a", "b"), keys.encode(tuples("a", "b")))
    keys.forget()
    assert keys.n_ids == 0
    assert keys.identities(keys.recall(logged.slice(1))).tolist() == [1]
    assert keys.identities(keys.encode(tuples("a", "b"))).tolist() == [2, 1]


@pytest.mark.parametrize("has_identity", [True, False])
def test_another_process_goes_on(has_identity: bool, tmp_path) -> None:
    arena = Directory(tmp_path)
    keys = Keys(SCHEMA, has_identity, arena)
    ids = keys.encode(tuples("a", "b", None))
    other = load(dump(keys, arena), Directory(tmp_path))
    assert other.encode(tuples(None, "c", "a")).tolist() == [ids[2], 3, ids[0]]
    assert other.next_identity == (4 if has_identity else 0)
