"""A plan as a streaming DataFrame: pack, shuffle by partition group, run the groups, unpack."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema

from sash.errors import PlanError
from sash.plan.physical import Plan
from sash.sources.files import FileSource
from sash.spark.exchange import MESSAGE_DDL, Packer
from sash.spark.packing import pack_files, pack_frame, pack_punctuation
from sash.spark.stage import GroupStage
from sash.store.block_log import decode_table

GROUPS_PER_PARTITION = 2
CONTROL = "_sash_control"
FILE_COLUMNS = "path string, modificationTime timestamp, length long, content binary"


def message_frame(
    plan: Plan,
    streams: Mapping[str, DataFrame | FileSource],
    relations: Mapping[str, pa.Table],
    spark: SparkSession,
    control: Path,
    files_per_batch: int | None = None,
) -> DataFrame:
    """The messages that the groups of a plan answer with; the streams are frames or files, the control a directory."""
    n_groups = count_groups(plan, spark)
    packed = spark.readStream.schema("stream string, complete_us long").json(str(control))
    packed = packed.mapInArrow(pack_punctuation(n_groups), MESSAGE_DDL)
    for name, stream in streams.items():
        packer = Packer(plan, name, n_groups)
        if isinstance(stream, FileSource):
            files = _file_frame(spark, stream, files_per_batch)
            packed = packed.unionByName(files.mapInArrow(pack_files(packer, stream), MESSAGE_DDL))
        else:
            rows = stream.select(*[F.col(f"`{column}`") for column in plan.streams[name].schema.names])
            packed = packed.unionByName(rows.mapInArrow(pack_frame(packer), MESSAGE_DDL))
    stage = GroupStage(plan, dict(relations))
    return packed.groupBy("grp").transformWithStateInPandas(stage, MESSAGE_DDL, "Append", "None")


def change_frame(
    plan: Plan, streams: Mapping[str, DataFrame], relations: Mapping[str, pa.Table], spark: SparkSession
) -> DataFrame:
    """The changes of a plan as a streaming DataFrame."""
    control = Path(tempfile.mkdtemp(prefix="sash-control-"))
    messages = message_frame(plan, streams, relations, spark, control)
    late = F.sum(F.when(F.col("kind") == "late", F.col("n_rows")).otherwise(0)).alias("late")
    changes = F.sum(F.when(F.col("kind") == "changes", F.col("n_rows")).otherwise(0)).alias("changes")
    changes_only = messages.observe("sash", changes, late).where("kind = 'changes'").select("payload")
    frame = changes_only.mapInArrow(_unpack, spark_schema(plan))
    setattr(frame, CONTROL, control)
    return frame


def complete(frame: DataFrame, stream: str = "", until_us: int | None = None) -> None:
    """Tells the query that runs on a frame of `change_frame` that a stream, or all, is complete up to a time.

    Without a time: up to the newest timestamp seen. Rows that come later and are not newer count as late.
    """
    if not hasattr(frame, CONTROL):
        raise PlanError("only the frame that `sash.sql` returned can be completed; pass that one, not one made from it")
    write_control(getattr(frame, CONTROL), stream, until_us)


def count_groups(plan: Plan, spark: SparkSession) -> int:
    """More groups than partitions, so that load spreads; one if the plan cannot be cut."""
    if not all(slot.partition for slot in plan.slots):
        return 1
    return GROUPS_PER_PARTITION * int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def spark_schema(plan: Plan):
    """The schema of the changes in Spark's types."""
    try:
        return from_arrow_schema(plan.schema)
    except Exception as error:
        raise PlanError(f"Spark has no type for a column of the answer: {error}; CAST it to one that it has") from None


def write_control(directory: Path, stream: str = "", complete_us: int | None = None) -> None:
    """Says to a running query that a stream (or all) is complete up to a time (or up to the newest timestamp seen)."""
    directory.mkdir(parents=True, exist_ok=True)
    name = f"{uuid.uuid4().hex}.json"
    time = "null" if complete_us is None else complete_us
    (directory / f".{name}").write_text(f'{{"stream": "{stream}", "complete_us": {time}}}\n')
    (directory / f".{name}").rename(directory / name)


def _file_frame(spark: SparkSession, source: FileSource, files_per_batch: int | None) -> DataFrame:
    """The paths of arriving files: Spark keeps track of them, the workers read them."""
    reader = spark.readStream.format("binaryFile").schema(FILE_COLUMNS).option("recursiveFileLookup", "true")
    if files_per_batch is not None:
        reader = reader.option("maxFilesPerTrigger", files_per_batch)
    return reader.load(source.path).select("path", F.unix_micros("modificationTime").alias("modified_us"))


def _unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for payload in batch.column(0):
            yield from decode_table(payload.as_py()).to_batches()
