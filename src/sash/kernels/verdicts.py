"""Which rows of a stream are in time, one by one in order of arrival, where some are far ahead of those before them.

    ahead 10:   ts        5    6    99   99   7    8    60   59   61
                newest         5    6    6    6    7    8    60   60
                verdict            held held           held
                               too far too far           in time

The row after those that are held, if it has another time, decides: it confirms them unless it is older by more than
`ahead`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sash.kernels.arrays import Int8s, Int64s
from sash.kernels.jit import kernel

IN_TIME, LATE, TOO_FAR, HELD = 0, 1, 2, 3
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class ClockReading(NamedTuple):
    """A StreamClock as it is before some rows come; all in microseconds but `holds_first`, which says that the first
    row may be too far ahead, too.
    """

    slack: int
    ahead: int
    newest: int
    complete: int
    held: int
    holds_first: bool


@kernel
def judge_rows(ts: Int64s, clock: ClockReading, verdicts: Int8s, bases: Int64s) -> tuple[int, int, int]:
    """Fills in the verdict on each row, and of rows that are too far the newest time before them.

    Returns the new `newest` and `held`, and the verdict on rows that were held before: HELD if there is none.
    """
    slack, ahead, newest, complete, held, holds_first = clock
    before, first_held = HELD, 0
    is_before_held = held != _LEAST
    for row in range(ts.shape[0]):
        time = ts[row]
        # 1. The first row of another time decides on all that are held, which may have come before this call.
        if held != _LEAST:
            if time == held:
                verdicts[row] = HELD
                continue
            verdict = IN_TIME if time >= max(held, _LEAST + ahead) - ahead else TOO_FAR
            if is_before_held:
                before, is_before_held = verdict, False
            for each in range(first_held, row):
                verdicts[each] = verdict
                bases[each] = max(newest, complete)
            newest = held if verdict == IN_TIME else newest
            held = _LEAST
        # 2. What is held does not move the clock, so that a wrong time makes nobody late.
        base = max(newest, complete)
        is_ahead = holds_first if base == _LEAST else time > min(base, _GREATEST - ahead) + ahead
        if is_ahead:
            verdicts[row], held, first_held = HELD, time, row
        else:
            is_late = time <= complete or time < max(newest, _LEAST + slack) - slack
            verdicts[row] = LATE if is_late else IN_TIME
            newest = max(newest, time)
    return newest, held, before
