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

import numpy as np
from numpy import ndarray

from sash.kernels.jit import inlined_kernel, kernel
from sash.kernels.treaps import insert, kth, multiplicity, rank, remove, size

PRESENT, ABSENT, INTERSECT_ALL, EXCEPT_ALL = 0, 1, 2, 3
NEXT, PREVIOUS = 0, 1
LINK_WIDTH = 2
N_LEFT, N_RIGHT, HEAD = 0, 1, 2
KEY_WIDTH = 3
NONE = -1


@inlined_kernel
def _n_passing(rule, n_left, n_right):
    if rule == PRESENT:
        return n_left if n_right > 0 else 0
    if rule == ABSENT:
        return n_left if n_right == 0 else 0
    if rule == INTERSECT_ALL:
        return min(n_left, n_right)
    return max(n_left - n_right, 0)


@kernel
def follow(
    first_run: int, starts: ndarray, run_keys: ndarray, contents: ndarray, signs: ndarray, expires: ndarray,
    rule: int, keys: ndarray, links: ndarray, roots: ndarray, nodes: ndarray, pool: ndarray,
    words: tuple[ndarray, ndarray], out_run: ndarray, out_content: ndarray, out_expires: ndarray, out_sign: ndarray,
) -> tuple[int, int]:  # fmt: skip
    """Lets tuples come and go, from a run on; returns the next run and how many changes there are so far.

    `contents` is NONE for right tuples. Stops before a run whose changes might not fit.
    """
    n_out = 0
    for run in range(first_run, run_keys.shape[0]):
        key = keys[run_keys[run]]
        n_events = starts[run + 1] - starts[run]
        if n_out + key[N_LEFT] + 4 * n_events > out_run.shape[0]:
            return run, n_out
        first, n_more_right = n_out, 0
        for event in range(starts[run], starts[run + 1]):
            if contents[event] == NONE:
                n_more_right += signs[event]
            else:
                n_out = _move(
                    contents[event], run_keys[run], signs[event], expires[event], rule, keys, links,
                    roots, nodes, pool, words, n_out, out_content, out_expires, out_sign,
                )  # fmt: skip
        n_out = _weigh(run_keys[run], n_more_right, rule, keys, links, roots, nodes, n_out,
                       out_content, out_expires, out_sign)  # fmt: skip
        n_out = _net(first, n_out, out_content, out_expires, out_sign)
        out_run[first:n_out] = run
    return run_keys.shape[0], n_out


@kernel
def _move(content, key_id, sign, expires, rule, keys, links, roots, nodes, pool, words,
          n_out, out_content, out_expires, out_sign):  # fmt: skip
    """A left tuple comes or goes, while the right ones stay as they are."""
    key = keys[key_id]
    n_before = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    n_after = _n_passing(rule, key[N_LEFT] + sign, key[N_RIGHT])
    key[N_LEFT] += sign
    is_all = rule in (INTERSECT_ALL, EXCEPT_ALL)
    if not is_all and n_before + n_after > 0:
        out_content[n_out], out_expires[n_out], out_sign[n_out] = content, expires, sign
        n_out += 1
    place = 0
    if is_all:
        place = rank(content, expires, roots, nodes, words) + multiplicity(content, expires, roots, nodes, words)
    if sign > 0:
        if is_all:
            passes = place < n_after
            if passes:
                out_content[n_out], out_expires[n_out], out_sign[n_out] = content, expires, 1
                n_out += 1
            n_out = _resize(
                content, n_before, n_after - passes, roots, nodes, n_out, out_content, out_expires, out_sign
            )
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
            n_out = _resize(
                content, n_before - passed, n_after, roots, nodes, n_out, out_content, out_expires, out_sign
            )
    return n_out


@kernel
def _weigh(key_id, n_more_right, rule, keys, links, roots, nodes, n_out, out_content, out_expires, out_sign):
    """Right tuples come or go, while the left ones stay as they are."""
    key = keys[key_id]
    n_before = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    key[N_RIGHT] += n_more_right
    n_after = _n_passing(rule, key[N_LEFT], key[N_RIGHT])
    if n_before == n_after:
        return n_out
    content = key[HEAD]
    if rule in (INTERSECT_ALL, EXCEPT_ALL):
        return _resize(content, n_before, n_after, roots, nodes, n_out, out_content, out_expires, out_sign)
    while content != NONE:
        n_own = size(content, roots, nodes)
        n_out = _resize(
            content, n_own if n_before else 0, n_own if n_after else 0, roots, nodes, n_out,
            out_content, out_expires, out_sign,
        )  # fmt: skip
        content = links[content, NEXT]
    return n_out


@kernel
def _resize(content, n_before, n_after, roots, nodes, n_out, out_content, out_expires, out_sign):
    """Of a content's tuples, in order of expiry, as they are now, the first `n_after` pass instead of `n_before`."""
    for place in range(min(n_before, n_after), max(n_before, n_after)):
        out_content[n_out], out_expires[n_out] = content, kth(content, place, roots, nodes)
        out_sign[n_out] = 1 if n_after > n_before else -1
        n_out += 1
    return n_out


@kernel
def _net(first, last, out_content, out_expires, out_sign):
    """Strikes out changes of one run that undo each other; returns where they end now."""
    n_changes = last - first
    if n_changes < 2:
        return last
    order = np.argsort(out_expires[first:last], kind="mergesort")
    order = order[np.argsort(out_content[first:last][order], kind="mergesort")]
    content, expires = out_content[first:last][order], out_expires[first:last][order]
    sign = out_sign[first:last][order]
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
def _link(content, key_id, keys, links):
    head = keys[key_id, HEAD]
    links[content, NEXT], links[content, PREVIOUS] = head, NONE
    if head != NONE:
        links[head, PREVIOUS] = content
    keys[key_id, HEAD] = content


@kernel
def _unlink(content, key_id, keys, links):
    before, after = links[content, PREVIOUS], links[content, NEXT]
    if before == NONE:
        keys[key_id, HEAD] = after
    else:
        links[before, NEXT] = after
    if after != NONE:
        links[after, PREVIOUS] = before
