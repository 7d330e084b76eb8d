"""The share of a group: what it may take of the memory, and what becomes of the rest."""

from __future__ import annotations

import errno
import os
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.errors import ResourceError
from sash.plan.physical import Plan
from sash.spark.frame import require_shares
from sash.spark.group import Group
from sash.spark.group_cache import GroupCache
from sash.spark.machine_budget import MachineBudget
from sash.store.directory import DISK, Directory
from sash.store.memory_budget import LEAST_BYTES
from sash.store.spill_files import SpillFile
from sash.store.vector import Memory, Vector
from sash.testing.case import Case
from support.group_caches import MUCH, names, pack, put_numbers, sorted_changes
from support.memory_peaks import measure_peak


class TestShare:
    """What a group may take of the memory, before it has to seal or to go to disk."""

    def test_groups_at_rest_and_at_work_share_alike(self, make_cache):
        cache = make_cache(MachineBudget(1 << 20, 2))
        shares = []
        for group in "abc":
            shares.append(cache.create(group).budget)
            put_numbers(cache, f"{group}{group}", "t0")
        assert [share.state_bytes for share in shares] == [(1 << 19) // each for each in (1, 3, 5)]
        assert {(share.step_bytes, share.disk_bytes) for share in shares} == {(1 << 17, 1 << 17)}
        _, arena = cache.check_out("aa", "t0")
        assert arena.budget.state_bytes == (1 << 19) // 6

    def test_groups_that_rest_on_disk_take_no_part(self, make_cache, tmp_path):
        for group in "abc":
            put_numbers(make_cache(MachineBudget(2, 1)), group, "t0")
        assert len(names(tmp_path / "disk")) == 3
        cache = make_cache(MachineBudget(1 << 20, 1))
        assert cache.create("d").budget.state_bytes == (1 << 19)

    @pytest.mark.parametrize("n_bytes", [1, 1 << 10], ids=["next to nothing", "little"])
    def test_there_is_room_for_a_row_whatever_the_budget(self, make_cache, n_bytes):
        share = make_cache(MachineBudget(n_bytes, 8)).create("a").budget
        assert (share.state_bytes, share.step_bytes, share.disk_bytes) == tuple(
            LEAST_BYTES // part for part in (2, 4, 4)
        )

    def test_where_nothing_is_kept_a_group_at_work_has_what_it_has_by_default(self):
        nothing, default = (MachineBudget(n_bytes, 2).share(3, Path()) for n_bytes in (0, None))
        assert nothing.state_bytes == default.state_bytes > 1 << 20
        assert nothing.step_bytes == default.step_bytes > 1 << 20

    def test_a_vector_beyond_the_share_is_on_disk_and_comes_back(self, make_cache, tmp_path):
        arena = make_cache(MachineBudget(1 << 15, 1)).create("a")
        first, second = (Vector(np.int64, arena, capacity=1024) for _ in range(2))
        for vector in (first, second):
            vector.write(0, np.arange(1024))
        assert (arena.n_bytes, arena.budget.n_state_bytes) == (1 << 14, 1 << 14)
        second.write(1024, np.arange(1024, 2048))
        assert arena.n_bytes == 1 << 13
        assert len(names(arena.path / DISK)) == 1
        assert second.array[:2048].tolist() == list(range(2048))
        second.drop(1948, 2048)
        assert names(arena.path / DISK) == set()
        assert 1 << 13 < arena.n_bytes < 1 << 14
        assert second.array[:100].tolist() == list(range(1948, 2048))

    def test_what_is_here_counts_for_whoever_takes_the_group(self, make_cache):
        put_numbers(make_cache(), "g", "t0", 1000)
        _, arena = make_cache().check_out("g", "t0")
        assert arena.n_bytes == 8000

    def test_a_group_on_disk_comes_back_when_there_is_room(self, make_cache, tmp_path):
        put_numbers(make_cache(MachineBudget(2, 1)), "g", "t0", 1000)
        assert names(tmp_path / "disk") == {"g.t0"}
        state, arena = make_cache().check_out("g", "t0")
        assert arena.path.parent == tmp_path / "memory"
        assert names(tmp_path / "disk") == set()
        assert state.array[:1000].tolist() == list(range(1000))

    def test_one_that_finds_no_room_in_memory_after_all_stays_on_disk(self, make_cache, tmp_path, monkeypatch):
        put_numbers(make_cache(MachineBudget(2, 1)), "g", "t0", 1000)

        def copy(source: Path, target: Path, **_: object) -> None:
            target.mkdir()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("shutil.copytree", copy)
        state, arena = make_cache().check_out("g", "t0")
        assert arena.path.parent == tmp_path / "disk"
        assert names(tmp_path / "memory") == set()
        assert state.array[:1000].tolist() == list(range(1000))


LONG = MachineBudget(1 << 15, 1)
"""Less than the windows of `JoinedGroup` take, and more than it needs beside them."""


class JoinedGroup:
    """A group with a join, and the same one that never leaves memory; each batch finds pairs with sealed rows."""

    def __init__(self) -> None:
        n_rows = 1200
        self._rows = pa.table({"ts": range(n_rows), "k": [each % 50 for each in range(n_rows)], "v": range(n_rows)})
        text = "SELECT A.v, B.v AS w FROM a A, a B WHERE A.k = B.k WINDOW 400 us"
        self._plan = Plan.alone(Case(text, {"a": sash.stream(self._rows, "ts", "0 us")}).plan)
        self._still = self._make()
        self._still.reset(Memory())
        self._n_batches = 0

    def begin(self, cache: GroupCache, token: str) -> None:
        arena = cache.create("g")
        group = self._make()
        group.reset(arena)
        self._step(cache, group, arena, token)

    def go_on(self, cache: GroupCache, old: str, token: str) -> Directory:
        """Another worker takes the group, and puts it back."""
        found = cache.check_out("g", old)
        assert found is not None
        state, arena = found
        group = self._make()
        group.import_live(state)
        self._step(cache, group, arena, token)
        return arena

    def _make(self) -> Group:
        return Group(self._plan, self._plan.fragment_pipeline(0, {}), 0, 0, 1)

    def _step(self, cache: GroupCache, group: Group, arena: Directory, token: str) -> None:
        messages = pack(self._plan, self._rows.slice(200 * self._n_batches, 200))
        self._n_batches += 1
        found = sorted_changes(list(group.step(messages)))
        assert found == sorted_changes(list(self._still.step(messages)))
        assert len(found) > 200
        cache.check_in("g", token, group.export_live(), arena)


def segments(disk: Path) -> set[str]:
    return {path.name for path in disk.rglob("sash-spill-*")}


class TestSegments:
    """What a group has sealed belongs to it, wherever it is and whoever works on it."""

    @pytest.mark.slow
    def test_other_workers_go_on_with_the_same_segments(self, make_cache, tmp_path):
        group = JoinedGroup()
        group.begin(make_cache(LONG), "0")
        for number in range(4):
            before = segments(tmp_path / "disk")
            arena = group.go_on(make_cache(LONG), str(number), str(number + 1))
            assert before & segments(tmp_path / "disk")
            assert arena.spill_counts.n_bytes_read > 0
            assert arena.spill_counts.n_bytes_written > 0
            assert arena.n_bytes <= LONG.shared_bytes + LEAST_BYTES

    @pytest.mark.slow
    def test_what_no_window_holds_any_more_is_gone(self, make_cache, tmp_path):
        group = JoinedGroup()
        group.begin(make_cache(LONG), "0")
        first = segments(tmp_path / "disk")
        for number in range(5):
            group.go_on(make_cache(LONG), str(number), str(number + 1))
        assert first
        assert not first & segments(tmp_path / "disk")

    @pytest.mark.slow
    def test_they_survive_the_eviction_of_the_group_and_another_budget(self, make_cache, tmp_path):
        """A setting may change while a group rests: its pages stay as long as they were."""
        group = JoinedGroup()
        group.begin(make_cache(LONG), "0")
        first = segments(tmp_path / "disk")
        for number, budget in enumerate([MachineBudget(2, 1), MachineBudget(1 << 22, 1), MachineBudget(2, 1), MUCH]):
            group.go_on(make_cache(budget), str(number), str(number + 1))
            assert bool(list((tmp_path / "disk").glob("g.*"))) == (budget == MachineBudget(2, 1))
            assert number or first & segments(tmp_path / "disk")

    @pytest.mark.slow
    def test_they_go_with_the_group(self, make_cache, tmp_path):
        """It is out of date, or a worker has died with it: in both cases it is built anew, with files of its own."""
        group = JoinedGroup()
        group.begin(make_cache(LONG), "0")
        group.go_on(make_cache(LONG), "0", "1")
        assert segments(tmp_path / "disk")
        make_cache(LONG).create("g")
        assert names(tmp_path / "disk") == set()

    def test_what_an_attempt_has_left_that_failed_after_sealing_goes_with_its_worker(self, make_cache, tmp_path):
        group, cache = JoinedGroup(), make_cache(LONG)
        group.begin(cache, "0")
        _, arena = cache.check_out("g", "0")
        assert segments(tmp_path / "disk")
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        arena.path.rename(arena.path.with_name(arena.path.name.replace(str(os.getpid()), str(ended.pid))))
        make_cache(LONG).create("g")
        assert names(tmp_path / "disk") == set()

    def test_a_worker_that_has_put_a_group_back_cannot_touch_it(self, make_cache, tmp_path):
        group, cache = JoinedGroup(), make_cache(LONG)
        group.begin(cache, "0")
        state, arena = cache.check_out("g", "0")
        cache.check_in("g", "1", state, arena)
        kept = segments(tmp_path / "disk")
        for name in kept:
            arena.spill_files.free(SpillFile(name, 0, np.empty(0, np.uint32)))
        assert segments(tmp_path / "disk") == kept


def test_groups_that_need_more_than_their_share() -> None:
    """Half of the limit is for groups at rest, each of which needs what its fragment does."""
    calls = ", ".join(f"median(v + {number}) AS m{number}" for number in range(12))
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("ts", pa.timestamp("us"))])
    query = sash.query(f"SELECT k, {calls} FROM a A [RANGE 1 HOUR] GROUP BY k", a=schema.empty_table())
    plan = Plan.alone(query.plan)
    needed = r"`spark.sash.memory` is 64 KiB, but the query has 16 groups, which need at least \d+ KiB; raise it"
    with pytest.raises(ResourceError, match=needed):
        require_shares(plan, MachineBudget(1 << 16, 2), 16)
    for n_bytes in (1 << 20, None, 0):
        require_shares(plan, MachineBudget(n_bytes, 2), 16)


@pytest.mark.deep
@pytest.mark.timeout(14_400)
def test_memory_of_all_workers_stays_within_the_limit(tmp_path: Path) -> None:
    """Windows of twenty times the limit; 150 MiB are for Python and its libraries."""
    memory = 256 << 20
    found = measure_peak(memory, 20 * memory, tmp_path, "spark")
    assert found.is_exact
    assert found.above_idle <= memory + (150 << 20)
