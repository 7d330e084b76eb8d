"""Runs the queries of a script on Spark, from files to files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from threading import Lock, get_ident
from typing import TypeAlias

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sash import errors
from sash.errors import ResourceError, SashError
from sash.run import QueryRun, Report, SharedRun, Tally, strict_error
from sash.sources.sink import FileSink
from sash.spark.checkpoint import Checkpoint
from sash.spark.exchange import Message
from sash.spark.frame import count_groups, file_message_frame, write_control
from sash.spark.portable import MISSING_MODULE
from sash.store.batch import BEGINNING


def run_on_spark(
    runs: Sequence[QueryRun | SharedRun],
    spark: SparkSession,
    report: Report,
    files_per_batch: int | None = None,
    is_followed: bool = False,
) -> dict[str, Tally]:
    """Runs all queries side by side until all files have been answered for, or for ever if new ones are followed."""
    running = [RunningQuery(run, spark, report, read_files(spark, files_per_batch)) for run in runs]
    try:
        for query in running:
            query.start()
        if is_followed:
            spark.streams.awaitAnyTermination()
        for query in running:
            query.finish()
    except StreamingQueryException as failure:
        raise next((query.failure for query in running if query.failure), None) or _translate(failure) from None
    finally:
        for query in running:
            query.stop()
    return {name: tally for query in running for name, tally in query.tallies.items()}


MakeMessages: TypeAlias = Callable[[QueryRun | SharedRun, int, Path], DataFrame]
"""The frame of the messages that the groups of a run answer with; the number of groups and the control directory."""
HandOver: TypeAlias = Callable[[str, FileSink, int], None]
"""Called with a query, its sink, and the number of a batch that has been published there."""


def read_files(spark: SparkSession, files_per_batch: int | None) -> MakeMessages:
    """Messages over a run's files, of which a batch takes at most so many of each stream."""

    def make(run: QueryRun | SharedRun, n_groups: int, control: Path) -> DataFrame:
        return file_message_frame(run, spark, n_groups, control, files_per_batch)

    return make


class RunningQuery:
    """One streaming query, of one query or of several that share a join, and what it has done so far."""

    def __init__(
        self,
        run: QueryRun | SharedRun,
        spark: SparkSession,
        report: Report,
        make_messages: MakeMessages,
        hand_over: HandOver | None = None,
    ):
        self.run = _placed(run)
        self.tallies = {each.name: Tally() for each in self.run.members}
        self._spark = spark
        self._report = report
        self._make_messages = make_messages
        self._hand_over = hand_over
        self._checkpoint = Checkpoint(_absolute(self.run.checkpoint))
        self._query: StreamingQuery | None = None
        self._publishing = Lock()
        self._publisher: int | None = None
        """The thread that publishes a batch now."""
        self._is_stopped = False
        self.failure: SashError | None = None
        """What stopped the query, if Sash itself did."""

    def start(self) -> None:
        """Starts or goes on from the checkpoint."""
        n_groups = self._checkpoint.open(self.run, count_groups(self.run.plan, self._spark))
        messages = self._make_messages(self.run, n_groups, self._checkpoint.control)
        writer = messages.writeStream.queryName(self._free_name()).option(
            "checkpointLocation", str(self._checkpoint.spark)
        )
        self._query = writer.foreachBatch(self._publish).start()

    def _free_name(self) -> str:
        """Spark refuses two queries of one name; another session may have one."""
        taken = {query.name for query in self._spark.streams.active}
        names = chain([self.run.name], (f"{self.run.name} ({number})" for number in count(2)))
        return next(name for name in names if name not in taken)

    @property
    def is_publishing_here(self) -> bool:
        """Whether the caller is called while a batch is published: it would wait for itself."""
        return self._publisher == get_ident()

    def process_all_available(self) -> None:
        """Waits until all rows that are there now have been answered for, as far as no others can still come."""
        assert self._query is not None
        try:
            self._query.processAllAvailable()
        except StreamingQueryException as failure:
            raise self.failure or _translate(failure) from None

    def complete(self, stream: str = "", until_us: int | None = None) -> None:
        """Declares a stream, or all, complete up to a time, or up to the newest timestamp seen."""
        write_control(self._checkpoint.control, stream, until_us)

    def finish(self) -> None:
        """Waits until all input has been answered for, up to its last timestamp."""
        self.process_all_available()
        self.complete()
        self.process_all_available()

    def stop(self) -> None:
        """Stops between batches, or in one that is not published: that one runs again when it goes on."""
        with self._publishing:
            self._is_stopped = True
        if self._query is not None:
            self._query.stop()
            self._checkpoint.seal()

    def _publish(self, batch: DataFrame, batch_id: int) -> None:
        """Always runs the batch, also when it was published before: the state must go through it again.

        Files that a reader could not publish stay staged and are cleared by the next batch.
        """
        answers = [Message(*row) for row in batch.collect()]
        with self._publishing:
            if self._is_stopped:
                raise ResourceError("the query was stopped before this batch was published; it runs again")
            self._publisher = get_ident()
            try:
                self._publish_answers(answers, batch_id)
            except SashError as failure:
                self.failure = failure
                raise
            finally:
                self._publisher = None
        self._count(answers)

    def _publish_answers(self, answers: list[Message], batch_id: int) -> None:
        self._check(answers)
        for sink, staged in self._staged(answers):
            sink.publish(batch_id, staged, self.run.filesystem)
        if self._hand_over is not None:
            for each in self.run.members:
                self._hand_over(each.name, each.sink, batch_id)
        self._checkpoint.seal()

    def _staged(self, answers: list[Message]) -> list[tuple[FileSink, list[str]]]:
        """The files of each sink; of a sink for changes also if there are none, as an attempt may have left some."""
        found = {each.sink.path: (each.sink, []) for each in self.run.members}
        for each in answers:
            if each.kind in ("changes", "late", "rejects"):
                for sink in self.run.sinks_of(each.kind, each.stream, each.query):
                    found.setdefault(sink.path, (sink, []))[1].append(each.facts["paths"][sink.path])
        return list(found.values())

    def _check(self, answers: list[Message]) -> None:
        if self.run.is_strict:
            for each in answers:
                if each.kind == "rejects":
                    raise strict_error(each.facts["sample"])

    def _count(self, answers: list[Message]) -> None:
        states = [each.facts for each in answers if each.kind == "state"]
        for name, tally in self.tallies.items():
            for each in answers:
                if each.kind == "arrival":
                    tally.n_read += each.facts["n_read"]
                    tally.n_rejected += each.facts["n_rejected"]
                elif each.kind == "late":
                    tally.add_late(each.stream, each.facts["n_rows"])
                elif each.kind == "changes" and each.query in ("", name):
                    tally.n_changes += each.facts["n_rows"]
            if states:
                tally.add_states(states)
                clock = min(state["clock"] for state in states)
                tally.clock_us = None if clock <= BEGINNING + 1 else clock
                until = [state["partial_until"][name] for state in states if name in state["partial_until"]]
                tally.partial_until_us = max(until, default=tally.partial_until_us)
            tally.n_batches += 1
            self._report(name, tally)


def _placed(run: QueryRun | SharedRun) -> QueryRun | SharedRun:
    """The run with absolute paths: workers have directories of their own."""
    if isinstance(run, SharedRun):
        return replace(run, members=tuple(_placed_query(each) for each in run.members))
    return _placed_query(run)


def _placed_query(run: QueryRun) -> QueryRun:
    return replace(run, sink=FileSink(_absolute(run.sink.path), run.sink.format))


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)


def _translate(failure: StreamingQueryException) -> SashError:
    """The error that a worker raised on purpose, or the gist of what Spark says."""
    text = str(failure)
    raised = re.search(
        r"sash\.errors\.(\w+): (.*?)(?:\n\s*\n|\n\s+at |\n\tat |\nTraceback| SQLSTATE|$)", text, re.DOTALL
    )
    if raised and hasattr(errors, raised[1]):
        kind: Callable[[str], SashError] = getattr(errors, raised[1])
        return kind(raised[2].strip())
    missing = re.search(rf"{MISSING_MODULE}.*", text)
    if missing:
        return ResourceError(missing[0])
    gist = next((line for line in text.split("\n") if "Error" in line or "Exception" in line), text.split("\n")[0])
    return ResourceError(f"Spark stopped the query: {gist.strip()}")
