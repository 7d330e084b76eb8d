"""How far a stream has come, which of its rows came too late to count, and which are too far ahead to be believed.

Law: a row is late iff it is older than the newest row before it by more than the slack, or not newer than what was
     declared complete. It is too far ahead iff it is newer than the newest row before it, and than what was declared
     complete, by more than `ahead`, and also newer by more than that than the next row of another time. The first row
     of a stream is never too far ahead. "Newest" leaves out what is too far ahead. This is decided row by row, in order
     of arrival, so it does not depend on batches.

slack 2:   ts       5    4    9    6    8
           seen          5    5    9    9
           late                    x             clock after it all: 9 - 2 - 1 = 6

Until the next row of another time has come, a row that may be too far ahead is held: it does not move the clock.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sash.kernels.verdicts import HELD, IN_TIME, LATE, ClockReading, judge_rows
from sash.store.batch import BEGINNING, NEVER


@dataclass(frozen=True, slots=True)
class Judgement:
    """What becomes of rows in order of arrival."""

    verdicts: np.ndarray | None
    """IN_TIME, LATE, TOO_FAR or HELD for each row; None if all are in time."""
    bases: np.ndarray | None = None
    """For each row that is too far ahead, what it was too far ahead of."""
    before: int = HELD
    """What becomes of rows that were held before: HELD if that is still open, or if there are none."""

    def are(self, verdict: int) -> np.ndarray | None:
        """Which rows have a verdict; None if none has."""
        found = None if self.verdicts is None else self.verdicts == verdict
        return found if found is not None and found.any() else None


ALL_IN_TIME = Judgement(None)


def known_clock(clock: int) -> int | None:
    """A clock of streams; None as long as one of them has not begun."""
    return clock if clock > BEGINNING + 1 else None


@dataclass(slots=True)
class StreamClock:
    """`newest_us` is the greatest timestamp seen, `complete_us` up to when the stream was declared complete.

    Without `ahead_us` nothing is too far ahead. `held_us` is the time of the rows that are held, if there are any; all
    have the same. `is_partial` says that not all of the stream is seen: also the first row may be too far ahead.
    """

    slack_us: int
    newest_us: int = BEGINNING
    complete_us: int = BEGINNING
    ahead_us: int | None = None
    held_us: int = BEGINNING
    is_partial: bool = False

    @property
    def clock(self) -> int:
        """Every row with a timestamp up to and including this one has come, or will be late."""
        return max(self.threshold(self.newest_us) - 1, self.complete_us)

    @property
    def is_holding(self) -> bool:
        """Whether rows are held."""
        return self.held_us > BEGINNING

    @property
    def base_us(self) -> int:
        """What a row may be too far ahead of."""
        return max(self.newest_us, self.complete_us)

    def threshold(self, newest_us: int) -> int:
        """The least timestamp that is not late once `newest_us` has been seen."""
        return max(newest_us - self.slack_us, self.complete_us + 1)

    def is_ahead(self, time_us: int, newest_us: int) -> bool:
        """Whether a time is too far ahead of what was declared complete and of `newest_us`, if there is either."""
        base_us = max(newest_us, self.complete_us)
        return self.ahead_us is not None and base_us > BEGINNING and time_us > base_us + self.ahead_us

    def judge(self, ts: np.ndarray) -> Judgement:
        """Takes note of rows in order of arrival; says what becomes of each, and of those that are held."""
        if not len(ts):
            return ALL_IN_TIME
        if not self.is_holding and not self._may_be_ahead(ts):
            newest_us = max(self.newest_us, int(ts.max()))
            if ts.min() >= self.threshold(newest_us):
                self.newest_us = newest_us
                return ALL_IN_TIME
            in_time = self.admit(ts)
            return ALL_IN_TIME if in_time.all() else Judgement(np.where(in_time, IN_TIME, LATE).astype(np.int8))
        assert self.ahead_us is not None, "without a bound no row is too far ahead"
        verdicts, bases = np.empty(len(ts), np.int8), np.empty(len(ts), np.int64)
        assert self.ahead_us is not None, "nothing is held where nothing is too far ahead"
        state = self.slack_us, self.ahead_us, self.newest_us, self.complete_us, self.held_us, self.is_partial
        newest_us, held_us, before = judge_rows(np.ascontiguousarray(ts), ClockReading(*state), verdicts, bases)
        self.newest_us, self.held_us = int(newest_us), int(held_us)
        return Judgement(verdicts, bases, int(before))

    def admit(self, ts: np.ndarray) -> np.ndarray:
        """Takes note of rows in order of arrival, of which none is too far ahead; says of each if it is in time."""
        if not len(ts):
            return np.ones(0, dtype=bool)
        seen_after = np.maximum.accumulate(np.maximum(ts, self.newest_us))
        seen_before = np.concatenate([[self.newest_us], seen_after[:-1]])
        self.newest_us = int(seen_after[-1])
        # Nothing is older than the beginning of time, so that nothing wraps around there.
        in_slack = ts >= np.maximum(seen_before, BEGINNING + self.slack_us) - self.slack_us
        return in_slack & (ts > self.complete_us)

    def complete(self, until_us: int) -> int:
        """Declares that no row with a timestamp up to and including `until_us` is still to come. Says what becomes of
        rows that are held: if the stream is that far, they are not too far ahead.
        """
        verdict = IN_TIME if self.is_holding and until_us >= self.held_us - (self.ahead_us or 0) else HELD
        if verdict == IN_TIME:
            self.believe()
        self.complete_us = max(self.complete_us, until_us)
        return verdict

    def believe(self) -> None:
        """Takes the rows that are held for being in time."""
        self.newest_us, self.held_us = max(self.newest_us, self.held_us), BEGINNING

    def _may_be_ahead(self, ts: np.ndarray) -> bool:
        """Whether to look at rows one by one; nearly always, the newest of them settles it."""
        if self.ahead_us is None:
            return False
        if self.base_us == BEGINNING and self.is_partial and not self._confirms_first(ts):
            return True
        base_us = self.base_us if self.base_us > BEGINNING else int(ts[0])
        if ts.max() <= min(base_us, NEVER - self.ahead_us) + self.ahead_us:
            return False
        seen = np.maximum.accumulate(np.concatenate([[base_us], ts[:-1]]))
        return bool((ts > np.minimum(seen, NEVER - self.ahead_us) + self.ahead_us).any())

    def _confirms_first(self, ts: np.ndarray) -> bool:
        """Whether the first row is followed by one that says that it is not too far ahead."""
        ahead_us, is_other = self.ahead_us or 0, ts != ts[0]
        return bool(is_other.any()) and int(ts[is_other.argmax()]) >= int(ts[0]) - ahead_us
