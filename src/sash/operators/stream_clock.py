"""How far a stream has come, and which of its rows came too late to count.

Law: a row is late iff it is older than the newest row before it by more than the slack, or not newer than what was
     declared complete. This is decided row by row, in order of arrival, so it does not depend on batches.

slack 2:   ts       5    4    9    6    8
           seen          5    5    9    9
           late                    x             clock after it all: 9 - 2 - 1 = 6
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sash.store.batch import BEGINNING


@dataclass(slots=True)
class StreamClock:
    """`newest_us` is the greatest timestamp seen, `complete_us` up to when the stream was declared complete."""

    slack_us: int
    newest_us: int = BEGINNING
    complete_us: int = BEGINNING

    @property
    def clock(self) -> int:
        """Every row with a timestamp up to and including this one has come, or will be late."""
        return max(self.threshold(self.newest_us) - 1, self.complete_us)

    def threshold(self, newest_us: int) -> int:
        """The least timestamp that is not late once `newest_us` has been seen."""
        seen = BEGINNING + 1 if newest_us == BEGINNING else newest_us - self.slack_us
        return max(seen, self.complete_us + 1)

    def admit(self, ts: np.ndarray) -> np.ndarray:
        """Takes note of rows in order of arrival; says of each whether it is in time."""
        if not len(ts):
            return np.ones(0, dtype=bool)
        seen_after = np.maximum.accumulate(np.maximum(ts, self.newest_us))
        seen_before = np.concatenate([[self.newest_us], seen_after[:-1]])
        self.newest_us = int(seen_after[-1])
        oldest = np.maximum(seen_before, BEGINNING + self.slack_us) - self.slack_us
        return (ts >= oldest) & (ts > self.complete_us)

    def complete(self, until_us: int) -> None:
        """Declares that no row with a timestamp up to and including `until_us` is still to come."""
        self.complete_us = max(self.complete_us, until_us)
