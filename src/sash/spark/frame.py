"""A plan as a streaming DataFrame: pack; shuffle by partition group and run the groups, for each fragment; unpack."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sash.errors import BindError, PlanError, ResourceError, suggest
from sash.io.output_dir import REJECTS
from sash.io.sink import FileSink
from sash.plan.least_memory import empty_relations, least_state_bytes
from sash.plan.physical import Plan
from sash.runtime.job import Job
from sash.spark.arrival_log import DIRECTORY
from sash.spark.control import Control, Punctuation
from sash.spark.exchange import MESSAGE_DDL, Packer
from sash.spark.executor_check import SHARED_TEMPORARY, require_executors
from sash.spark.labels import group_labels
from sash.spark.machine_budget import MachineBudget
from sash.spark.mapped_object import map_if_large, remove_other_objects
from sash.spark.metrics import observed_metrics
from sash.spark.output import Writer
from sash.spark.packing import pack_files, pack_frame, pack_punctuation
from sash.spark.place_tables import RELATIONS, PlacedTables, place_tables
from sash.spark.portable import portable, portable_stage
from sash.spark.scratch import make_control_directory, make_relation_directory
from sash.spark.session_settings import MEMORY
from sash.spark.spark_session import read_budget
from sash.spark.stage import Answer, GroupStage
from sash.store.batch import OP
from sash.store.byte_sizes import format_bytes
from sash.store.changes_reading import READING, ChangesReading
from sash.store.codec import decode_table

MakeMessages: TypeAlias = Callable[[Job, int, Control], DataFrame]
"""The frame of the messages that the groups of a run answer with; the number of groups and the control directory."""
GROUPS_PER_PARTITION = 2
CONTROL = "_sash_control"
STREAMS = "_sash_streams"
"""The attributes by which `complete` knows a frame: where to write, and which streams its query reads."""
METRICS = "sash"
"""The name of the observed metrics of a streaming query."""
ANY_AGE = f"{2**63 - 1}ms"
"""For `maxFileAge`: by default Spark ignores files that are a week older than the newest one. What it costs is that
Spark remembers all names, a few hundred bytes each; its log has them all in any case."""
FILE_COLUMNS = "path string, modificationTime timestamp, length long, content binary"


def change_frame(
    plan: Plan,
    streams: Mapping[str, DataFrame],
    relations: Mapping[str, pa.Table],
    late: Mapping[str, str],
    spark: SparkSession,
) -> DataFrame:
    """The changes of a query alone as a streaming DataFrame; `late` are directories for late rows, by stream, and
    beside them those for rejects.
    """
    # Not a stamp that is drawn: a batch that is repeated after a restart has to hear what was said before it.
    n_groups, control = (
        count_groups(plan, spark),
        Control(make_control_directory(), plan.fingerprint),
    )
    require_executors(spark, control.directory, SHARED_TEMPORARY)
    directory = make_relation_directory(control.directory)
    placed = place_tables(plan, relations, read_budget(spark), n_groups, directory)
    packed = [_packed_rows(placed.plan, name, frame, n_groups) for name, frame in streams.items()]
    messages = _group_frame(placed, packed, n_groups, control, directory)
    answers = messages.where("kind IN ('changes', 'late', 'rejects')").select("grp", "kind", "stream", "payload")
    (query,) = plan.queries.values()
    frame = answers.mapInArrow(_unpack(late), spark_schema(query.schema))
    setattr(frame, CONTROL, control)
    setattr(frame, STREAMS, tuple(plan.streams))
    return frame


def file_message_frame(
    job: Job, spark: SparkSession, n_groups: int, control: Control, files_per_batch: int | None
) -> DataFrame:
    """The messages that the groups of a job answer with, over its files."""
    placed = _placed(job, spark, n_groups)
    job = _without_tables(job, placed.plan)
    packed = [_packed_files(job, name, spark, n_groups, files_per_batch) for name in job.plan.streams]
    arrivals = str(Path(job.checkpoint) / DIRECTORY) if job.arrivals else None
    make_answer = partial(Writer, job.without_arrivals())
    return _group_frame(placed, packed, n_groups, control, _beside(job), make_answer, arrivals)


def read_files(spark: SparkSession, files_per_batch: int | None) -> MakeMessages:
    """Messages over a run's files, of which a batch takes at most so many of each stream."""

    def make(job: Job, n_groups: int, control: Control) -> DataFrame:
        return file_message_frame(job, spark, n_groups, control, files_per_batch)

    return make


def row_message_frame(job: Job, streams: Mapping[str, DataFrame], n_groups: int, control: Control) -> DataFrame:
    """The messages that the groups of a job answer with, over a user's frames."""
    placed = _placed(job, next(iter(streams.values())).sparkSession, n_groups)
    job = _without_tables(job, placed.plan)
    packed = [_packed_rows(job.plan, name, streams[name], n_groups) for name in job.plan.streams]
    return _group_frame(placed, packed, n_groups, control, _beside(job), partial(Writer, job))


def _placed(job: Job, spark: SparkSession, n_groups: int) -> PlacedTables:
    return place_tables(job.plan, job.relations, read_budget(spark), n_groups, _beside(job))


def _beside(job: Job) -> Path:
    """Where all workers find what does not travel with tasks."""
    return Path(job.checkpoint) / RELATIONS


def _without_tables(job: Job, plan: Plan) -> Job:
    """The job as those who write its answers need it."""
    return replace(job, plan=plan, members=tuple(replace(each, relations={}) for each in job.members))


def complete(frame: DataFrame, stream: str | None = None, until_us: int | None = None) -> None:
    """Tells the query that runs on a frame of `change_frame` that a stream, or all, is complete up to a time.

    Without a time: up to the newest timestamp seen. Rows that come later and are not newer count as late.
    """
    if not hasattr(frame, CONTROL):
        raise PlanError("only the frame that `sash.sql` returned can be completed; pass that one, not one made from it")
    known = "" if stream is None else known_stream(stream, getattr(frame, STREAMS))
    getattr(frame, CONTROL).say(Punctuation(known, until_us))


def known_stream(stream: str, known: Iterable[str]) -> str:
    """The stream as it is called; raises BindError if there is none: what waits for it would wait for ever."""
    if stream.lower() not in known:
        raise BindError(f"there is no stream `{stream}` to complete; {suggest(stream, known)}")
    return stream.lower()


def count_groups(plan: Plan, spark: SparkSession) -> int:
    """Of a partitioned fragment: more than partitions, so that load spreads; one if no fragment is partitioned."""
    if not any(fragment.is_partitioned for fragment in plan.fragments):
        return 1
    return GROUPS_PER_PARTITION * int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def spark_schema(schema: pa.Schema) -> StructType:
    """The schema of changes in Spark's types. How they are to be read is told by their first own column, as Spark's
    schemas have no metadata, and goes into its Parquet files with it.
    """
    try:
        types, told = from_arrow_schema(schema), ChangesReading.of(schema)
        if told is not None:
            types[OP].metadata = {READING.decode(): told.text}
        return types
    except Exception as error:
        raise PlanError(f"Spark has no type for a column of the answer: {error}; CAST it to one that it has") from None


def _group_frame(
    placed: PlacedTables,
    packed: Sequence[DataFrame],
    n_groups: int,
    control: Control,
    directory: Path,
    make_answer: Callable[[], Answer] | None = None,
    arrivals: str | None = None,
) -> DataFrame:
    spark, plan = packed[0].sparkSession, placed.plan
    reader = spark.readStream.format("binaryFile").schema(FILE_COLUMNS).option("maxFileAge", ANY_AGE)
    said = reader.load(str(control.directory)).select("path", "content")
    punctuations = said.mapInArrow(portable(pack_punctuation(plan, n_groups, control.stamp)), MESSAGE_DDL)
    messages = reduce(DataFrame.unionByName, packed, punctuations)
    budget = read_budget(spark)
    require_shares(plan, budget, n_groups)
    tables = map_if_large(dict(placed.relations), directory)
    mapped = [tables]
    labels = F.lit(group_labels(n_groups, -(-n_groups // GROUPS_PER_PARTITION)))
    for fragment in plan.fragments:
        stage = GroupStage(
            plan,
            tables or dict(placed.relations),
            fragment.number,
            n_groups,
            budget,
            make_answer,
            placed=placed.told,
            arrivals=arrivals,
        )
        grouped = messages.withColumn("label", labels[F.col("grp")]).groupBy("label")
        mapped.append(map_if_large(stage, directory))
        processor = portable_stage(mapped[-1] or stage)
        messages = grouped.transformWithStateInPandas(processor, MESSAGE_DDL, "Append", "None")
    remove_other_objects(directory, filter(None, mapped))
    return messages.observe(METRICS, *observed_metrics(plan))


def require_shares(plan: Plan, budget: MachineBudget, n_groups: int) -> None:
    """Raises ResourceError if a group of some fragment would have less memory than it needs at least."""
    for fragment in plan.fragments:
        n_sharing = fragment.count_groups(n_groups)
        least = least_state_bytes(plan.fragment_pipeline(fragment.number, empty_relations(plan)))
        if budget.share(n_sharing, Path()).state_bytes < least:
            raise ResourceError(
                f"`{MEMORY}` is {format_bytes(budget.n_bytes or 0)}, but the query has {n_sharing} groups, which need "
                f"at least {format_bytes(2 * n_sharing * least)}; raise it"
            )


def _packed_rows(plan: Plan, name: str, frame: DataFrame, n_groups: int) -> DataFrame:
    rows = frame.select(*[F.col(f"`{column}`") for column in plan.columns_read(name)])
    return rows.mapInArrow(portable(pack_frame(Packer(plan, name, n_groups))), MESSAGE_DDL)


def _packed_files(job: Job, name: str, spark: SparkSession, n_groups: int, files_per_batch: int | None) -> DataFrame:
    """Spark keeps track of which files have arrived; the workers read them."""
    reader = spark.readStream.format("binaryFile").schema(FILE_COLUMNS).option("recursiveFileLookup", "true")
    reader = reader.option("maxFileAge", ANY_AGE)
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    source = job.streams[name]
    files = reader.load(source.path).select("path", F.unix_micros("modificationTime").alias("modified_us"))
    files = files.coalesce(max(1, spark.sparkContext.defaultParallelism // len(job.streams)))
    pack = pack_files(Packer(job.plan, name, n_groups), source, job.filesystem)
    return files.mapInArrow(portable(pack), MESSAGE_DDL)


def _unpack(late: Mapping[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: changes become rows; late rows and rejects are written where the user wants them, or only
    counted.
    """

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rejects: dict[str, list[pa.Table]] = {}
        for batch in batches:
            for group, kind, stream, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind == "changes":
                    yield from decode_table(payload).to_batches()
                elif stream in late and kind == "rejects":
                    rejects.setdefault(stream, []).append(decode_table(payload))
                elif stream in late:
                    _write_late(FileSink(late[stream], "parquet"), f"{group:05d}", decode_table(payload))
        for stream, tables in rejects.items():
            _write_rejects(late[stream], tables)

    return unpack


def _write_rejects(late: str, tables: Sequence[pa.Table]) -> None:
    """All that a task has, as one part: what readers rejected comes in messages that have no number."""
    context = TaskContext.get()
    assert context is not None
    sink = FileSink(f"{late.rstrip('/')}.{REJECTS}", "parquet")
    _write_late(sink, f"task-{context.partitionId()}", pa.concat_tables(tables))


def _write_late(sink: FileSink, part: str, rows: pa.Table) -> None:
    """A batch that is repeated writes the same rows under the same name, so that each late row is there once.

    The name has the identity that Spark keeps in the query's checkpoint: another query, or a new checkpoint, may write
    to the same directory.
    """
    context = TaskContext.get()
    assert context is not None
    batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
    query = context.getLocalProperty("sql.streaming.queryId")
    sink.replace_part(batch, f"part-{query}-{part}", rows)
