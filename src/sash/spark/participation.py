"""Which outputs go with a checkpoint, and since when: queries that share a join come and go from run to run.

A checkpoint notes every output by its identity: whose it is, from which batch on it has all of them, and after which
its query was dropped. An output belongs to its query also when that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

import pyarrow.fs

from sash.errors import SourceError, mask_secrets
from sash.io.ledger import Ledger
from sash.io.output_dir import CHANGES, REJECTS
from sash.io.places import shown_place
from sash.io.sink import list_batches
from sash.runtime.job import Job, QueryRun
from sash.spark.batch_log import BatchLog
from sash.spark.together import Share

Noted = dict[str, dict[str, Any]]
"""By the identity of an output."""


def join_outputs(job: Job, known: Mapping[str, Any], done: int) -> tuple[Noted, dict[str, Ledger]]:
    """What is to be noted of the outputs of a run that starts after a batch, and what publishes them, by query."""
    active, ledgers = {}, {}
    for each in job.members:
        if each.is_kept:
            ledgers[each.name] = each.open_ledger()
            active[ledgers[each.name].manifest.output] = each
        else:
            each.output.clear_staging()
    noted: Noted = {identity: dict(note) for identity, note in known.items()}
    for identity, note in noted.items():
        if identity not in active and note["until"] is None:
            note["until"] = done
    for identity, each in active.items():
        if identity not in noted or noted[identity]["until"] is not None:
            noted[identity] = {**_owner(each), **_written(each), "from": done + 1, "until": None}
    owners = [_owner(each) for each in active.values()]
    for identity in [*noted]:
        if identity not in active and _never_began(noted[identity]) and _owner_of(noted[identity]) in owners:
            del noted[identity]
    return noted, ledgers


def refuse_others(run: QueryRun, known: Mapping[str, Any], has_checkpoint: bool) -> None:
    """Raises SourceError if a query's output is not its own: it is somebody else's, or another query's."""
    run.output.refuse_foreign()
    _refuse_files_for_batches(run)
    manifest, path = run.output.manifest(), shown_place(run.output.path)
    if manifest is None:
        return
    note = known.get(manifest.output)
    if note is None:
        remedy = "write INTO another directory" if has_checkpoint else "run with --fresh to replace it"
        raise SourceError(
            f"{path} holds the output of another run, so `{run.name}` cannot begin there; {remedy}, or remove it"
        )
    if note["query"] != run.name:
        raise SourceError(
            f"`{run.name}` cannot write to {path}: that is where `{note['query']}` writes; choose another directory"
        )
    if note["plan"] != run.plan.fingerprint:
        raise SourceError(
            f"`{run.name}` cannot write to {path}: that is where an earlier query of this name wrote; choose another "
            f"directory, or go on with the query as it was{_show_difference(note, run)}"
        )
    if manifest.head["format"] != run.sink.format:
        raise SourceError(
            f"{path} holds files of format `{manifest.head['format']}`, but `{run.name}` writes "
            f"`{run.sink.format}` now; go on with that format, or choose another directory"
        )


def describe_change(place: Path, known: Mapping[str, Any], job: Job) -> str:
    """Why a checkpoint is not that of a run: what was written otherwise, the query or what it reads, then and now."""
    remedy = "go on with the query as it was, write INTO another directory, or run with --fresh to start afresh"
    notes = [note for note in known.get("outputs", {}).values() if note["query"] == job.name]
    shown = _show_difference(notes[0], job.members[0]) if notes and len(job.members) == 1 else ""
    return f"{place} belongs to another query, whose state does not fit; {remedy}{shown}"


def share_of(run: QueryRun, known: Mapping[str, Any], log: BatchLog) -> Share:
    """Which batches an output must have, by what a checkpoint has noted of it, or of its query."""
    manifest = run.output.manifest()
    if manifest is not None and manifest.output in known:
        return Share.read(known[manifest.output])
    mine = [note for note in known.values() if _owner_of(note) == _owner(run)]
    return Share.read(mine[-1]) if mine else Share(log.newest_done + 1)


def _refuse_files_for_batches(run: QueryRun) -> None:
    """SourceError if a file stands where a batch of an output has its directory."""
    for place in (CHANGES, REJECTS, *(f"late/{stream}" for stream in run.plan.streams)):
        disk, root = run.output.resolve(run.output.sink(place).path)
        is_directory = {info.path: info.type == pyarrow.fs.FileType.Directory for info in disk.entries(root)}
        for _, path in list_batches(disk, root):
            if not is_directory[path]:
                raise SourceError(
                    f"`{shown_place(path)}` is a file, where a batch has a directory; restore that from a backup, "
                    "or move it away and run with --fresh to start afresh"
                )


def _owner(run: QueryRun) -> dict[str, Any]:
    return {"query": run.name, "plan": run.plan.fingerprint}


def _owner_of(note: Mapping[str, Any]) -> dict[str, Any]:
    return {"query": note["query"], "plan": note["plan"]}


def _never_began(note: Mapping[str, Any]) -> bool:
    """Whether no batch was done while an output took part: a run that ends before that leaves none."""
    return note["until"] is not None and note["until"] < note["from"]


def _written(run: QueryRun) -> dict[str, Any]:
    """A query and the declarations of what it reads, as the user wrote them."""
    return {"text": mask_secrets(run.text), "declarations": [mask_secrets(each) for each in run.declarations]}


def _show_difference(note: Mapping[str, Any], run: QueryRun) -> str:
    """Which statements are not what they were; nothing where nobody wrote any."""
    if not note["text"] or not run.text:
        return ""
    text, read = _written(run).values()
    before, now = [*note.get("declarations", read), note["text"]], [*read, text]
    if before == now:
        return (
            "\n  its text is what it was: it is planned otherwise, as by another version of Sash, or with other costs "
            "(`sash calibrate`)"
        )
    return _show("before", [each for each in before if each not in now] or before) + _show(
        "now", [each for each in now if each not in before] or now
    )


def _show(when: str, statements: Sequence[str]) -> str:
    return "\n".join([f"\n  {when}:", *(indent(each, "    ") for each in statements)])
