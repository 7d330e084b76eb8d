"""The rows of a batch sorted out by a group: in time, late, too far ahead, waiting. And which files to read once more.

Of a file, late rows and those too far ahead are fetched whole elsewhere, which group 0 asks for: a *reread*. Those of a
user's frame are reported by the group, with the columns that the query reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from sash.io.records import REJECT_SCHEMA
from sash.io.timed import reject_rows
from sash.kernels.verdicts import HELD, IN_TIME, TOO_FAR
from sash.operators.changes import read_times
from sash.plan.physical import Plan
from sash.plan.query_plan import Slot
from sash.runtime.lateness import too_far_reason
from sash.spark.exchange import Message, message
from sash.spark.hearing import Hearing, Verdict
from sash.spark.segments import Cutter
from sash.sql.catalog import StreamInfo
from sash.store.batch import TS, concat, conformed, int64_column


class SortedOut:
    """What becomes of the rows of one batch in one group."""

    def __init__(self, plan: Plan):
        self._plan = plan
        self.arrivals: dict[int, list[pa.Table]] = {}
        """By slot, tuples in time."""
        self._waiting: dict[int, list[pa.Table]] = {}
        self._late: dict[str, list[pa.Table]] = {}
        self._rejects: dict[str, list[pa.Table]] = {}

    def take(self, rows: Message, verdict: Verdict) -> None:
        """Sorts out tuples that have come."""
        tuples = rows.table
        ts = int64_column(tuples, TS)
        is_tail = ts == verdict.tail_us if verdict.tail != IN_TIME else np.zeros(len(ts), bool)
        is_late = (ts < verdict.threshold) & ~is_tail
        if is_tail.any():
            self._take_tail(rows.slot, tuples.filter(pa.array(is_tail)), verdict, bool(rows.origin))
        if is_late.any() and not rows.origin and self._is_first(rows.stream, rows.slot):
            late = _as_rows(tuples.filter(pa.array(is_late)), self._plan.slots[rows.slot])
            self._late.setdefault(rows.stream, []).append(late)
        timely = ~(is_tail | is_late)
        tuples = tuples if timely.all() else tuples.filter(pa.array(timely))
        self.arrivals.setdefault(rows.slot, []).append(tuples)

    def take_waiting(self, slot: int, tuples: pa.Table, hearing: Hearing) -> None:
        """Sorts out tuples that waited for this batch."""
        stream = self._plan.slots[slot].source.name
        waited = hearing.waiting[stream]
        if waited.verdict == IN_TIME:
            self.arrivals.setdefault(slot, []).append(conformed(tuples, self._plan.slots[slot].schema))
            return
        # A query that came in the meantime may have brought a column.
        tuples = conformed(tuples, self._plan.slots[slot].schema) if waited.verdict == HELD else tuples
        verdict = Verdict(0, waited.time_us, waited.verdict, waited.base_us)
        self._take_tail(slot, tuples, verdict, is_file=any(place.path for place in waited.places))

    def waiting(self) -> dict[int, pa.Table]:
        """By slot, the tuples that wait now."""
        return {slot: concat(parts) for slot, parts in self._waiting.items()}

    def messages(self, group: int) -> Iterator[Message]:
        """The rows of users' frames that are not in time."""
        for stream, parts in self._late.items():
            yield message("late", concat(parts), group, stream)
        for stream, parts in self._rejects.items():
            yield message("rejects", concat(parts), group, stream)

    def _take_tail(self, slot: int, tuples: pa.Table, verdict: Verdict, is_file: bool) -> None:
        stream = self._plan.slots[slot].source.name
        if verdict.tail == HELD:
            self._waiting.setdefault(slot, []).append(tuples)
        elif not is_file and self._is_first(stream, slot):
            rows, info = _as_rows(tuples, self._plan.slots[slot]), self._plan.streams[stream]
            reason = too_far_reason(info, int(int64_column(tuples, TS)[0]), verdict.base_us)
            lines = np.zeros(rows.num_rows, np.int64)
            self._rejects.setdefault(stream, []).append(reject_rows(rows, stream, lines, [reason] * rows.num_rows))

    def _is_first(self, stream: str, slot: int) -> bool:
        """Whether a slot is the one of its stream that reports for all."""
        return slot == next(each.number for each in self._plan.slots if each.source.name == stream)


def rereads(messages: list[Message], hearing: Hearing) -> Iterator[Message]:
    """Files with rows that are late, or too far ahead, because of files before or after them, which their readers did
    not see.
    """
    wanted: dict[tuple[str, str], dict[str, Any]] = {}

    def want(stream: str, path: str) -> dict[str, Any]:
        return wanted.setdefault((stream, path), {"path": path, "late": [], "too_far": [], "kept": []})

    for each in messages:
        if each.kind != "arrival" or not each.origin:
            continue
        facts, verdict = each.facts, hearing.verdicts[each.stream, each.origin]
        path, number = verdict.place.path, verdict.place.segment
        if verdict.tail == TOO_FAR:
            want(each.stream, path)["too_far"].append((number, verdict.tail_us, verdict.base_us, 0))
        is_rejected = verdict.tail == TOO_FAR and facts["is_doubtful"]
        if facts["oldest_us"] is not None and facts["oldest_us"] < verdict.threshold and not is_rejected:
            want(each.stream, path)["late"].append((number, verdict.threshold))
    for stream, waited in hearing.waiting.items():
        for place in waited.places if waited.verdict == TOO_FAR else ():
            if place.path:
                facts, far = want(stream, place.path), (waited.time_us, waited.base_us)
                if place.kept:
                    facts["kept"] += [(line, text, *far) for line, text in place.kept]
                else:
                    facts["too_far"].append((place.segment, *far, place.n_rows))
    for (stream, _), facts in wanted.items():
        yield message("reread", facts, stream=stream)


def late_rows(rows: pa.Table, info: StreamInfo, facts: dict[str, Any]) -> pa.Table:
    """Of all rows of a file, those that a reread wants for being late, less those that are late within the file."""
    ts, numbers, is_late = _recut(rows, info)
    wanted = np.zeros(len(ts), bool)
    for number, threshold in facts["late"]:
        wanted |= (numbers == number) & (ts < threshold)
    return rows.filter(pa.array(wanted & ~is_late))


def too_far_rows(rows: pa.Table, info: StreamInfo, facts: dict[str, Any]) -> tuple[pa.Table, list[str]]:
    """Of all rows of a file, those that a reread wants for being too far ahead, and the reason of each."""
    ts, numbers, _ = _recut(rows, info)
    parts, reasons = [rows.slice(0, 0)], []
    for number, time_us, base_us, _ in facts["too_far"]:
        found = rows.filter(pa.array((numbers == number) & (ts == time_us)))
        parts.append(found)
        reasons += [too_far_reason(info, time_us, base_us)] * found.num_rows
    return pa.concat_tables(parts), reasons


def kept_rejects(info: StreamInfo, facts: dict[str, Any]) -> pa.Table:
    """Rejects for rows that waited and are too far ahead, from what was kept of them."""
    rejects = [
        (facts["path"], line, too_far_reason(info, time_us, base_us), text)
        for line, text, time_us, base_us in facts["kept"]
    ]
    return _tabulate(rejects)


def lost_rejects(info: StreamInfo, facts: dict[str, Any]) -> pa.Table:
    """Rejects for rows that waited and are too far ahead, of which nothing was kept and whose file is gone."""
    rejects = []
    for _, time_us, base_us, n_rows in facts["too_far"]:
        reason = f"{too_far_reason(info, time_us, base_us)}; the file is gone, and its text is not known"
        rejects += [(facts["path"], 0, reason, "")] * n_rows
    return _tabulate(rejects)


def _tabulate(rejects: list[tuple[str, int, str, str]]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(REJECT_SCHEMA.names, each)) for each in rejects], REJECT_SCHEMA)


def _recut(rows: pa.Table, info: StreamInfo) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times and segments of the rows of a file, and which are late within it."""
    ts = read_times(rows.column(info.time))
    cut = Cutter(info).cut(ts)
    numbers = np.full(len(ts), cut.number) if cut.numbers is None else cut.numbers
    return ts, numbers, np.zeros(len(ts), bool) if cut.is_late is None else cut.is_late


def _as_rows(tuples: pa.Table, slot: Slot) -> pa.Table:
    """The columns of the stream that the query reads, as they were named there, and its time."""
    prefix, info = f"{slot.source.alias}.", slot.info
    own = [name for name in tuples.column_names if name.startswith(prefix)]
    rows = tuples.select(own).rename_columns([name.removeprefix(prefix) for name in own])
    if info.time in rows.column_names:
        return rows
    return rows.append_column(info.time, tuples.column(TS).cast(info.schema.field(info.time).type))
