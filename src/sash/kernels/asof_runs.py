"""The loop of an ASOF join: left tuples, right tuples, and who is the partner of whom.

The tuples of a key are two ordered multisets in one order (`kernels/treaps.py`), of the owners 2 * key (left) and
2 * key + 1 (right). The partner of a left tuple is the right one that stands last before it:

    order      r1   l1   l2   r2   l3          partners   l1: r1   l2: r1   l3: r2

So a right tuple that comes or goes matters to the left ones behind it, up to the next right one.
"""

from __future__ import annotations

from typing import NamedTuple

from sash.kernels.arrays import Int64s
from sash.kernels.jit import borrowing_kernel, kernel
from sash.kernels.treaps import Treaps, insert, kth, multiplicity, rank, remove, size

NONE = -1


class AsofEvents(NamedTuple):
    """In order of time: `counts` tuples more, or less, of one place of an owner."""

    owners: Int64s
    places: Int64s
    counts: Int64s


class PartnerChanges(NamedTuple):
    """Room for changes: because of which event, which left tuple, with which right one or NONE, how many more."""

    event: Int64s
    left: Int64s
    right: Int64s
    n_more: Int64s


@kernel
def follow(first: int, events: AsofEvents, members: Treaps, keeps_all: bool, out: PartnerChanges) -> tuple[int, int]:
    """Lets tuples come and go, from an event on; returns the next event and how many changes there are so far.

    Stops before an event whose changes do not fit. Left tuples without a partner are told of if all are kept.
    """
    owners, places, counts = events
    roots, nodes, pool, words = members
    n_out = 0
    for event in range(first, owners.shape[0]):
        owner, place, count = owners[event], places[event], counts[event]
        # 1. A left tuple: its partner as it is now.
        if owner % 2 == 0:
            if n_out == out.event.shape[0]:
                return event, n_out
            partner = _last_before(owner + 1, place, members)
            if partner != NONE or keeps_all:
                out.event[n_out], out.left[n_out], out.right[n_out], out.n_more[n_out] = event, place, partner, count
                n_out += 1
        # 2. A right tuple: those behind it, if it is the first of equals to come, or the last to go.
        else:
            n_before = multiplicity(owner, place, roots, nodes, words)
            if (n_before > 0) != (n_before + count > 0):
                start, stop = _followers(owner, place, n_before, members)
                if n_out + 2 * (stop - start) > out.event.shape[0]:
                    return event, n_out
                sign = 1 if count > 0 else -1
                before = _last_before(owner, place, members)
                while start < stop:
                    left = kth(owner - 1, start, roots, nodes)
                    n_equal = multiplicity(owner - 1, left, roots, nodes, words)
                    out.event[n_out], out.left[n_out], out.right[n_out] = event, left, place
                    out.n_more[n_out] = sign * n_equal
                    n_out += 1
                    if before != NONE or keeps_all:
                        out.event[n_out], out.left[n_out], out.right[n_out] = event, left, before
                        out.n_more[n_out] = -sign * n_equal
                        n_out += 1
                    start += n_equal
        # 3. Only now it is there, or gone.
        for _ in range(count):
            insert(owner, place, roots, nodes, pool, words)
        for _ in range(-count):
            remove(owner, place, roots, nodes, pool, words)
    return owners.shape[0], n_out


@borrowing_kernel
def _last_before(owner: int, place: int, members: Treaps) -> int:
    """The member of an owner that stands last before a place; NONE if none does."""
    n_before = rank(owner, place, members.roots, members.nodes, members.words)
    return kth(owner, n_before - 1, members.roots, members.nodes) if n_before else NONE


@borrowing_kernel
def _followers(owner: int, place: int, n_equal: int, members: Treaps) -> tuple[int, int]:
    """The left tuples between a right one, of which there are so many, and the next: from which on, and to which."""
    roots, nodes, _, words = members
    start = rank(owner - 1, place, roots, nodes, words)
    n_until = rank(owner, place, roots, nodes, words) + n_equal
    if n_until == size(owner, roots, nodes):
        return start, size(owner - 1, roots, nodes)
    return start, rank(owner - 1, kth(owner, n_until, roots, nodes), roots, nodes, words)
