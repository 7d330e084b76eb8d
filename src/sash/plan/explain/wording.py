"""How EXPLAIN words what stands in a plan: lengths of time, windows, and SQL as the user would write it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from sash.operators.project import ProjectSpec
from sash.sql.durations import format_duration
from sash.sql.quoted_names import QuotedName, rewrite_names
from sash.sql.window_kinds import CalendarWindow, HopWindow, RowsWindow, SessionWindow, SinceWindow, TimeWindow, Window
from sash.store.batch import EXPIRES, ID_PREFIX

_NAME = re.compile(r"[A-Za-z_][\w.]*")


def format_window(window: Window | None) -> str:
    """What a window holds."""
    match window:
        case TimeWindow(length_us, None):
            return "the present instant" if length_us == 1 else f"the last {format_duration(length_us)}"
        case TimeWindow(length_us, int(slide_us)):
            return f"the last {format_duration(length_us)}, moving every {format_duration(slide_us)}"
        case HopWindow(length_us, hop_us, offset_us):
            every = f"one every {format_duration(hop_us)}" if hop_us != length_us else "one after the other"
            shift = f", {format_duration(offset_us)} later than from 1970 on" if offset_us else ""
            return f"windows of {format_duration(length_us)}, {every}{shift}; a row is in each until its end"
        case CalendarWindow(unit, count, zone):
            length = f"a {unit}" if count == 1 else f"{count} {unit}s"
            return f"windows of {length} in {zone}, one after the other; a row is in each until its end"
        case SessionWindow(gap_us, by):
            each = f" for each {', '.join(by)}" if by else ""
            return f"sessions{each}, which end when no row has come for {format_duration(gap_us)}"
        case RowsWindow(n_rows, by):
            return f"the last {n_rows} rows" + (f" for each {', '.join(by)}" if by else "")
        case SinceWindow(since_us):
            return f"everything since {_format_instant(since_us)}"
        case _:
            return "everything"


def plain(sql: str | None, meanings: Mapping[str, str] | None = None) -> str:
    """SQL as the user would write it: `A.value` for the quoted name under which it travels, no outer brackets.

    Names that have a meaning, such as `_agg.10`, are written as that: in brackets, unless it is a name or a call.
    """
    written = sql or ""
    text = rewrite_names(written, lambda found: _write_name(found, written, meanings or {}))
    while _is_bracketed(text):
        text = text[1:-1]
    return text


def is_last_word(spec: ProjectSpec) -> bool:
    """Whether it passes on what is final."""
    return EXPIRES in dict(spec.columns)


def computed(project: ProjectSpec) -> str:
    """The columns that a projection makes."""
    items = [(name, plain(sql)) for name, sql in project.columns if not name.startswith(ID_PREFIX)]
    return ", ".join(f"{sql} AS {name}" if sql != name else name for name, sql in items)


def _format_instant(us: int) -> str:
    return str((datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=us)).replace(tzinfo=None))


def _write_name(found: QuotedName, sql: str, meanings: Mapping[str, str]) -> str:
    if found.name not in meanings:
        return found.name if _NAME.fullmatch(found.name) else sql[found.start : found.stop]
    meaning = meanings[found.name]
    is_enclosed = sql[found.start - 1 : found.start] == "(" and sql[found.stop : found.stop + 1] == ")"
    return meaning if is_enclosed or _stands_alone(meaning) else f"({meaning})"


def _stands_alone(sql: str) -> bool:
    """Whether it is a name or a call, so that nothing beside it can be taken for a part of it."""
    name, bracket, rest = sql.partition("(")
    return bool(_NAME.fullmatch(name)) and (not bracket or _is_bracketed(bracket + rest))


def _is_bracketed(sql: str) -> bool:
    """Whether the bracket that opens the text closes at its very end; brackets in strings do not count."""
    depth = 0
    for idx, char in enumerate(re.sub(r"'[^']*'", lambda string: "'" * len(string[0]), sql)):
        depth += (char == "(") - (char == ")")
        if depth == 0:
            return char == ")" and idx == len(sql) - 1
    return False
