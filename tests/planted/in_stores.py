"""Mistakes in what operators keep their tuples in."""

from __future__ import annotations

from planted.mistake import Mistake

MISTAKES = (
    Mistake(
        "what-comes-and-expires-within-a-step-stays",
        "trace",
        "store/trace.py",
        "gone = np.flatnonzero(~stays)",
        "gone = np.flatnonzero(~stays & (ops < 0))",
    ),
    Mistake(
        "events-of-one-instant-that-leave-before-they-come",
        "trace",
        "store/trace.py",
        "return np.lexsort((-signs, ids, times))",
        "return np.lexsort((signs, ids, times))",
    ),
)
