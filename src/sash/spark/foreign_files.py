"""What stands in Spark's checkpoint and no run has written down: a copy under another number, or a stranger's file.

Spark believes the names of its files. A run takes their hashes after every batch, so only these can be there and not be
known:

    commits/<batch>, offsets/<batch + 1>    of the newest batch, and of the one that was under way
    sources/<n>/<entry>                     as many as were seen since
    state/<op>/<part>/<version>.zip         at any time: a thread of Spark's uploads snapshots when it likes

A file of a log can be held against its number. A snapshot cannot: Spark loads the newest one up to the version that it
goes on from, whatever is in it. But one that is not known is not needed either, as those that are known and the change
logs after them lead to the same state (`required_files.py`): it is removed. So is one beyond that version: it is of a
batch that runs again, maybe over other input, and would be taken for the state after it. Change logs beyond it do no
harm, as Spark writes them anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from sash.errors import SourceError
from sash.spark.batch_log import BatchLog
from sash.spark.required_files import VERSION, newest_number
from sash.spark.source_log import read_log_file

_LOGS = ("offsets/*", "commits/*", "sources/*/*", "state/*/_metadata/v2/*")
_REMEDY = "move it away, restore what belongs there from a backup, or run with --fresh to start afresh"


def refuse_foreign(spark: Path, known: Collection[str]) -> None:
    """SourceError for a file of a log that is not one of `known`, and not what Spark would write under its name."""
    for path, reason in _foreign_logs(spark, known):
        raise SourceError(f"{path} was not written by the runs of this checkpoint: {reason}; {_REMEDY}")


def surplus_snapshots(spark: Path, known: Collection[str]) -> list[Path]:
    """The snapshots that a run must not go on from; `find_missing` has said that it can do without them."""
    version = BatchLog(spark).newest_done + 1
    found = []
    for path in sorted(spark.glob("state/**/*.zip")):
        name = path.relative_to(spark).as_posix()
        named = VERSION.fullmatch(name)
        if named and not (name in known and int(named[2]) <= version):
            found.append(path)
    return found


def _foreign_logs(spark: Path, known: Collection[str]) -> Iterator[tuple[Path, str]]:
    """Files of logs that do not say what their names do, each with the reason."""
    for path in sorted(path for pattern in _LOGS for path in spark.glob(pattern)):
        is_numbered = newest_number(iter([path.name])) >= 0
        if is_numbered and path.relative_to(spark).as_posix() not in known:
            reason = _mistake_in(path)
            if reason:
                yield path, reason
    log = BatchLog(spark)
    newest = spark / "offsets" / str(log.newest_planned)
    if newest.exists() and f"offsets/{newest.name}" not in known and log.goes_back:
        yield newest, "it goes back behind the batch before it"


def _mistake_in(path: Path) -> str | None:
    if not path.is_file():
        return "it is a directory"
    if path.parent.parent.name == "sources":
        try:
            read_log_file(path)
        except ValueError as reason:
            return str(reason)
        return None
    return None if _is_log(path.read_text(errors="replace").splitlines()) else "it is no log of Spark's"


def _is_log(lines: list[str]) -> bool:
    """A version, and lines of JSON; `-` stands for a source that has brought nothing yet."""
    try:
        for line in lines[1:]:
            if line != "-":
                json.loads(line)
    except ValueError:
        return False
    return len(lines) > 1 and re.fullmatch(r"v\d+", lines[0]) is not None
