"""The loop of W-MINUS and W-INTERSECT (Pipelines §4.3, Alg. 4.3): left tuples that pass, or not, by right ones.

A *content* is a set of equal left tuples; contents with the same *key* are a list, and are measured against the right
tuples with that key. `keys[key]` holds N_LEFT, N_RIGHT and HEAD of the list, `links[content]` NEXT and PREVIOUS.

    rule            how many of n left tuples pass, if there are r right ones
    PRESENT         n if r > 0, else 0        IN, EXISTS, INTERSECT
    ABSENT          n if r = 0, else 0        NOT EXISTS, EXCEPT
    INTERSECT_ALL   min(n, r)                 one content per key: the first to expire pass
    EXCEPT_ALL      max(n - r, 0)             likewise
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int8s, Int64s, Words
from sash.kernels.jit import borrowing_kernel, inlined_kernel, kernel
from sash.kernels.treaps import insert, kth, multiplicity, rank, remove, size

PRESENT, ABSENT, INTERSECT_ALL, EXCEPT_ALL = 0, 1, 2, 3
NEXT, PREVIOUS = 0, 1
LINK_WIDTH = 2
N_LEFT, N_RIGHT, HEAD = 0, 1, 2
KEY_WIDTH = 3
NONE = -1


class MembershipEvents(NamedTuple):
    """Run r holds the events `starts[r]..starts[r + 1]` of one key; `contents` is NONE for right tuples."""

    starts: Int64s
    run_keys: Int64s
    contents: Int64s
    signs: Int8s
    expires: Int64s


class LeftTuples(NamedTuple):
    """By the rule, the keys and the lists of contents; when those of a content expire is in the treaps."""

    rule: int
    keys: Int64s
    links: Int64s
    roots: Int64s
    nodes: Int64s
    pool: Int64s
    words: Words


class PassingChanges(NamedTuple):
    """Room for changes of what passes: in which run, of which content, and when that tuple expires."""

    run: Int64s
    content: Int64s
    expires: Int64s
    sign: Int8s


@inlined_kernel
def _n_passing(rule: int, n_left: int, n_right: int) -> int:
    if rule == PRESENT:
        return n_left if n_right > 0 else 0
    if rule == ABSENT:
        return n_left if n_right == 0 else 0
    if rule == INTERSECT_ALL:
        return min(n_left, n_right)
    return max(n_left - n_right, 0)


@kernel
def follow(first_run: int, events: MembershipEvents, left: LeftTuples, out: PassingChanges) -> tuple[int, int]:
    """Lets tuples come and go, from a run on; returns the next run and how many changes there are so far.

    Stops before a run whose changes might not fit.
    """
    starts, run_keys, contents, signs, expires = events
    keys, out_run = left.keys, out.run
    n_out = 0
    for run in range(first_run, run_keys.shape[0]):
        key = keys[run_keys[run]]
        n_events = starts[run + 1] - starts[run]
        if n_out + key[N_LEFT] + 4 * n_events > out_run.shape[0]:
            return run, n_out
        first, n_more_right = n_out, 0
        # 1. Left tuples first, against the right ones as they were: so each change is of one side alone.
        for event in range(starts[run], starts[run + 1]):
            if contents[event] == NONE:
                n_more_right += signs[event]
            else:
                n_out = _move(contents[event], run_keys[run], signs[event], expires[event], left, n_out, out)
        # 2. Then the right ones of the instant, all at once.
        n_out = _weigh(run_keys[run], n_more_right, left, n_out, out)
        # 3. Nobody sees what came and went within an instant.
        n_out = _net(first, n_out, out)
        out_run[first:n_out] = run
    return run_keys.shape[0], n_out


@borrowing_kernel
def _move(content: int, key_id: int, sign: int, expires: int, left: LeftTuples, n_out: int, out: PassingChanges) -> int:
    """A left tuple comes or goes, while the right ones stay as they are."""
    rule, keys, links, roots, nodes, pool, words = left
    _, out_content, out_expires, out_sign = out
    key = keys[key_id]
    n_before = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    n_after = _n_passing(rule, key[N_LEFT] + sign, key[N_RIGHT])
    key[N_LEFT] += sign
    # 1. Where all tuples of a key pass or none, it is about this one alone.
    is_all = rule in (INTERSECT_ALL, EXCEPT_ALL)
    if not is_all and n_before + n_after > 0:
        out_content[n_out], out_expires[n_out], out_sign[n_out] = content, expires, sign
        n_out += 1
    # 2. Else the first to expire pass: its place among its equals, the last of those that expire with it.
    place = 0
    if is_all:
        place = rank(content, expires, roots, nodes, words) + multiplicity(content, expires, roots, nodes, words)
    # 3. `_resize` looks at the others, so it is asked while this one is not among them.
    if sign > 0:
        if is_all:
            passes = place < n_after
            if passes:
                out_content[n_out], out_expires[n_out], out_sign[n_out] = content, expires, 1
                n_out += 1
            n_out = _resize(content, n_before, n_after - passes, left, n_out, out)
        if size(content, roots, nodes) == 0:
            _link(content, key_id, keys, links)
        insert(content, expires, roots, nodes, pool, words)
    else:
        remove(content, expires, roots, nodes, pool, words)
        if size(content, roots, nodes) == 0:
            _unlink(content, key_id, keys, links)
        if is_all:
            passed = place - 1 < n_before
            if passed:
                out_content[n_out], out_expires[n_out], out_sign[n_out] = content, expires, -1
                n_out += 1
            n_out = _resize(content, n_before - passed, n_after, left, n_out, out)
    return n_out


@borrowing_kernel
def _weigh(key_id: int, n_more_right: int, left: LeftTuples, n_out: int, out: PassingChanges) -> int:
    """Right tuples come or go, while the left ones stay as they are."""
    rule, key, links, roots, nodes = left.rule, left.keys[key_id], left.links, left.roots, left.nodes
    n_before = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    key[N_RIGHT] += n_more_right
    n_after = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    if n_before == n_after:
        return n_out
    content = key[HEAD]
    if rule in (INTERSECT_ALL, EXCEPT_ALL):
        return _resize(content, n_before, n_after, left, n_out, out)
    while content != NONE:
        n_own = size(content, roots, nodes)
        n_out = _resize(content, n_own if n_before else 0, n_own if n_after else 0, left, n_out, out)
        content = links[content, NEXT]
    return n_out


@borrowing_kernel
def _resize(content: int, n_before: int, n_after: int, left: LeftTuples, n_out: int, out: PassingChanges) -> int:
    """Of a content's tuples, in order of expiry, as they are now, the first `n_after` pass instead of `n_before`."""
    roots, nodes, out_content, out_expires, out_sign = left.roots, left.nodes, out.content, out.expires, out.sign
    for place in range(min(n_before, n_after), max(n_before, n_after)):
        out_content[n_out], out_expires[n_out] = content, kth(content, place, roots, nodes)
        out_sign[n_out] = 1 if n_after > n_before else -1
        n_out += 1
    return n_out


@kernel
def _net(first: int, last: int, out: PassingChanges) -> int:
    """Strikes out changes of one run that undo each other; returns where they end now."""
    _, out_content, out_expires, out_sign = out
    n_changes = last - first
    if n_changes < 2:
        return last
    # 1. Changes of one tuple side by side; what is read is a copy, as the room is written from its beginning.
    order = np.argsort(out_expires[first:last], kind="mergesort")
    order = order[np.argsort(out_content[first:last][order], kind="mergesort")]
    content, expires = out_content[first:last][order], out_expires[first:last][order]
    sign = out_sign[first:last][order]
    # 2. Of equal tuples it is the number that counts.
    n_out, at = first, 0
    while at < n_changes:
        stop, net = at, 0
        while stop < n_changes and content[stop] == content[at] and expires[stop] == expires[at]:
            net += sign[stop]
            stop += 1
        for _ in range(abs(net)):
            out_content[n_out], out_expires[n_out] = content[at], expires[at]
            out_sign[n_out] = 1 if net > 0 else -1
            n_out += 1
        at = stop
    return n_out


@kernel
def _link(content: int, key_id: int, keys: Int64s, links: Int64s) -> None:
    head = keys[key_id, HEAD]
    links[content, NEXT], links[content, PREVIOUS] = head, NONE
    if head != NONE:
        links[head, PREVIOUS] = content
    keys[key_id, HEAD] = content


@kernel
def _unlink(content: int, key_id: int, keys: Int64s, links: Int64s) -> None:
    before, after = links[content, PREVIOUS], links[content, NEXT]
    if before == NONE:
        keys[key_id, HEAD] = after
    else:
        links[before, NEXT] = after
    if after != NONE:
        links[after, PREVIOUS] = before
