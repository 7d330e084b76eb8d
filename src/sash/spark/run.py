"""Runs the queries of a script on Spark, from files to files."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sash import errors
from sash.errors import ResourceError, SashError
from sash.run import QueryRun, Report, Tally, strict_error
from sash.sources.sink import FileSink
from sash.spark.checkpoint import Checkpoint
from sash.spark.exchange import Message
from sash.spark.frame import count_groups, file_message_frame, write_control
from sash.spark.portable import MISSING_MODULE
from sash.store.batch import BEGINNING


def run_on_spark(
    runs: Sequence[QueryRun],
    spark: SparkSession,
    report: Report,
    files_per_batch: int | None = None,
    is_followed: bool = False,
) -> dict[str, Tally]:
    """Runs all queries side by side until all files have been answered for, or for ever if new ones are followed."""
    running = [RunningQuery(run, spark, report, files_per_batch) for run in runs]
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
    return {query.run.name: query.tally for query in running}


class RunningQuery:
    """One streaming query and what it has done so far."""

    def __init__(self, run: QueryRun, spark: SparkSession, report: Report, files_per_batch: int | None):
        self.run = replace(run, sink=FileSink(_absolute(run.sink.path), run.sink.format))
        self.tally = Tally()
        self._spark = spark
        self._report = report
        self._files_per_batch = files_per_batch
        self._checkpoint = Checkpoint(self.run.checkpoint)
        self._query: StreamingQuery | None = None
        self.failure: SashError | None = None
        """What stopped the query, if Sash itself did."""

    def start(self) -> None:
        """Starts or goes on from the checkpoint."""
        n_groups = self._checkpoint.open(self.run.plan, count_groups(self.run.plan, self._spark))
        messages = file_message_frame(self.run, self._spark, n_groups, self._checkpoint.control, self._files_per_batch)
        writer = messages.writeStream.queryName(self.run.name).option("checkpointLocation", str(self._checkpoint.spark))
        self._query = writer.foreachBatch(self._publish).start()

    def finish(self) -> None:
        """Waits until all input has been answered for, up to its last timestamp."""
        assert self._query is not None
        try:
            self._query.processAllAvailable()
            write_control(self._checkpoint.control)
            self._query.processAllAvailable()
        except StreamingQueryException as failure:
            raise self.failure or _translate(failure) from None

    def stop(self) -> None:
        if self._query is not None:
            self._query.stop()
            self._checkpoint.seal()

    def _publish(self, batch: DataFrame, batch_id: int) -> None:
        """Always runs the batch, also when it was published before: the state must go through it again.

        Files that a reader could not publish stay staged and are cleared by the next batch.
        """
        answers = [Message(*row) for row in batch.collect()]
        try:
            self._check(answers)
        except SashError as failure:
            self.failure = failure
            raise
        for sink, kinds in self._sinks(answers):
            staged = [each.facts["path"] for each in answers if (each.kind, each.stream) in kinds]
            sink.publish(batch_id, staged, self.run.filesystem)
        self._checkpoint.seal()
        self._count(answers)
        self._report(self.run.name, self.tally)

    def _sinks(self, answers: list[Message]) -> list[tuple[FileSink, set[tuple[str, str]]]]:
        streams = sorted({each.stream for each in answers if each.kind == "late"})
        rejects = {(each.kind, each.stream) for each in answers if each.kind == "rejects"}
        late = [(self.run.late_sink(stream), {("late", stream)}) for stream in streams]
        return [(self.run.sink, {("changes", "")}), *late, *([(self.run.reject_sink, rejects)] if rejects else [])]

    def _check(self, answers: list[Message]) -> None:
        if self.run.is_strict:
            for each in answers:
                if each.kind == "rejects":
                    raise strict_error(each.facts["sample"])

    def _count(self, answers: list[Message]) -> None:
        tally, states = self.tally, [each.facts for each in answers if each.kind == "state"]
        for each in answers:
            if each.kind == "arrival":
                tally.n_read += each.facts["n_read"]
                tally.n_rejected += each.facts["n_rejected"]
            elif each.kind == "late":
                tally.add_late(each.stream, each.facts["n_rows"])
            elif each.kind == "changes":
                tally.n_changes += each.facts["n_rows"]
        if states:
            tally.add_states(states)
            clock = min(state["clock"] for state in states)
            tally.clock_us = None if clock <= BEGINNING + 1 else clock
        tally.n_batches += 1


def _absolute(path: str) -> str:
    """Workers have directories of their own."""
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
