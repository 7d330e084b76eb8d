"""Mistakes in how changes are read, and in what is kept of them."""

from __future__ import annotations

from planted.mistake import Mistake

MEANING = ("tests/test_answers.py -k TestMeaning",)
KEPT = ("tests/test_kept_answers.py",)
OUTPUTS = ("tests/test_answers.py -k TestOutputs",)

MISTAKES = (
    Mistake(
        "a-row-that-is-in-the-answer-at-its-expiry",
        "answers",
        "operators/living_rows.py",
        "(since <= instant) & (until > instant)",
        "(since <= instant) & (until >= instant)",
        MEANING,
    ),
    Mistake(
        "a-row-that-is-not-in-the-answer-at-its-time",
        "answers",
        "operators/living_rows.py",
        "(since <= instant) & (until > instant)",
        "(since < instant) & (until > instant)",
        MEANING,
    ),
    Mistake(
        "a-group-that-has-emptied-and-is-still-shown",
        "answers",
        "operators/living_rows.py",
        "np.maximum(counts, 0)",
        "np.abs(counts)",
        MEANING,
    ),
    Mistake(
        "a-zero-that-leaves-for-one-of-the-other-sign",
        "answers",
        "operators/living_rows.py",
        "left, entered = _strike_out(content, left, entered)",
        "left, entered = _strike_out(_with_equals_alike(content), left, entered)",
        MEANING,
    ),
    Mistake(
        "what-comes-after-the-forgotten-is-forgotten-too",
        "answers",
        "operators/living_rows.py",
        "np.flatnonzero(since > instant)]",
        "np.flatnonzero(since > instant + 1)]",
        KEPT,
    ),
    Mistake(
        "an-answer-that-is-asked-for-and-was-forgotten",
        "answers",
        "runtime/kept_answer.py",
        "clock - self._history_us",
        "clock",
        KEPT,
    ),
    Mistake(
        "changes-that-are-not-kept-from-step-to-step",
        "answers",
        "runtime/kept_changes.py",
        "pa.concat_tables([self._held, *self._new])",
        "pa.concat_tables([self._held, *self._new[-1:]])",
        KEPT,
    ),
    Mistake(
        "an-answer-that-is-kept-over-a-restored-snapshot",
        "answers",
        "embedded/embedded_session.py",
        "        self._answers = SessionAnswers()\n        self._restore_jobs",
        "        self._restore_jobs",
        ("tests/test_kept_answers.py -k snapshot",),
    ),
    Mistake(
        "the-clock-of-a-batch-that-cannot-be-seen",
        "answers",
        "runtime/published_changes.py",
        "return cls(place, dict(manifest.head), lines)",
        "return cls(place, dict(manifest.head), list(manifest.lines.values()))",
        OUTPUTS,
    ),
    Mistake(
        "a-run-that-does-not-say-how-far-it-has-come-at-its-end",
        "answers",
        "embedded/run_to_end.py",
        "or (is_last and self._ledger.manifest.lines)",
        "or (is_last and not self._ledger.manifest.lines)",
        OUTPUTS,
    ),
)
