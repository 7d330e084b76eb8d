"""The loop of top-k over groups: rows of groups come and go, and those that are in front get entries in an order.

    states[group]   PLACE    where its row stands in the log, from 1 on; 0 if it has none
                    ENTRY    the entry of its row among those in front, from 1 on; 0 if it is behind
                    LATEST   within a step: what happened to it last, from 1 on; 0 if nothing has

A group has one row at most, so that what is taken back is the row that it has.
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Bools, Int8s, Int64s, Words
from sash.kernels.jit import borrowing_kernel

PLACE, ENTRY, LATEST = 0, 1, 2
STATE_WIDTH = 3


class GroupEvents(NamedTuple):
    """Rows that come and go, `order` says when; at one instant, what goes before what comes."""

    order: Int64s
    times: Int64s
    groups: Int64s
    signs: Int8s
    are_front: Bools


class FrontEvents(NamedTuple):
    """Room for what happens to entries, and for the entry that each row that goes has had."""

    rows: Int64s
    entries: Int64s
    left: Int64s


class NewEntries(NamedTuple):
    """Room for entries that are new: their rows and groups, and the entry that went at the same instant, or -1."""

    rows: Int64s
    groups: Int64s
    before: Int64s


@borrowing_kernel
def sort_out(
    events: GroupEvents, states: Int64s, n_entries: int, front: FrontEvents, new: NewEntries, touched: Int64s
) -> tuple[int, int, int]:
    """Gives rows that come in front an entry, from `n_entries` on; returns how many things happen to entries, how many
    entries are new, and how many groups are touched.
    """
    order, times, groups, signs, are_front = events
    n_front, n_new, n_touched = 0, 0, 0
    for idx in range(order.shape[0]):
        row = order[idx]
        group = groups[row]
        latest = states[group, LATEST] - 1
        if latest < 0:
            touched[n_touched] = group
            n_touched += 1
        states[group, LATEST] = row + 1
        if signs[row] < 0:
            entry = states[group, ENTRY] - 1
            front.left[row] = entry
            if entry >= 0:
                front.rows[n_front], front.entries[n_front] = row, entry
                n_front += 1
                states[group, ENTRY] = 0
        elif are_front[row]:
            replaces = latest >= 0 and signs[latest] < 0 and times[latest] == times[row]
            new.rows[n_new], new.groups[n_new] = row, group
            new.before[n_new] = front.left[latest] if replaces else -1
            front.rows[n_front], front.entries[n_front] = row, n_entries + n_new
            states[group, ENTRY] = n_entries + n_new + 1
            n_new += 1
            n_front += 1
    return n_front, n_new, n_touched


class LogChanges(NamedTuple):
    """Room for the rows of the log that are replaced, and for those that are appended, with their groups."""

    gone: Int64s
    rows: Int64s
    groups: Int64s


@borrowing_kernel
def place(touched: Int64s, signs: Int8s, next_place: int, states: Int64s, out: LogChanges) -> tuple[int, int]:
    """Gives the row that each group has after a step its place in the log, from `next_place` on; returns how many rows
    are replaced, and how many are appended. Nothing has happened to any group then.
    """
    n_gone, n_rows = 0, 0
    for idx in range(touched.shape[0]):
        group = touched[idx]
        row = states[group, LATEST] - 1
        if states[group, PLACE]:
            out.gone[n_gone] = states[group, PLACE] - 1
            n_gone += 1
        states[group, LATEST] = 0
        states[group, PLACE] = 0
        if signs[row] > 0:
            out.rows[n_rows], out.groups[n_rows] = row, group
            states[group, PLACE] = next_place + n_rows + 1
            n_rows += 1
    return n_gone, n_rows


@borrowing_kernel
def unite(n_entries: int, new: NewEntries, words: Words, states: Int64s, united: Int64s) -> None:
    """A row that goes and comes back as it was, at one instant, is the same entry: `united` says which each one is."""
    offsets, data = words
    for idx in range(united.shape[0]):
        entry, before = n_entries + idx, new.before[idx]
        united[idx] = entry
        if before < 0:
            continue
        if before >= n_entries:
            before = united[before - n_entries]
        n_bytes = offsets[entry + 1] - offsets[entry]
        is_same = n_bytes == offsets[before + 1] - offsets[before]
        at = 0
        while is_same and at < n_bytes:
            is_same = data[offsets[entry] + at] == data[offsets[before] + at]
            at += 1
        if is_same:
            united[idx] = before
            if states[new.groups[idx], ENTRY] == entry + 1:
                states[new.groups[idx], ENTRY] = before + 1
