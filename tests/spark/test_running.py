"""One streaming query as Sash drives it: how it starts again, stops and counts; with a query that is not Spark's."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import StreamingQueryException

from sash.errors import ResourceError, SourceError
from sash.runtime.job import Job
from sash.spark.spark_run import START_ATTEMPTS, RunningQuery

LATE = "Job aborted: org.apache.spark.SparkException: Python worker failed to connect back."


class Query:
    """Fails when it is waited for, or does what it is told meanwhile."""

    isActive = True  # noqa: N815

    def __init__(self, failure: str = "", meanwhile: Any = lambda: None):
        self._failure = failure
        self._meanwhile = meanwhile

    def processAllAvailable(self) -> None:
        self._meanwhile()
        if self._failure:
            raise StreamingQueryException(self._failure)

    def stop(self) -> None:
        pass


class Driven(RunningQuery):
    """Starts these queries one after the other, and takes note of what is said to them."""

    def __init__(self, folder, *queries: Query):
        folder.write("a", ["1,x,1"])
        folder.write("b", ["1,x,1"])
        super().__init__(Job.alone(folder.run("out")), cast(Any, None), lambda name, tally: None, cast(Any, None))
        self.to_start = list(queries)
        self.said: list[tuple[str, int | None]] = []
        self.start()

    def start(self) -> None:
        self._query = cast(Any, self.to_start.pop(0))

    def stop(self, is_patient: bool = False) -> None:
        self._is_stopped = True

    def complete(self, stream: str = "", until_us: int | None = None) -> None:
        self.said.append((stream, until_us))


def test_workers_that_do_not_start_in_time_are_started_again(folder):
    query = Driven(folder, Query(LATE), Query(LATE), Query(), Query())
    query.process_all_available()
    assert len(query.to_start) == 1


def test_but_not_for_ever(folder):
    query = Driven(folder, *(Query(LATE) for _ in range(START_ATTEMPTS + 1)))
    with pytest.raises(ResourceError, match="did not start within ten seconds, as the machine is busy; run the same c"):
        query.process_all_available()
    assert len(query.to_start) == 1


def test_what_else_fails_is_told_at_once(folder):
    query = Driven(folder, Query("java.lang.OutOfMemoryError: Java heap space"), Query())
    with pytest.raises(ResourceError, match="ran out of memory"):
        query.process_all_available()
    query = Driven(folder, Query(LATE), Query())
    query.failure = SourceError("a file is gone")
    with pytest.raises(SourceError, match="a file is gone"):
        query.process_all_available()


def test_input_is_complete_at_the_end_but_not_if_the_run_was_stopped(folder):
    """Else the files that were not read yet would be late."""
    query = Driven(folder, Query())
    query.finish()
    assert query.said == [("", None)]
    stopped = Driven(folder, Query(meanwhile=lambda: stopped.stop()))
    stopped.finish()
    assert stopped.said == []


def test_a_directory_that_has_gone_is_told(folder):
    """Spark takes it for one without files."""
    query = Driven(folder, Query())
    assert query.find_failure() is None
    (folder.root / "b").rename(folder.root / "c")
    with pytest.raises(SourceError, match=r"`.*/b`, where stream `b` comes from, is gone; put it back, and run again"):
        query.find_failure()
    with pytest.raises(SourceError, match="is gone"):
        query.finish()
    assert query.said == []


class Batch:
    def collect(self) -> list:
        return []


def test_a_batch_that_runs_again_after_a_restart_is_counted_once(folder, monkeypatch):
    query = Driven(folder, Query())
    monkeypatch.setattr(query, "_publish_answers", lambda answers, batch_id, versions: None)
    for batch_id in (0, 1, 1, 2):
        query._publish(cast(Any, Batch()), batch_id)
    assert query.n_batches == 3


def test_a_batch_that_comes_after_the_stop_is_refused(folder):
    query = Driven(folder, Query())
    query.stop()
    with pytest.raises(ResourceError, match="was stopped before this batch was published; it runs again"):
        query._publish(cast(Any, Batch()), 0)
