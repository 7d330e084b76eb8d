"""Mistakes in what operators keep their tuples in."""

from __future__ import annotations

from planted.mistake import Mistake

MISTAKES = (
    Mistake(
        "what-comes-and-expires-within-a-step-stays",
        "trace",
        "store/trace.py",
        "gone = np.flatnonzero(~stays)",
        "gone = np.flatnonzero(~stays & (signs(batch) < 0))",
    ),
    Mistake(
        "events-of-one-instant-that-leave-before-they-come",
        "trace",
        "store/events.py",
        "return np.lexsort((-signs, ids, times))",
        "return np.lexsort((signs, ids, times))",
    ),
    Mistake(
        "a-sealed-tuple-that-expires-at-the-clock-waits",
        "trace",
        "store/sealed_expiries.py",
        'np.searchsorted(held.expires[held.n_given :], clock, side="right")',
        'np.searchsorted(held.expires[held.n_given :], clock, side="left")',
        ("tests/store/test_sealed_expiries.py",),
    ),
    Mistake(
        "sealed-tuples-with-the-numbers-that-their-keys-had",
        "trace",
        "store/sealed_expiries.py",
        "            self._generation += 1\n",
        "            self._generation += 0\n",
        ("tests/store/test_sealed_expiries.py",),
    ),
    Mistake(
        "all-tuples-that-are-alike-go-with-one-that-is-taken-back",
        "trace",
        "kernels/retraction_pairs.py",
        "            retracted[kinds[row]] -= 1\n",
        "",
        ("tests/store/test_trace.py",),
    ),
    Mistake(
        "what-was-struck-out-on-disk-expires",
        "trace",
        "store/sealed_expiries.py",
        "        if not len(run.gone):\n",
        "        if len(run.gone) >= 0:\n",
        ("tests/store/test_sealed_expiries.py",),
    ),
    Mistake(
        "rows-in-the-order-of-a-further-key-taken-for-those-of-the-first",
        "keyed_segment",
        "store/keyed_segment.py",
        "numbers[order] = segment.first + np.arange(len(order))",
        "numbers[:] = segment.first + np.arange(len(order))",
        ("tests/store/test_ordered_window.py",),
    ),
    Mistake(
        "a-sealed-tuple-at-the-end-of-a-period-not-scanned",
        "ordered_window",
        "store/ordered_window.py",
        "places = np.flatnonzero((ts >= since) & (ts <= until))",
        "places = np.flatnonzero((ts >= since) & (ts < until))",
        ("tests/store/test_ordered_window.py",),
    ),
    Mistake(
        "sealed-rows-not-compared-by-their-second-key",
        "sealed_growth",
        "index/sealed_growth.py",
        "for number, values in zip(wanted.numbers[1:], wanted.values[1:]):",
        "for number, values in zip(wanted.numbers[2:], wanted.values[2:]):",
        ("tests/operators/test_multiway_join.py",),
    ),
    Mistake(
        "a-segment-that-ends-with-the-tuples-passed-over",
        "segment_probe",
        "store/segment_probe.py",
        "return max(self._min_ts, segment.min_ts) < min(self._max_end, segment.max_end)",
        "return max(self._min_ts, segment.min_ts) + 1 < min(self._max_end, segment.max_end)",
        ("tests/store/test_segment_probe.py",),
    ),
    Mistake(
        "a-page-of-a-file-not-checked",
        "spill_pages",
        "store/spill_pages.py",
        "    if damaged >= 0:\n",
        "    if damaged > 0:\n",
        ("tests/store/test_spill_files.py",),
    ),
    Mistake(
        "payload-in-the-order-of-the-file",
        "segment",
        "store/segment.py",
        "back[order] = np.arange(len(order))",
        "back[:] = np.arange(len(order))",
        ("tests/store/test_segment.py",),
    ),
)
