"""A plan as a streaming DataFrame: pack; shuffle by partition group and run the groups, for each fragment; unpack."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial, reduce
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from sash.errors import PlanError
from sash.plan.physical import Plan
from sash.plan.shared_plan import SharedPlan
from sash.run import QueryRun, SharedRun
from sash.sources.sink import FileSink
from sash.spark.exchange import MESSAGE_DDL, Packer
from sash.spark.labels import group_labels
from sash.spark.metrics import observed_metrics
from sash.spark.output import Writer
from sash.spark.packing import pack_files, pack_frame, pack_punctuation
from sash.spark.portable import portable, portable_stage
from sash.spark.session import read_budget
from sash.spark.stage import Answer, GroupStage
from sash.store.codec import decode_table

GROUPS_PER_PARTITION = 2
CONTROL = "_sash_control"
METRICS = "sash"
"""The name of the observed metrics of a streaming query."""
FILE_COLUMNS = "path string, modificationTime timestamp, length long, content binary"


def change_frame(
    plan: Plan,
    streams: Mapping[str, DataFrame],
    relations: Mapping[str, pa.Table],
    late: Mapping[str, str],
    spark: SparkSession,
) -> DataFrame:
    """The changes of a plan as a streaming DataFrame; `late` are directories for late rows, by stream."""
    n_groups, control = count_groups(plan, spark), Path(tempfile.mkdtemp(prefix="sash-control-"))
    packed = [_packed_rows(plan, name, frame, n_groups) for name, frame in streams.items()]
    messages = _group_frame(plan, packed, relations, n_groups, control)
    answers = messages.where("kind IN ('changes', 'late')").select("grp", "kind", "stream", "payload")
    frame = answers.mapInArrow(_unpack(late), spark_schema(plan))
    setattr(frame, CONTROL, control)
    return frame


def file_message_frame(
    run: QueryRun | SharedRun, spark: SparkSession, n_groups: int, control: Path, files_per_batch: int | None
) -> DataFrame:
    """The messages that the groups of a run answer with, over its files."""
    packed = [_packed_files(run, name, spark, n_groups, files_per_batch) for name in run.plan.streams]
    return _group_frame(run.plan, packed, run.relations, n_groups, control, partial(Writer, run))


def row_message_frame(
    run: QueryRun | SharedRun, streams: Mapping[str, DataFrame], n_groups: int, control: Path
) -> DataFrame:
    """The messages that the groups of a run answer with, over a user's frames."""
    packed = [_packed_rows(run.plan, name, streams[name], n_groups) for name in run.plan.streams]
    return _group_frame(run.plan, packed, run.relations, n_groups, control, partial(Writer, run))


def complete(frame: DataFrame, stream: str = "", until_us: int | None = None) -> None:
    """Tells the query that runs on a frame of `change_frame` that a stream, or all, is complete up to a time.

    Without a time: up to the newest timestamp seen. Rows that come later and are not newer count as late.
    """
    if not hasattr(frame, CONTROL):
        raise PlanError("only the frame that `sash.sql` returned can be completed; pass that one, not one made from it")
    write_control(getattr(frame, CONTROL), stream, until_us)


def count_groups(plan: Plan | SharedPlan, spark: SparkSession) -> int:
    """Of a partitioned fragment: more than partitions, so that load spreads; one if no fragment is partitioned."""
    if not any(fragment.is_partitioned for fragment in plan.fragments):
        return 1
    return GROUPS_PER_PARTITION * int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def spark_schema(plan: Plan) -> StructType:
    """The schema of the changes in Spark's types."""
    try:
        return from_arrow_schema(plan.schema)
    except Exception as error:
        raise PlanError(f"Spark has no type for a column of the answer: {error}; CAST it to one that it has") from None


def write_control(directory: Path, stream: str = "", complete_us: int | None = None) -> None:
    """Says to a running query that a stream (or all) is complete up to a time (or up to the newest timestamp seen)."""
    name = f"{uuid.uuid4().hex}.json"
    time = "null" if complete_us is None else complete_us
    (directory / f".{name}").write_text(f'{{"stream": "{stream}", "complete_us": {time}}}\n')
    (directory / f".{name}").rename(directory / name)


def _group_frame(
    plan: Plan | SharedPlan,
    packed: Sequence[DataFrame],
    relations: Mapping[str, pa.Table],
    n_groups: int,
    control: Path,
    make_answer: Callable[[], Answer] | None = None,
) -> DataFrame:
    spark = packed[0].sparkSession
    said = spark.readStream.schema("stream string, complete_us long").json(str(control))
    punctuations = said.mapInArrow(portable(pack_punctuation(plan, n_groups)), MESSAGE_DDL)
    messages = reduce(DataFrame.unionByName, packed, punctuations)
    budget = read_budget(spark)
    labels = F.lit(group_labels(n_groups, -(-n_groups // GROUPS_PER_PARTITION)))
    for fragment in plan.fragments:
        stage = GroupStage(plan, dict(relations), fragment.number, n_groups, budget, make_answer)
        grouped = messages.withColumn("label", labels[F.col("grp")]).groupBy("label")
        messages = grouped.transformWithStateInPandas(portable_stage(stage), MESSAGE_DDL, "Append", "None")
    return messages.observe(METRICS, *observed_metrics(plan))


def _packed_rows(plan: Plan | SharedPlan, name: str, frame: DataFrame, n_groups: int) -> DataFrame:
    rows = frame.select(*[F.col(f"`{column}`") for column in plan.columns_read(name)])
    return rows.mapInArrow(portable(pack_frame(Packer(plan, name, n_groups))), MESSAGE_DDL)


def _packed_files(
    run: QueryRun | SharedRun, name: str, spark: SparkSession, n_groups: int, files_per_batch: int | None
) -> DataFrame:
    """Spark keeps track of which files have arrived; the workers read them."""
    reader = spark.readStream.format("binaryFile").schema(FILE_COLUMNS).option("recursiveFileLookup", "true")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    source = run.streams[name]
    files = reader.load(source.path).select("path", F.unix_micros("modificationTime").alias("modified_us"))
    files = files.coalesce(max(1, spark.sparkContext.defaultParallelism // len(run.streams)))
    pack = pack_files(Packer(run.plan, name, n_groups), source, run.filesystem)
    return files.mapInArrow(portable(pack), MESSAGE_DDL)


def _unpack(late: Mapping[str, str]) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For `mapInArrow`: changes become rows; late rows are written where the user wants them, or only counted."""

    def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for group, kind, stream, payload in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                if kind == "changes":
                    yield from decode_table(payload).to_batches()
                elif stream in late:
                    _write_late(FileSink(late[stream], "parquet"), f"group-{group}", decode_table(payload))

    return unpack


def _write_late(sink: FileSink, part: str, rows: pa.Table) -> None:
    """A retried task writes the same rows under the same name, so that each late row is there once."""
    context = TaskContext.get()
    assert context is not None
    batch = int(context.getLocalProperty("streaming.sql.batchId") or 0)
    sink.replace_part(batch, part, rows)
