"""Runs the queries of a script on Spark, from files to files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from itertools import chain, count
from threading import Lock, get_ident
from typing import TypeAlias

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

from sash.errors import ResourceError, SashError
from sash.io.ledger import Ledger
from sash.io.output_dir import CHANGES
from sash.io.sink import FileSink, Part
from sash.runtime.arrival_tables import ArrivalTables
from sash.runtime.job import Job, Report, Tally, strict_error
from sash.spark.answer_tallies import clock_of, count_answers
from sash.spark.arrival_log import ArrivalLog
from sash.spark.checkpoint import Checkpoint
from sash.spark.control import Punctuation
from sash.spark.exchange import Message
from sash.spark.executor_check import SHARED_PATH, require_executors
from sash.spark.failures import is_start_failure, translate
from sash.spark.frame import MakeMessages, count_groups, read_files
from sash.spark.placed_jobs import placed
from sash.spark.query_watch import Watch
from sash.spark.source_log import check_all_read, check_heard, check_present, find_changed, heard_files, refuse_unread
from sash.spark.spark_notes import ArrivalNotes, progress_of

START_ATTEMPTS = 3
"""How often a query is started whose workers do not start in time."""
HandOver: TypeAlias = Callable[[str, FileSink, int], None]
"""Called with a query, its sink, and the number of a batch that has been published there."""


def run_on_spark(
    jobs: Sequence[Job],
    spark: SparkSession,
    report: Report,
    files_per_batch: int | None = None,
    is_followed: bool = False,
    watch: Watch | None = None,
) -> dict[str, Tally]:
    """Runs all queries side by side until all files have been answered for, or for ever if new ones are followed.

    If `watch` says stop, they end after the batch at hand.
    """
    running = [RunningQuery(job, spark, report, read_files(spark, files_per_batch)) for job in jobs]
    watch = watch or Watch()
    try:
        for query in running:
            query.start()
        watch.follow(running) if is_followed else watch.finish(running)
        for query in running:
            query.stop(is_patient=True)
    except Exception as failure:
        raise _blame(running, failure) from None
    finally:
        for query in running:
            query.abandon()
    return {name: tally for query in running for name, tally in query.tallies.items()}


def _blame(running: Sequence[RunningQuery], failure: Exception) -> SashError:
    """What Sash itself has stopped a query for, rather than what Spark makes of it."""
    return next((query.failure for query in running if query.failure), None) or translate(failure)


class RunningQuery:
    """One streaming query, of one query or of several that share a join, and what it has done so far."""

    def __init__(
        self,
        job: Job,
        spark: SparkSession,
        report: Report,
        make_messages: MakeMessages,
        hand_over: HandOver | None = None,
    ):
        self.job = placed(job)
        self.tallies = {each.name: Tally() for each in self.job.members}
        self._spark = spark
        self._report = report
        self._make_messages = make_messages
        self._hand_over = hand_over
        self._checkpoint = Checkpoint(self.job.checkpoint)
        self._arrivals: ArrivalLog | None = None
        """What batches meet of tables that are read as of arrival."""
        self._ledgers: Mapping[str, Ledger] = {}
        """By query whose output is kept, what publishes it."""
        self._notes = ArrivalNotes(self.job.plan.streams)
        self._query: StreamingQuery | None = None
        self._at_hand = Lock()
        """Held while a batch runs."""
        self._publishing = Lock()
        self._publisher: int | None = None
        """The thread that publishes a batch now."""
        self._is_stopped = False
        self._counted = -1
        """The newest batch that is in the tallies."""
        self.failure: SashError | None = None
        """What stopped the query, if Sash itself did."""

    def start(self) -> None:
        """Starts or goes on from the checkpoint. What goes wrong is told as an error of Sash's."""
        self.failure = None
        try:
            self._start()
        except Exception as failure:
            raise translate(failure) from failure

    def _start(self) -> None:
        refuse_unread(self.job)
        self._ledgers = self._checkpoint.open(self.job, count_groups(self.job.plan, self._spark))
        require_executors(self._spark, self._checkpoint.path, SHARED_PATH)
        n_groups = self._checkpoint.n_groups
        if self.job.arrivals:
            tables = ArrivalTables(self.job.arrivals, self.job.plan, is_in_order=False)
            self._arrivals = ArrivalLog(self._checkpoint.path, tables)
        if self._query is None:  # when it goes on in this process, they have been told
            for note in find_changed(self.job, self._checkpoint.spark):
                for tally in self.tallies.values():
                    tally.notes.append(note)
        messages = self._make_messages(self.job, n_groups, self._checkpoint.control)
        writer = messages.writeStream.queryName(self._free_name()).option(
            "checkpointLocation", str(self._checkpoint.spark)
        )
        self._query = writer.foreachBatch(self._publish).start()

    def _free_name(self) -> str:
        """Spark refuses two queries of one name; another session may have one."""
        taken = {query.name for query in self._spark.streams.active}
        names = chain([self.job.name], (f"{self.job.name} ({number})" for number in count(2)))
        return next(name for name in names if name not in taken)

    @property
    def is_publishing_here(self) -> bool:
        """Whether the caller is called while a batch is published: it would wait for itself."""
        return self._publisher == get_ident()

    @property
    def name(self) -> str:
        return self.job.name

    @property
    def n_batches(self) -> int:
        """How many batches were published since the run began."""
        return max(tally.n_batches for tally in self.tallies.values())

    def find_failure(self) -> SashError | None:
        """Why the query has ended, or should; None while it does well."""
        check_present(self.job)
        if self._query is None or self._query.isActive:
            return None
        ended = self._query.exception()
        return self.failure or translate(ended or ResourceError("Spark has ended the query and does not say why"))

    def process_all_available(self) -> None:
        """Waits until all rows that are there now have been answered for, as far as no others can still come."""
        for n_attempts in count(1):
            assert self._query is not None
            try:
                return self._query.processAllAvailable()
            except StreamingQueryException as failure:
                if self.failure or n_attempts == START_ATTEMPTS or not is_start_failure(failure):
                    raise self.failure or translate(failure) from None
            self.start()

    def complete(self, stream: str = "", until_us: int | None = None) -> None:
        """Declares a stream, or all, complete up to a time, or up to the newest timestamp seen."""
        self._checkpoint.control.say(Punctuation(stream, until_us))

    def finish(self) -> None:
        """Waits until all input has been answered for, up to its last timestamp, or until the query is stopped."""
        self.process_all_available()
        check_present(self.job)
        if not self._is_stopped:  # else more is to come
            self.complete()
            self.process_all_available()

    def stop(self, is_patient: bool = False) -> None:
        """Stops between batches, or in one that is not published: that one runs again when it goes on.

        With patience it waits for the end of the batch at hand.
        """
        with self._at_hand if is_patient else nullcontext(), self._publishing:
            self._is_stopped = True
        if self._query is not None:
            self._query.stop()
            self._checkpoint.seal()
            self._checkpoint.control.forget(heard_files(self._checkpoint.spark))

    def abandon(self) -> None:
        """Stops what still runs, however it fares: there is something else to tell of."""
        if not self._is_stopped:
            with suppress(Exception):
                self.stop()

    def _publish(self, batch: DataFrame, batch_id: int) -> None:
        """Always runs the batch, also when it was published before: the state must go through it again.

        Files that a reader could not publish stay staged and are cleared by the next batch.
        """
        with self._at_hand:
            self._run_batch(batch, batch_id)

    def _run_batch(self, batch: DataFrame, batch_id: int) -> None:
        self._refuse_if_stopped()
        versions = self._meet_tables(batch_id)
        answers = [Message(*row) for row in batch.collect()]
        with self._publishing:
            self._refuse_if_stopped()
            self._publisher = get_ident()
            try:
                self._publish_answers(answers, batch_id, versions)
            except SashError as failure:
                self.failure = failure
                raise
            finally:
                self._publisher = None
        self._leave_tables(answers, batch_id)
        if batch_id > self._counted:  # else it runs again, after a restart
            self._counted = batch_id
            self._count(answers)

    def _refuse_if_stopped(self) -> None:
        if self._is_stopped:
            raise ResourceError("the query was stopped before this batch was published; it runs again")

    def _meet_tables(self, batch_id: int) -> dict[str, str]:
        """Records which versions a batch meets of tables that are read as of arrival, before it runs."""
        if self._arrivals is None:
            return {}
        try:
            return self._arrivals.enter(batch_id)
        except SashError as failure:
            self.failure = failure
            raise

    def _leave_tables(self, answers: list[Message], batch_id: int) -> None:
        progress = progress_of(answers).values()
        clocks = [each.facts["clock"] for each in answers if each.kind == "state"]
        if self._arrivals is not None and progress and clocks:
            newest_us = max(max(each["after"]["newest_us"], each["after"]["held_us"]) for each in progress)
            self._arrivals.leave(batch_id, min(clocks), newest_us)

    def _publish_answers(self, answers: list[Message], batch_id: int, versions: Mapping[str, str]) -> None:
        self._check(answers, batch_id)
        staged, input = self._staged(answers), self._checkpoint.log.input_of(batch_id)
        for each in self.job.members:
            if each.is_kept:
                self._ledgers[each.name].publish(batch_id, staged[each.name], input, versions, clock_of(answers))
            else:
                for place in {CHANGES, *staged[each.name]}:
                    each.output.sink(place).publish(batch_id, staged[each.name].get(place, []), each.filesystem)
        if self._hand_over is not None:
            for each in self.job.members:
                self._hand_over(each.name, each.sink, batch_id)
        self._checkpoint.seal()

    def _staged(self, answers: list[Message]) -> dict[str, dict[str, list[Part]]]:
        """The files that workers have written, by query and place."""
        found: dict[str, dict[str, list[Part]]] = {each.name: {} for each in self.job.members}
        for each in answers:
            if each.kind in ("changes", "late", "rejects"):
                parts = each.facts["parts"]
                for run, place in self.job.places_of(each.kind, each.stream, each.query):
                    part = Part(*parts[run.name][place])
                    found[run.name].setdefault(place, []).append(part)
        return found

    def _check(self, answers: list[Message], batch_id: int) -> None:
        check_heard(self._checkpoint.control, self._checkpoint.spark, batch_id)
        if self.job.streams:
            read = (each.facts["path"] for each in answers if each.kind == "arrival")
            check_all_read(self.job, self._checkpoint.spark, batch_id, read)
        if self.job.is_strict:
            for each in answers:
                if each.kind == "rejects":
                    raise strict_error(each.facts["sample"])

    def _count(self, answers: list[Message]) -> None:
        self._notes.see(answers)
        is_first = not self.n_batches
        for name, tally in self.tallies.items():
            count_answers(tally, name, answers, is_first)
            tally.notes = self._notes.notes
            self._report(name, tally)
