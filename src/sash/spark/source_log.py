"""Which files Spark has taken into a batch, and that each of them was read.

Spark lists the files of a batch twice: when it takes note of them, and when it reads them. One that is gone or empty by
then is left out without a word, and is never looked at again. So the driver compares Spark's own log, before a batch is
published, with what the readers tell. A batch that is refused runs again, and reads what is there then.

    offsets/<batch>      for each source, up to which entry of its log the batch goes
    sources/<n>/<entry>  the files of an entry; `<entry>.compact` has those of all entries before it, too
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import pyarrow.fs

from sash.errors import SourceError
from sash.io.damaged_files import damaged
from sash.io.files import FileSource, StreamFile, is_visible, list_files, read_file, resolve_path
from sash.io.places import shown_place, split_glob
from sash.io.removal import join_names
from sash.runtime.job import Job
from sash.spark.batch_log import BatchLog
from sash.spark.control import Control
from sash.spark.required_files import newest_number

FIRST_STREAM = 1
"""Source 0 is the control directory, the others are the streams of the plan in their order."""
SPARK_SINK_LOG = "_spark_metadata"
_HADOOP_GLOB = re.compile(r"[*?\[\]{}\\]")


def local_path(path: str) -> str:
    """Spark writes local paths as `file:/path`; paths on other file systems stay the URIs that they are."""
    return re.sub(r"^file:(//)?(?=/)", "", path)


def refuse_unread(job: Job) -> None:
    """SourceError for a stream of which Spark would not read all files."""
    for source in job.streams.values():
        system, path = resolve_path(source.path, job.filesystem)
        if os.path.basename(path).startswith((".", "_")) and system.get_file_info(path).is_file:
            raise SourceError(f"`{path}`: Spark reads no file whose name starts with `.` or `_`; rename it")
        if _HADOOP_GLOB.search(path) and system.get_file_info(path).type != pyarrow.fs.FileType.NotFound:
            raise SourceError(
                f"`{path}` is there, but Spark would take its name for a pattern, and read other files or none; "
                "rename it, without any of *?[]{}\\"
            )
        log = f"{path.rstrip('/')}/{SPARK_SINK_LOG}"
        if system.get_file_info(log).type != pyarrow.fs.FileType.NotFound:
            raise SourceError(
                f"`{log}` says that Spark's own file sink wrote the directory: Spark would read the files that are "
                "named there and no others; to read all of them declare the stream "
                f"FROM '{shown_place(source.path)}/*.*'"
            )


def check_present(job: Job) -> None:
    """SourceError if the directory of a stream has gone: Spark takes that for one without files."""
    for name, source in job.streams.items():
        system, path = resolve_path(source.path, job.filesystem)
        if not split_glob(path)[1] and system.get_file_info(path).type == pyarrow.fs.FileType.NotFound:
            place = shown_place(source.path)
            raise SourceError(f"`{place}`, where stream `{name}` comes from, is gone; put it back, and run again")


def check_all_read(job: Job, spark: Path, batch_id: int, read: Iterable[str]) -> None:
    """SourceError unless `read` has all files that Spark has taken into a batch; one without content has no reader."""
    seen = set(read)
    for number, (_, source) in enumerate(_numbered(job), FIRST_STREAM):
        for path in batch_files(spark, batch_id, number):
            if path not in seen and is_visible(source, path, job.filesystem):
                _check_empty(source, path, batch_id, job.filesystem)


def check_heard(control: Control, spark: Path, batch_id: int) -> None:
    """SourceError if a control file of the run's own was taken into a batch and is gone: the batch has not heard it."""
    for path in batch_files(spark, batch_id, 0):
        if control.is_own(path) and not Path(path).exists():
            raise SourceError(
                f"control file `{path}` was taken into batch {batch_id} and is gone; restore it from a backup, "
                f"or remove {spark.parent} to start afresh"
            )


def heard_files(spark: Path) -> list[str]:
    """The control files of all committed batches but the newest, which runs again if its commit gets lost."""
    last = _entry(spark, BatchLog(spark).newest_done - 1, 0)
    logs = [path for path in (spark / "sources" / "0").glob("*") if newest_number(iter([path.name])) >= 0]
    said = (each for path in logs for each in _read(path))
    return [unquote(local_path(each["path"])) for each in said if each["batchId"] <= last]


def find_changed(job: Job, spark: Path) -> Iterator[str]:
    """What to tell of local files that were changed after a batch was done with them: Spark knows them by name.

    It notes when each was last changed, in milliseconds, or in seconds where the file system has no more.
    """
    done = BatchLog(spark).newest_done
    for number, (name, source) in enumerate(_numbered(job), FIRST_STREAM):
        known = _times(spark, number, _entry(spark, done, number))
        changed = [each.path for each in _listed(job, source) if _is_newer(each.modified_us, known.get(each.path))]
        if changed:
            yield (
                f"changed since stream `{name}` was read, and not read again: {join_names(changed)}; give each of them "
                "another name, with only the rows that are new"
            )


def batch_files(spark: Path, batch_id: int, number: int) -> list[str]:
    """The files of a batch of one source, as Spark's checkpoint names them."""
    first, last = _entry(spark, batch_id - 1, number) + 1, _entry(spark, batch_id, number)
    found: list[str] = []
    for entry in range(first, last + 1):
        found += [unquote(local_path(each["path"])) for each in _log(spark, number, entry) if each["batchId"] == entry]
    return found


def read_log_file(path: Path) -> list[dict]:
    """What a file of a source's log says of each file; ValueError with the reason if it is not the entry of its name.

    A copy of entry 3 as entry 4 would have Spark read the files of 3 twice.
    """
    number = newest_number(iter([path.name]))
    try:
        version, *lines = path.read_text().splitlines()
        said = [json.loads(line) for line in lines]
        entries = {int(each["batchId"]) for each in said} or {number}
    except (OSError, ValueError, TypeError, KeyError):
        raise ValueError("it is no log of files") from None
    if version != "v1" or (len(entries) > 1 and not path.name.endswith(".compact")):
        raise ValueError("it is no log of files")
    if max(entries) != number:
        raise ValueError(f"it holds entry {max(entries)} of the log")
    return said


def _numbered(job: Job) -> Iterator[tuple[str, FileSource]]:
    """The streams in the order in which Spark numbers them."""
    return ((name, job.streams[name]) for name in job.plan.streams if name in job.streams)


def _listed(job: Job, source: FileSource) -> Sequence[StreamFile]:
    is_local = job.filesystem is None and "://" not in source.path
    return list_files(source) if is_local else ()


def _times(spark: Path, number: int, last: int) -> dict[str, int]:
    """When files up to an entry of a source's log were last changed before they were taken, by path."""
    said = (each for path in (spark / "sources" / str(number)).glob("[0-9]*") for each in _read(path))
    return {unquote(local_path(each["path"])): each["timestamp"] for each in said if each["batchId"] <= last}


def _is_newer(modified_us: int, known_ms: int | None) -> bool:
    if known_ms is None:
        return False
    return modified_us // 1_000_000 * 1000 != known_ms if known_ms % 1000 == 0 else modified_us // 1000 != known_ms


def _check_empty(source: FileSource, path: str, batch_id: int, filesystem: pyarrow.fs.FileSystem | None) -> None:
    system, _ = resolve_path(source.path, filesystem)
    info = system.get_file_info(path)
    if info.type == pyarrow.fs.FileType.NotFound:
        raise SourceError(
            f"file `{path}` was taken into batch {batch_id} and is gone; put it back under this name, repaired if it "
            "could not be read; to go on without it put a file without rows there, and give its rows another name"
        )
    if info.size:
        raise SourceError(
            f"file `{path}` was empty when batch {batch_id} began and is not now; run again, and let files appear "
            "whole: write them under a name that starts with `.` and rename them"
        )
    for _ in read_file(source, path, filesystem):
        pass


def _entry(spark: Path, batch_id: int, number: int) -> int:
    """Up to which entry of a source's log a batch goes; -1 before the first."""
    if batch_id < 0:
        return -1
    _version, _metadata, *offsets = (spark / "offsets" / str(batch_id)).read_text().splitlines()
    return -1 if offsets[number] == "-" else int(json.loads(offsets[number])["logOffset"])


def _log(spark: Path, number: int, entry: int) -> list[dict]:
    """What the file says that has an entry; Spark may have gathered it with later ones, and removed it."""
    directory = spark / "sources" / str(number)
    compact = sorted(int(path.stem) for path in directory.glob("*.compact") if path.stem.isdecimal())
    names = [str(entry), *(f"{each}.compact" for each in compact if each >= entry)]
    path = next((directory / name for name in names if (directory / name).exists()), directory / names[0])
    return _read(path)


def _read(path: Path) -> list[dict]:
    try:
        return read_log_file(path)
    except ValueError as reason:
        raise damaged(path, str(reason)) from None
