"""Where the conditions of queries that share a join are applied: above it or below it.

Above (NiagaraCQ's pull-up): every row enters the join once, whoever wants it, and pairs are told apart by the labels of
their rows. Below: a row that satisfies no query's condition is left out before it is shipped and stored.

    cost of a row below    n_conditions · CHECK                      to find out whether anybody wants it
    gain of a row below    (1 - share of rows that somebody wants) · KEEP      what it costs to ship, store and probe it

Below also narrows what a query that comes later finds: rows that nobody wanted are not there. So a draw goes to above.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

CHECK_NS = 15.0
"""To evaluate a condition on a row."""
KEEP_NS = 500.0
"""To ship a row to its group, to store it, and to look for its partners."""
SHARE_OF_EQUALITY = 0.1
SHARE_OF_RANGE = 1 / 3
"""Which share of rows satisfies a condition of which nothing else is known."""
SHARE_OF_OTHER = 0.5


def is_kept_below(conditions: Sequence[str | None]) -> bool:
    """Whether to apply the conditions of all queries on one stream below the join; None: a query without one."""
    wanted = {each for each in conditions if each is not None}
    if None in conditions or not wanted:
        return False
    unwanted = 1.0
    for each in wanted:
        unwanted *= 1.0 - estimated_share(each)
    return unwanted * KEEP_NS > len(wanted) * CHECK_NS


def estimated_share(condition: str) -> float:
    """Which share of rows satisfies a condition, by its form: conjuncts are taken to be independent."""
    share = 1.0
    for part in re.split(r"\bAND\b", condition):
        if re.search(r"[<>]=?|\bBETWEEN\b", part) and "<>" not in part:
            share *= SHARE_OF_RANGE
        elif re.search(r"(?<![<>!])=|\bIN\b", part):
            share *= SHARE_OF_EQUALITY
        else:
            share *= SHARE_OF_OTHER
    return share
