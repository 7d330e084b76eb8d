"""Queries that fail, start again, give up, end, or are told to stop; without Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Event

import pytest

from sash.errors import ResourceError, SashError, SourceError
from sash.spark.query_watch import LONGEST_PAUSE_SECONDS, Watch

DIED = ResourceError("a worker died")


@dataclass
class Query:
    """Fails so often as `failures` says, with None where a batch came between."""

    failures: list[SashError | None]
    name: str = "joined"
    n_batches: int = 0
    n_starts: int = 0

    def start(self) -> None:
        self.n_starts += 1

    def finish(self) -> None:
        for failure in self.failures:
            if failure:
                raise failure

    def find_failure(self) -> SashError | None:
        failure = self.failures.pop(0) if self.failures else None
        self.n_batches += failure is None
        return failure


@dataclass
class Waiting:
    """Never waits; says stop after so many looks."""

    n_looks: int = 100
    pauses: list[float] = field(default_factory=list)

    def __call__(self, seconds: float) -> bool:
        if seconds >= 1:
            self.pauses.append(seconds)
        self.n_looks -= 1
        return self.n_looks < 0


def test_a_query_that_is_followed_is_started_again_after_growing_pauses() -> None:
    query, waiting, said = Query([DIED, DIED, DIED]), Waiting(), []
    Watch(waiting, 5, said.append).follow([query])
    assert (query.n_starts, waiting.pauses) == (3, [1, 2, 4])
    assert said[1] == "`joined` failed: a worker died; it is started again in 2 s (2 of 5)"


def test_it_gives_up_after_the_stated_number() -> None:
    query, waiting = Query([DIED] * 9), Waiting()
    with pytest.raises(ResourceError, match="a worker died"):
        Watch(waiting, 2).follow([query])
    assert query.n_starts == 2
    with pytest.raises(ResourceError, match="a worker died"):
        Watch(waiting, 0).follow([Query([DIED])])


def test_it_counts_anew_after_a_batch_and_by_query() -> None:
    often, well = Query([DIED, DIED, None, DIED, DIED, None, DIED, DIED]), Query([DIED, DIED])
    waiting = Waiting()
    Watch(waiting, 2).follow([often, well])
    assert (often.n_starts, well.n_starts) == (6, 2)
    assert sorted(set(waiting.pauses)) == [1, 2]


def test_a_query_that_cannot_even_be_started_is_started_again() -> None:
    """As when the disk of its checkpoint is full; it counts like any other failure."""

    @dataclass
    class Unstartable(Query):
        refusals: list[SashError] = field(default_factory=list)

        def start(self) -> None:
            super().start()
            if self.refusals:
                raise self.refusals.pop(0)

    full, waiting, said = ResourceError("the disk is full"), Waiting(), []
    query = Unstartable([DIED], refusals=[full, full])
    Watch(waiting, 5, said.append).follow([query])
    assert (query.n_starts, waiting.pauses) == (3, [1, 2, 4])
    assert said[2] == "`joined` failed: the disk is full; it is started again in 4 s (3 of 5)"
    query = Unstartable([DIED], refusals=[full] * 9)
    with pytest.raises(ResourceError, match="the disk is full"):
        Watch(Waiting(), 2).follow([query])
    assert query.n_starts == 2
    query = Unstartable([DIED], refusals=[SourceError("a file is broken")])
    with pytest.raises(SourceError, match="a file is broken"):
        Watch(Waiting()).follow([query])
    assert query.n_starts == 1


def test_pauses_do_not_grow_for_ever() -> None:
    waiting = Waiting()
    Watch(waiting, 9).follow([Query([DIED] * 9)])
    assert waiting.pauses[-2:] == [LONGEST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS]


def test_what_a_user_has_to_repair_ends_it_at_once() -> None:
    query = Query([SourceError("a file is broken")])
    with pytest.raises(SourceError, match="a file is broken"):
        Watch(Waiting()).follow([query])
    assert query.n_starts == 0


def test_who_stops_it_need_not_wait_for_the_end_of_a_pause() -> None:
    query = Query([DIED])
    Watch(Waiting(n_looks=1)).follow([query])
    assert query.n_starts == 0


def test_a_run_ends_when_all_have_finished_or_one_has_failed() -> None:
    Watch().finish([Query([]), Query([])])
    with pytest.raises(ResourceError, match="a worker died"):
        Watch().finish([Query([]), Query([DIED])])


def test_a_run_that_is_told_to_stop_does_not_wait_for_its_queries() -> None:
    asked, entered = Event(), Event()

    class Endless(Query):
        def finish(self) -> None:
            entered.set()
            asked.wait()

    def wait(seconds: float) -> bool:
        return entered.wait()

    Watch(wait).finish([Endless([])])
    asked.set()
