"""The cache: who finds a group, what becomes of one that nobody may find, and how it stays within its memory."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.errors import ResourceError
from sash.plan.physical import Plan
from sash.spark import group_cache as sash_group_cache
from sash.spark.exchange import message
from sash.spark.group import Group
from sash.spark.group_cache import KEPT_BATCHES, GroupCache, open_group_cache
from sash.spark.machine_budget import MachineBudget
from sash.store import directory as sash_directory
from sash.store.batch import EXPIRES, OP, TS, int64_column, with_columns
from sash.store.directory import DISK, Directory
from sash.store.vector import NO_LIMIT, Memory, Vector
from sash.testing.case import Case
from support.group_caches import MUCH, names, pack, put_numbers, sorted_changes
from support.window_buffer import WindowBuffer

SECONDS_TO_WAIT = 60


class TestTaking:
    def test_a_group_is_found_as_it_was_put_back(self, make_cache):
        put_numbers(make_cache(), "g", "t0")
        cache = make_cache()
        state, arena = cache.check_out("g", "t0")
        assert state.array.tolist() == list(range(10))
        state.write(10, np.arange(10, 20))
        cache.check_in("g", "t1", state, arena)
        state, _ = make_cache().check_out("g", "t1")
        assert state.array[:20].tolist() == list(range(20))
        assert (cache.moves.n_hits, cache.moves.n_evictions) == (1, 0)

    def test_another_token_finds_nothing(self, make_cache):
        cache = make_cache()
        put_numbers(cache, "g", "t1")
        assert cache.check_out("g", "t0") is None
        assert cache.check_out("other", "t1") is None
        assert cache.check_out("g", "t1") is not None

    def test_a_token_is_good_for_one_worker(self, make_cache):
        put_numbers(make_cache(), "g", "t0")
        first, second = make_cache().check_out("g", "t0"), make_cache().check_out("g", "t0")
        assert first is not None
        assert second is None

    def test_what_a_dead_attempt_had_taken_is_not_found_and_not_in_the_way(self, make_cache):
        put_numbers(make_cache(), "g", "t0")
        assert make_cache().check_out("g", "t0")  # and never put back
        cache = make_cache()
        assert cache.check_out("g", "t0") is None
        put_numbers(cache, "g", "t1")
        assert cache.check_out("g", "t1") is not None

    def test_what_is_out_of_date_is_removed_when_the_group_is_rebuilt(self, make_cache, tmp_path):
        put_numbers(make_cache(), "g", "t0")
        put_numbers(make_cache(), "g1", "t0")
        put_numbers(make_cache(MachineBudget(2, 1)), "h", "t0")
        assert names(tmp_path / "disk") == {"g.t0", "g1.t0", "h.t0"}
        cache = make_cache()
        cache.create("g")
        cache.create("h")
        assert names(tmp_path / "disk") == {"g1.t0"}

    def test_a_budget_of_nothing_keeps_nothing(self, make_cache, tmp_path):
        cache = make_cache(MachineBudget(0, 1))
        put_numbers(cache, "g", "t0")
        assert cache.check_out("g", "t0") is None
        assert names(tmp_path / "memory") == names(tmp_path / "disk") == set()

    def test_what_workers_that_have_died_had_taken_is_removed(self, make_cache, tmp_path):
        """A worker dies with a group at work; when the group is rebuilt, the room is free again."""
        cache = make_cache()
        put_numbers(cache, "g", "t0")
        _, arena = cache.check_out("g", "t0")
        ended = subprocess.Popen(["true"])
        ended.wait()
        left = arena.path.with_name(arena.path.name.replace(str(os.getpid()), str(ended.pid)))
        arena.path.rename(left)
        (left / DISK).symlink_to(tmp_path / "more")
        (tmp_path / "more").mkdir()
        at_work = make_cache().create("other")
        make_cache().create("g")
        assert not left.exists()
        assert not (tmp_path / "more").exists()
        assert at_work.path.exists()


class TestEviction:
    """Each group holds 8 kB and a little."""

    def test_the_least_recently_used_goes_first_and_is_found_on_disk(self, make_cache, tmp_path):
        cache = make_cache(MachineBudget(2 * 20_000, 1))
        for number, group in enumerate("abc"):
            if group == "c":
                a, arena = cache.check_out("a", "t0")
                cache.check_in("a", "t1", a, arena)
                os.utime(tmp_path / "memory" / "a.t1", (10, 10))
            put_numbers(cache, group, "t0", 1000)
            os.utime(next((tmp_path / "memory").glob(f"{group}.*")), (number, number))
        assert names(tmp_path / "disk") == {"b.t0"}
        assert names(tmp_path / "memory") == {"a.t1", "c.t0"}
        assert cache.moves.n_evictions == 1
        state, arena = cache.check_out("b", "t0")
        assert state.array[:1000].tolist() == list(range(1000))
        assert arena.path.parent == tmp_path / "disk"

    def test_a_group_at_work_counts_but_stays(self, make_cache, tmp_path):
        cache = make_cache(MachineBudget(2 * 10_000, 1))
        at_work = cache.create("a")
        numbers = Vector(np.int64, at_work, capacity=1000)
        put_numbers(cache, "b", "t0", 1000)
        assert names(tmp_path / "memory") == {at_work.path.name}
        assert names(tmp_path / "disk") == {"b.t0"}
        cache.check_in("a", "t0", numbers, at_work)
        assert names(tmp_path / "memory") == {"a.t0"}

    def test_one_that_finds_no_room_on_disk_is_given_up(self, make_cache, tmp_path, monkeypatch):
        """It is rebuilt from the state store when it is needed; the batch at hand goes on."""

        def copy(source: Path, target: Path, **_: object) -> None:
            target.mkdir()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("shutil.copytree", copy)
        cache = make_cache(MachineBudget(2, 1))
        put_numbers(cache, "a", "t0")
        assert cache.check_out("a", "t0") is None
        assert names(tmp_path / "memory") == names(tmp_path / "disk") == set()

    def test_one_whose_head_finds_no_room_is_given_up(self, make_cache, tmp_path, monkeypatch):
        def write(self: Path, data: bytes) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(Path, "write_bytes", write)
        cache = make_cache()
        put_numbers(cache, "a", "t0")
        assert cache.check_out("a", "t0") is None
        assert names(tmp_path / "memory") == set()


SCHEMA = pa.schema(
    [("key", pa.int64()), (TS, pa.int64()), (EXPIRES, pa.int64()), (OP, pa.int8()), ("_id.a", pa.int64())]
)


def read_keys(tuples: pa.Table) -> np.ndarray:
    return int64_column(tuples, "key")


def made_tuples(first: int, n_rows: int) -> pa.Table:
    number = np.arange(first, first + n_rows)
    columns = [number * 7 % 100, number, number + 500, np.ones(n_rows, np.int8), number]
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA)], schema=SCHEMA)


def step(buffer: WindowBuffer, number: int) -> list[list[int]]:
    """Inserts 300 tuples, takes some back, probes, forgets; says which pairs the probe has found."""
    first = 300 * number
    tuples, clock = made_tuples(first, 300), first + 299
    buffer.insert(tuples, clock)
    gone = tuples.slice(0, 5)
    gone = with_columns(gone, **{TS: int64_column(gone, TS) + 1})
    retracted = buffer.retract(gone, read_keys(gone))
    ts = int64_column(tuples, TS)
    found = [pairs for chunk in buffer.probe(read_keys(tuples), ts, ts + 1) for pairs in zip(*chunk)]
    pairs = sorted([int(probe), *(int(value[0]) for value in buffer.values(np.array([row])))] for probe, row in found)
    buffer.evict(clock, retracted)
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize(
    "budget",
    [MUCH, MachineBudget(2, 1), MachineBudget(1 << 16, 1)],
    ids=["kept in memory", "evicted every time", "evicted"],
)
def test_a_buffer_in_the_cache_finds_what_one_in_memory_finds(make_cache, budget):
    still = WindowBuffer(SCHEMA, read_keys, 500)
    cache = make_cache(budget)
    arena = cache.create("g")
    moved = WindowBuffer(SCHEMA, read_keys, 500, arena=arena)
    for number in range(12):
        expected = step(still, number)
        assert step(moved, number) == expected
        assert len(expected) > 300
        assert moved.log.take_changes() == still.log.take_changes()
        cache.check_in("g", str(number), moved, arena)
        cache = make_cache(budget)
        moved, arena = cache.check_out("g", str(number))


@pytest.mark.slow
@pytest.mark.parametrize("budget", [MUCH, MachineBudget(2, 1)], ids=["kept in memory", "evicted every time"])
def test_a_group_in_the_cache_answers_like_one_that_never_left_memory(make_cache, budget):
    """Each time it comes back to a pipeline that has not seen it before."""
    rows = pa.table({"ts": range(200), "k": [number % 7 for number in range(200)], "v": range(200)})
    text = "SELECT A.v, B.v AS w FROM a A [PARTITION BY k ROWS 3], a B [RANGE 40 us] WHERE A.k = B.k"
    plan = Plan.alone(Case(text, {"a": sash.stream(rows, "ts", "0 us")}).plan)

    def make() -> Group:
        return Group(plan, plan.fragment_pipeline(0, {}), 0, 0, 1)

    still, moved, cache = make(), make(), make_cache(budget)
    still.reset(Memory())
    arena = cache.create("g")
    moved.reset(arena)
    n_changes = 0
    for number in range(10):
        messages = pack(plan, rows.slice(20 * number, 20))
        if number == 9:
            messages.append(message("complete", {"complete_us": None}, stage=0))
        expected, answers = list(still.step(messages)), list(moved.step(messages))
        assert sorted_changes(answers) == sorted_changes(expected)
        if budget is MUCH:  # with less, a step is worked off in bites
            assert [each.packed() for each in answers] == [each.packed() for each in expected]
            assert (moved.head(), moved.take_changes()) == (still.head(), still.take_changes())
        n_changes += sum(each.n_rows for each in expected if each.kind == "changes")
        cache.check_in("g", str(number), moved.export_live(), arena)
        moved, cache = make(), make_cache(budget)
        state, arena = cache.check_out("g", str(number))
        moved.import_live(state)
    assert n_changes > 500


class TestDirectory:
    def test_a_vector_moves_to_disk_when_there_is_no_room(self, tmp_path, monkeypatch):
        limit_room(monkeypatch, {tmp_path / "memory": 1000})
        arena = make_arena(tmp_path)
        small, grown = Vector(np.int64, arena, capacity=10), Vector(np.int64, arena, capacity=10)
        small.write(0, np.arange(10))
        grown.write(0, np.arange(10))
        grown.write(10, np.arange(10, 500))
        fresh = Vector(np.int64, arena, capacity=300)
        fresh.write(0, np.arange(300))
        assert [vector.array.tolist()[-1] for vector in (small, grown, fresh)] == [9, 499, 299]
        assert len(list((arena.path / DISK).iterdir())) == 2
        assert (arena.path / DISK).resolve().parent == tmp_path / "disk"

    def test_it_is_found_there_by_the_next_worker_and_removed_with_the_rest(self, make_cache, tmp_path, monkeypatch):
        limit_room(monkeypatch, {tmp_path / "memory": 1000})
        put_numbers(make_cache(), "g", "t0", 1000)
        cache = make_cache()
        state, arena = cache.check_out("g", "t0")
        state.write(1000, np.arange(1000, 3000))
        assert state.array[:3000].tolist() == list(range(3000))
        cache.check_in("g", "t1", state, arena)
        assert len(names(tmp_path / "disk")) == 1
        make_cache().create("g")
        assert names(tmp_path / "disk") == set()

    def test_it_survives_the_eviction_of_its_group(self, make_cache, tmp_path, monkeypatch):
        limit_room(monkeypatch, {tmp_path / "memory": 1000})
        cache = make_cache(MachineBudget(2, 1))
        put_numbers(cache, "g", "t0", 1000)
        assert cache.moves.n_evictions == 1
        state, arena = make_cache(MachineBudget(2, 1)).check_out("g", "t0")
        assert arena.path.parent == tmp_path / "disk"
        assert state.array[:1000].tolist() == list(range(1000))

    @pytest.mark.parametrize("n_first", [1, 100], ids=["a vector that is new", "a vector with content"])
    def test_no_room_on_disk_either_is_an_error_that_names_the_place(self, tmp_path, monkeypatch, n_first):
        limit_room(monkeypatch, {tmp_path / "memory": 1000, tmp_path / "disk": 2000})
        numbers = Vector(np.int64, make_arena(tmp_path), capacity=n_first)
        with pytest.raises(ResourceError, match=r"no room for a window in .*/disk/\w+: No space left .*spark\.local"):
            numbers.resize(1000)

    def test_a_disk_too_full_for_what_is_there_already_is_the_same_error(self, tmp_path, monkeypatch):
        limit_room(monkeypatch, {tmp_path / "memory": 1000})
        numbers = Vector(np.int64, make_arena(tmp_path), capacity=100)

        def copy(source: Path, target: Path) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr("shutil.copyfile", copy)
        with pytest.raises(ResourceError, match=r"no room for a window in .*/disk/\w+: No space left"):
            numbers.resize(1000)

    def test_only_so_much_stays_in_memory(self, tmp_path, monkeypatch):
        """Beyond its share a directory asks for small steps and lets go of pages; the content stays."""
        arena = make_arena(tmp_path, 1 << 16)
        assert arena.rows_per_call == NO_LIMIT
        numbers = Vector(np.int64, arena, capacity=1 << 14)
        numbers.write(0, np.arange(1 << 14))
        assert arena.n_mapped_bytes == 8 << 14
        assert arena.rows_per_call == 256
        arena.release_pages()
        assert numbers.array.tolist() == list(range(1 << 14))
        numbers.resize(10)
        assert arena.rows_per_call == NO_LIMIT

    def test_a_buffer_beyond_its_share_takes_small_steps(self, tmp_path, monkeypatch):
        """As many rows between two calls of `release_pages` as `step` allows, and the same answers as in memory."""
        arena, relaxed = make_arena(tmp_path, 1 << 14), []
        relax = Directory.release_pages
        monkeypatch.setattr(
            Directory, "release_pages", lambda self: (relaxed.append(self.rows_per_call), relax(self))[1]
        )
        near, far = WindowBuffer(SCHEMA, read_keys, 500), WindowBuffer(SCHEMA, read_keys, 500, arena=arena)
        for number in range(3):
            relaxed.clear()
            assert step(far, number) == step(near, number)
            assert set(relaxed) == {256}
            assert len(relaxed) >= 2 * 2  # 300 rows are inserted, and probed


def make_arena(tmp_path: Path, resident_bytes: int | None = None) -> Directory:
    (tmp_path / "memory").mkdir()
    return Directory(tmp_path / "memory", tmp_path / "disk", resident_bytes)


class TestMoving:
    """Groups of a query's fragment are named alike but for their number."""

    def test_a_group_that_others_have_left_behind_is_removed(self, make_cache, tmp_path):
        put_numbers(make_cache(MachineBudget(2, 1)), "q-0-2", "t0", batch=0)  # goes to disk
        put_numbers(make_cache(), "q-0-1", "t0", batch=0)
        put_numbers(make_cache(), "q-1-1", "t0", batch=0)
        for batch in range(1, KEPT_BATCHES + 1):
            put_numbers(make_cache(), "q-0-0", str(batch), batch=batch)
        assert "q-0-1.t0" in names(tmp_path / "memory")
        assert names(tmp_path / "disk") == {"q-0-2.t0"}
        put_numbers(make_cache(), "q-0-0", "last", batch=KEPT_BATCHES + 1)
        assert names(tmp_path / "memory") == {"q-0-0.last", "q-1-1.t0"}
        assert names(tmp_path / "disk") == set()

    def test_one_that_comes_back_in_time_stays(self, make_cache, tmp_path):
        put_numbers(make_cache(), "q-0-1", "t0", batch=0)
        state, arena = make_cache().check_out("q-0-1", "t0")
        make_cache().check_in("q-0-1", "t1", state, arena, batch=KEPT_BATCHES)
        put_numbers(make_cache(), "q-0-0", "t0", batch=2 * KEPT_BATCHES)
        assert names(tmp_path / "memory") == {"q-0-0.t0", "q-0-1.t1"}

    def test_every_group_has_its_disk(self, tmp_path):
        disks, nothing = [tmp_path / "one", tmp_path / "other"], MachineBudget(2, 1)
        (tmp_path / "memory").mkdir()
        for number in range(20):
            put_numbers(GroupCache(tmp_path / "memory", disks, nothing), f"q-0-{number}", "t0")
        assert all(len(names(disk)) > 3 for disk in disks)
        for number in range(20):
            assert GroupCache(tmp_path / "memory", disks, MUCH).check_out(f"q-0-{number}", "t0") is not None


def limit_room(monkeypatch: pytest.MonkeyPatch, limits: dict[Path, int]) -> None:
    """Lets no file of these places, or below, grow beyond so many bytes."""
    allocate = sash_directory._allocate

    def limited(path: Path, n_bytes: int) -> None:
        place = path.resolve()
        if any(place.is_relative_to(each) and n_bytes > limit for each, limit in limits.items()):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        allocate(path, n_bytes)

    monkeypatch.setattr(sash_directory, "_allocate", limited)


class TestOwner:
    @pytest.fixture(autouse=True)
    def _memory(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Shared memory of our own. The processes that wait for owners to end are waited for in turn."""
        (tmp_path / "shm").mkdir()
        monkeypatch.setattr(sash_group_cache, "SHARED_MEMORY", tmp_path / "shm")
        waiting: list[subprocess.Popen] = []
        start = subprocess.Popen
        monkeypatch.setattr(
            subprocess, "Popen", lambda *args, **kw: (waiting.append(start(*args, **kw)), waiting[-1])[1]
        )
        yield
        for process in waiting:
            process.wait(SECONDS_TO_WAIT)

    @pytest.fixture
    def owner(self) -> Iterator[subprocess.Popen]:
        with subprocess.Popen(["sleep", "600"]) as process:
            yield process
            process.kill()

    def test_workers_of_one_owner_share_a_cache(self, owner, tmp_path):
        put_numbers(open_group_cache([tmp_path / "local"], owner.pid, MUCH), "g", "t0")
        assert open_group_cache([tmp_path / "other"], owner.pid, MUCH).check_out("g", "t0") is None
        assert open_group_cache([tmp_path / "local"], owner.pid, MUCH).check_out("g", "t0") is not None

    def test_what_owners_that_are_gone_have_left_is_removed(self, owner, tmp_path):
        with subprocess.Popen(["true"]) as ended:
            pass
        left, foreign = tmp_path / "shm" / f"sash-{ended.pid}-0123", tmp_path / "shm" / f"other-{ended.pid}-0123"
        in_use = tmp_path / "shm" / f"sash-{os.getpid()}-0123"
        for path in (left, foreign, in_use):
            (path / "g.t0").mkdir(parents=True)
        open_group_cache([tmp_path / "local"], owner.pid, MUCH)
        assert not left.exists()
        assert foreign.exists()
        assert in_use.exists()

    def test_executors_of_a_machine_share_its_memory(self, owner, tmp_path):
        """Those of one application, as long as they live."""

        def step_bytes(pid: int, application: str = "ours") -> int:
            cache = open_group_cache([tmp_path / f"{pid}"], pid, MachineBudget(1 << 24, 1, application))
            budget = cache.create("g").budget
            assert budget is not None
            return budget.step_bytes

        alone = step_bytes(owner.pid)
        with subprocess.Popen(["sleep", "600"]) as other:
            assert step_bytes(other.pid, "theirs") == alone
            assert step_bytes(other.pid) == step_bytes(owner.pid) == alone // 2
            other.kill()
        assert step_bytes(owner.pid) == alone

    @pytest.mark.slow
    def test_everything_goes_when_the_owner_ends(self, owner, tmp_path):
        put_numbers(open_group_cache([tmp_path / "local"], owner.pid, MUCH), "g", "t0")
        (root,) = (tmp_path / "shm").iterdir()
        owner.kill()
        owner.wait()
        subprocess.run(
            ["sh", "-c", 'while test -e "$0"; do sleep 0.1; done', root], timeout=SECONDS_TO_WAIT, check=True
        )

    def test_without_shared_memory_groups_rest_on_disk(self, owner, tmp_path, monkeypatch):
        monkeypatch.setattr(sash_group_cache, "SHARED_MEMORY", tmp_path / "nowhere")
        cache = open_group_cache([tmp_path / "local"], owner.pid, MachineBudget(2, 1))
        put_numbers(cache, "g", "t0")
        assert cache.moves.n_evictions == 0
        assert names(tmp_path / "local" / "sash") == {"g.t0"}
        assert open_group_cache([tmp_path / "local"], owner.pid, MUCH).check_out("g", "t0") is not None
