"""Mistakes in kernels."""

from __future__ import annotations

from planted.mistake import Mistake

WJOIN = ("tests/store/test_wjoin_timelines.py", "tests/store/test_wjoin_algorithms.py", "tests/laws/test_multiway.py")
SHARED = ("tests/store/test_shared_timelines.py", "tests/store/test_shared_join.py", "tests/laws/test_isolation.py")

JOINS = (
    Mistake(
        "of-two-rows-with-one-identity-the-older-taken-back",
        "bucket_join",
        "kernels/bucket_join.py",
        "if found >= 0 and table.ts[row - base] <= table.ts[found - base]:",
        "if found >= 0 and table.ts[row - base] >= table.ts[found - base]:",
    ),
    Mistake(
        "rows-of-this-step-met-before-their-turn",
        "bucket_join",
        "kernels/bucket_join.py",
        "if table.base <= row < row_limit and",
        "if table.base <= row <= row_limit and",
    ),
    Mistake(
        "a-scan-that-ends-where-the-ring-wraps",
        "buckets",
        "kernels/buckets.py",
        "for part in range(2):",
        "for part in range(1):",
        ("tests/store/test_circular_buckets.py",),
    ),
    Mistake(
        "a-pair-that-meets-as-one-of-it-leaves-its-bucket",
        "buckets",
        "kernels/buckets.py",
        "if max(table.slots[slot, TIME], ts) < min(table.slots[slot, END], end):",
        "if max(table.slots[slot, TIME], ts) <= min(table.slots[slot, END], end):",
    ),
    Mistake(
        "a-pair-that-meets-as-one-of-it-leaves",
        "hash_join",
        "kernels/hash_join.py",
        "if ts < min(other[at, END], own_end):",
        "if ts <= min(other[at, END], own_end):",
    ),
    Mistake(
        "a-slot-taken-from-a-key-that-lives-on-one-side",
        "hash_join",
        "kernels/hash_join.py",
        "slots[position, HEADS] < floors[0] and slots[position, HEADS + 1] < floors[1]",
        "(slots[position, HEADS] < floors[0] or slots[position, HEADS + 1] < floors[1])",
        ("tests/store/test_hash_index.py", "tests/laws/test_long_streams.py"),
    ),
    Mistake(
        "combinations-of-one-instant-found-by-each-of-their-tuples",
        "probes",
        "kernels/probes.py",
        "    if target > arriving:\n        high -= 1\n",
        "",
    ),
    Mistake(
        "a-chain-that-ends-one-row-early",
        "probes",
        "kernels/probes.py",
        "            if time < low:\n                break",
        "            if time <= low:\n                break",
    ),
    Mistake(
        "a-product-without-what-lies-at-the-end-of-reach",
        "key_product",
        "kernels/key_product.py",
        "while cursor < stop and met_ts[window, cursor] <= high:",
        "while cursor < stop and met_ts[window, cursor] < high:",
    ),
    Mistake(
        "a-combination-that-outlives-the-tuple-that-came-last",
        "key_product",
        "kernels/key_product.py",
        "ends[depth] = min(end, met_expires[window, cursor])",
        "ends[depth] = met_expires[window, cursor]",
    ),
    Mistake(
        "a-head-dropped-while-it-is-still-in-reach",
        "wjoin_merge",
        "kernels/wjoin_merge.py",
        "if ts < low or ts + ahead < latest:",
        "if ts <= low or ts + ahead < latest:",
        WJOIN,
    ),
    Mistake(
        "tuples-at-the-end-of-a-period-not-joined",
        "wjoin_pipeline",
        "kernels/wjoin_pipeline.py",
        "if slots.low[previous] > high or slots.high[previous] < low:",
        "if slots.low[previous] >= high or slots.high[previous] < low:",
        WJOIN,
    ),
    Mistake(
        "a-slot-swept-at-the-last-instant-of-its-life",
        "wjoin_buffers",
        "kernels/wjoin_buffers.py",
        "        if slots.high[slot] < horizon:\n            counters[REMOVED] += 1\n            slot = remove(",
        "        if slots.high[slot] <= horizon:\n            counters[REMOVED] += 1\n            slot = remove(",
        WJOIN,
    ),
)

SHARING = (
    Mistake(
        "a-partner-as-old-as-the-window-is-long",
        "shared_join",
        "kernels/shared_join.py",
        "while partner >= first_kept and links[partner - first_row, TS] > limit:",
        "while partner >= first_kept and links[partner - first_row, TS] >= limit:",
        SHARED,
    ),
    Mistake(
        "a-tuple-that-scans-its-own-stream",
        "shared_line",
        "kernels/shared_line.py",
        "waits[row, CURSOR] = heads[bucket, 1 - side]",
        "waits[row, CURSOR] = heads[bucket, side]",
        SHARED,
    ),
    Mistake(
        "a-new-query-without-the-pairs-of-its-first-tuple",
        "shared_router",
        "kernels/shared_router.py",
        "            if log[place, LATER] >= since[window]:",
        "            if log[place, LATER] > since[window]:",
        SHARED,
    ),
    Mistake(
        "pairs-settled-with-their-sides-swapped",
        "shared_rows",
        "kernels/shared_rows.py",
        "        if row & 1:\n            row, other = other, row\n",
        "",
        ("tests/store/test_scheduled_index.py", "tests/operators/test_tapped_join.py"),
    ),
    Mistake(
        "the-window-of-the-other-side",
        "taps",
        "kernels/taps.py",
        "in_window = left_ts - right_ts < windows[tap, 1]",
        "in_window = left_ts - right_ts < windows[tap, 0]",
    ),
    Mistake(
        "a-tap-that-sees-the-last-tuple-before-it-was-opened",
        "taps",
        "kernels/taps.py",
        "left_ts > since[tap, 0]",
        "left_ts >= since[tap, 0]",
        ("tests/operators/test_tapped_join.py", "tests/laws/test_isolation.py"),
    ),
)

MEMBERSHIP = (
    Mistake(
        "a-row-that-leaves-while-an-equal-one-is-there",
        "kernels/distinct",
        "kernels/distinct.py",
        "multiplicity(key, shown[key], roots, nodes, words) == 0:",
        "size(key, roots, nodes) == 0:",
    ),
    Mistake(
        "except-all-taken-as-except",
        "kernels/membership",
        "kernels/membership.py",
        "return max(n_left - n_right, 0)",
        "return n_left if n_right == 0 else 0",
    ),
    Mistake(
        "intersect-all-taken-as-intersect",
        "kernels/membership",
        "kernels/membership.py",
        "return min(n_left, n_right)",
        "return n_left if n_right > 0 else 0",
    ),
    Mistake(
        "only-the-first-of-the-rows-with-a-key-brought-back",
        "kernels/membership",
        "kernels/membership.py",
        "content = links[content, NEXT]",
        "content = NONE",
    ),
    Mistake(
        "a-group-that-only-grows",
        "runs",
        "kernels/runs.py",
        "size += signs[event]",
        "size += 1",
    ),
    Mistake(
        "a-new-key-with-the-number-of-an-old-one",
        "key_table",
        "kernels/key_table.py",
        "            slots[slot, ID] = n_ids + n_new\n            out[row] = n_ids + n_new",
        "            slots[slot, ID] = n_new\n            out[row] = n_new",
    ),
    Mistake(
        "a-prefix-taken-for-the-whole-string",
        "byte_strings",
        "kernels/byte_strings.py",
        "    if offsets[string + 1] - start != last - first:\n        return False\n",
        "",
        ("tests/store/test_byte_strings.py",),
    ),
    Mistake(
        "a-hash-that-differs-from-the-last-release",
        "hashing",
        "kernels/hashing.py",
        "z = (z ^ (z >> np.uint64(27)))",
        "z = (z ^ (z >> np.uint64(26)))",
        ("tests/store/test_keys.py",),
    ),
)

AGGREGATES = (
    Mistake(
        "a-sum-that-forgets-what-leaves",
        "running_sums",
        "kernels/running_sums.py",
        "signed = value if sign > 0 else -value",
        "signed = value",
    ),
    Mistake(
        "an-infinity-that-stays-when-it-has-left",
        "running_sums",
        "kernels/running_sums.py",
        "tally[POSITIVE_INFINITIES] += sign",
        "tally[POSITIVE_INFINITIES] += 1",
        ("tests/operators/test_accumulators.py",),
    ),
    Mistake(
        "a-deviation-of-all-instead-of-a-sample",
        "running_deviations",
        "kernels/running_deviations.py",
        "max(0.0, spread) / (count - 1.0)",
        "max(0.0, spread) / count",
    ),
    Mistake(
        "a-carry-lost-when-a-value-leaves",
        "wide_integers",
        "kernels/wide_integers.py",
        "carry = over | np.uint64(row[0] < carry)",
        "carry = over",
    ),
    Mistake(
        "a-tie-between-two-doubles-rounded-by-the-leading-parts-alone",
        "expansions",
        "kernels/expansions.py",
        "        if twice == other - high:\n            high = other\n",
        "",
        ("tests/operators/test_accumulators.py",),
    ),
    Mistake(
        "a-value-counted-as-different-when-it-has-gone",
        "ordered_multiset",
        "kernels/ordered_multiset.py",
        "\n        roots[owner, N_DISTINCT] -= 1",
        "",
    ),
    Mistake(
        "equal-members-ranked-as-one",
        "ordered_multiset",
        "kernels/ordered_multiset.py",
        "        if order > 0:\n            n_less += nodes[node, MULTIPLICITY]",
        "        if order > 0:\n            n_less += 1",
        ("tests/store/test_ordered_multiset.py",),
    ),
    Mistake(
        "a-maximum-that-stays-when-it-has-left",
        "ordered_aggregates",
        "kernels/ordered_aggregates.py",
        "is_stale |= value == results[group, 0]",
        "is_stale |= what == LEAST and value == results[group, 0]",
    ),
    Mistake(
        "a-minimum-since-a-landmark-that-is-the-maximum",
        "ordered_aggregates",
        "kernels/ordered_aggregates.py",
        "if order >= 0 if is_least else order <= 0:",
        "if order <= 0 if is_least else order >= 0:",
    ),
    Mistake(
        "the-last-two-of-the-heap-not-compared",
        "expiry_heap",
        "kernels/expiry_heap.py",
        "if child + 1 < last and _is_before(",
        "if child + 1 < last - 1 and _is_before(",
        ("tests/store/test_expiry_queue.py",),
    ),
    Mistake(
        "a-run-of-ties-that-loses-its-last-row",
        "ties",
        "kernels/ties.py",
        "highs[n_runs] = offset + k",
        "highs[n_runs] = offset + k - 1",
    ),
)

MISTAKES = (*JOINS, *SHARING, *MEMBERSHIP, *AGGREGATES)
