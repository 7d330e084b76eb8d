"""Which files of Spark's checkpoint a run needs to go on: what is missing is told before Spark makes up for it.

Spark reads what is there. Without its newest commit it repeats a batch, without an entry of a source's log it reads
files twice, and without a file of state it fails in the middle of a batch.

    metadata                     the query's identity
    commits/<batch>              the newest
    offsets/<batch>              that of the newest commit, the one before it, and what was planned after it
    sources/<n>/<entry>          since the newest `<entry>.compact`
    state/<op>/<part>/…          the newest snapshot, the files that it names, and every change log after it
    state/<op>/_metadata/…       the newest of each directory of numbered files
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path, PurePosixPath

from sash.spark.batch_log import BatchLog

VERSION = re.compile(r"(state/.*)/(\d+)(?:_[^/]*)?\.(changelog|zip)")
"""The name of a file with a version of the state: its store, the number, and the kind."""


def find_missing(spark: Path, known: Collection[str]) -> Path | None:
    """The first file that was there, or must have been, and is needed and gone; `known` are the names once seen."""
    log = BatchLog(spark)
    needed = (*_needed_logs(known), *_needed_state(spark, known, log.newest_done + 1))
    gone = (spark / name for name in needed if not (spark / name).exists())
    return next(chain(log.gaps(), gone), None)


def newest_number(names: Iterator[str]) -> int:
    """The largest number that a name begins with; -1 if none does."""
    numbers = (re.match(r"\d+(?=$|[._])", name) for name in names)
    return max((int(number[0]) for number in numbers if number), default=-1)


def snapshot_parts(snapshot: Path) -> tuple[str, ...]:
    """The files of RocksDB that a snapshot (`<version>.zip`) names, relative to its directory."""
    with zipfile.ZipFile(snapshot) as archive:
        facts = json.loads(archive.read("metadata").partition(b"\n")[2])
    tables = [f"SSTs/{each['dfsSstFileName']}" for each in facts.get("sstFiles", ())]
    return (*tables, *(f"logs/{each['dfsLogFileName']}" for each in facts.get("logFiles", ())))


def _needed_logs(known: Collection[str]) -> Iterator[str]:
    if "metadata" in known:
        yield "metadata"
    newest = newest_number(name.removeprefix("commits/") for name in known if name.startswith("commits/"))
    if newest >= 0:
        yield f"commits/{newest}"
    for directory, names in sorted(_by_directory(known).items()):
        if directory == "offsets":
            yield from (f"offsets/{name}" for name in sorted(names) if newest_number(iter([name])) >= newest - 1)
        elif directory.startswith("sources/"):
            first = newest_number(name for name in names if name.endswith(".compact"))
            yield from (f"{directory}/{name}" for name in sorted(names) if newest_number(iter([name])) >= first)
        elif re.fullmatch(r"state/\d+/_.*", directory):
            yield f"{directory}/{max(names, key=lambda name: newest_number(iter([name])))}"


def _by_directory(known: Collection[str]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in known:
        path = PurePosixPath(name)
        found.setdefault(str(path.parent), []).append(path.name)
    return found


def _needed_state(spark: Path, known: Collection[str], version: int) -> Iterator[str]:
    """What leads to a version of the state, in every store of which a file is known or there.

    Of snapshots only those that are known: of another one nobody can say whether it has the state of its version.
    """
    there = [path.relative_to(spark).as_posix() for path in spark.glob("state/**/*")]
    stores = {found[1] for found in map(VERSION.fullmatch, (*known, *there)) if found}
    for store in sorted(stores) if version else ():
        present = _versions(name for name in there if name.startswith(f"{store}/"))
        noted = _versions(name for name in known if name.startswith(f"{store}/"))
        snapshots = {number: name for (number, kind), name in noted.items() if kind == "zip"}
        newest = max((number for number in snapshots if number <= version), default=0)
        if newest:
            yield snapshots[newest]
            yield from (f"{store}/{part}" for part in _parts(spark / snapshots[newest]))
        for number in range(newest + 1, version + 1):
            yield (noted | present).get((number, "changelog"), f"{store}/{number}.changelog")


def _versions(names: Iterator[str]) -> dict[tuple[int, str], str]:
    return {(int(found[2]), found[3]): found[0] for found in map(VERSION.fullmatch, names) if found}


def _parts(snapshot: Path) -> tuple[str, ...]:
    """Nothing if the snapshot cannot be read: its hash tells of that."""
    try:
        return snapshot_parts(snapshot)
    except (OSError, zipfile.BadZipFile, KeyError, ValueError):
        return ()
