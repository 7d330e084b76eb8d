"""What a shared join has kept, and since when: how far back a query can look that comes later.

A shared join keeps of each stream the tuples of its largest window, that satisfy a condition of some query if
conditions are applied below it, with the columns that some query reads. When queries come and go, all three change. A
query that comes sees what was kept for it; `missing_until_us` says up to which time that may be less than all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from sash.store.batch import BEGINNING

ALL_ROWS = ""
"""Stands for the condition that every row satisfies."""


@dataclass(frozen=True, slots=True)
class Retention:
    """Of one stream. Times are BEGINNING where nothing is missing."""

    window_us: int
    whole_us: int = BEGINNING
    """Tuples up to this time have left earlier than the window says."""
    columns: Mapping[str, int] = field(default_factory=dict[str, int])
    """By column, up to which time tuples were kept without it."""
    conditions: Mapping[str, int] = field(default_factory=dict[str, int])
    """By condition, up to which time tuples that satisfy it may have been left out."""

    @classmethod
    def fresh(cls, window_us: int, columns: Sequence[str], conditions: Sequence[str] | None) -> Retention:
        """Of a join that starts with the stream; without conditions all rows are kept."""
        kept = [ALL_ROWS] if conditions is None else conditions
        return cls(window_us, BEGINNING, dict.fromkeys(columns, BEGINNING), dict.fromkeys(kept, BEGINNING))

    def after_change(self, wanted: Retention, clock: int, seen_us: int) -> Retention:
        """When another set of queries takes over at a clock, with tuples seen up to `seen_us`. `wanted` is what a
        fresh join for them would keep.
        """
        whole_us = self.whole_us
        if wanted.window_us > self.window_us and clock > BEGINNING + self.window_us:
            whole_us = max(whole_us, clock - self.window_us)
        columns = {name: self.columns.get(name, seen_us) for name in wanted.columns}
        conditions = {name: self._left_out_us(name, seen_us) for name in wanted.conditions}
        if ALL_ROWS in wanted.conditions:
            conditions = dict(self.conditions) | conditions
        return Retention(wanted.window_us, whole_us, columns, conditions)

    def missing_until_us(self, window_us: int, columns: Sequence[str], condition: str | None, clock: int) -> int:
        """Up to which time a query misses tuples, if it looks back for a window and reads these columns of the rows
        that satisfy a condition; BEGINNING if it misses none that is still in its window at the clock.
        """
        lost_us = max(
            self.whole_us,
            self._left_out_us(condition or ALL_ROWS, self.whole_us),
            *(self.columns[name] for name in columns),
        )
        return lost_us if lost_us > max(clock, BEGINNING + window_us) - window_us else BEGINNING

    def _left_out_us(self, condition: str, unknown_us: int) -> int:
        """A row that satisfies the condition is also among all rows."""
        known = [self.conditions[each] for each in (condition, ALL_ROWS) if each in self.conditions]
        return min(known, default=unknown_us)

    def to_json(self) -> dict[str, Any]:
        """As JSON; `Retention(**json)` is the same again."""
        return asdict(self)
