"""The answer of a query that runs: its changes as far as an instant that may be asked for needs them."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from sash.errors import PlanError
from sash.plan.query_plan import QueryPlan
from sash.runtime.kept_changes import KeptChanges
from sash.runtime.moments import Length, Moment, length_us, moment_us
from sash.runtime.plain_answer import choose_reading, rows_at, show_instant
from sash.store.batch import BEGINNING, TS

Keep: TypeAlias = "bool | Length"
"""Whether an answer is kept, or for how long: True is up to now, a length also what was in it so long ago."""
NOT_IN_SNAPSHOT = (
    "the snapshot was taken of a query whose answer was not kept, so nobody knows what is in it; restore it into one "
    "without `keep_answer`, or begin anew"
)
NOT_KEPT = "is not kept; make the query with `keep_answer=True`"


class KeptAnswer:
    """Takes a query's changes as they come; holds about what is in the answer and what has changed in its history."""

    def __init__(self, plan: QueryPlan, history_us: int = 0):
        self._history_us = history_us
        self._time_type = plan.schema.field(TS).type
        self._kept = KeptChanges(plan.schema, choose_reading(plan.schema, None))
        self._asked_from = BEGINNING
        """Answers before this time may not be asked for: some of what was in them may be forgotten."""

    def take(self, changes: pa.Table) -> None:
        """Changes that come after those before."""
        self._kept.take(changes)

    def go_on(self, clock: int) -> None:
        """All changes up to this time have come."""
        self._asked_from = max(self._asked_from, clock - self._history_us, BEGINNING)
        self._kept.forget(self._asked_from)

    def answer(self, at: Moment | None, clock: int) -> pa.Table:
        """The answer at an instant; without `at`, at the clock, up to which it is final."""
        instant = clock if at is None else moment_us(at)
        if at is not None and not self._asked_from <= instant <= clock:
            raise PlanError(self._unknown(instant, clock))
        return rows_at(self._kept.changes, instant, self._kept.reading)

    def _unknown(self, instant: int, clock: int) -> str:
        asked, first, last = (show_instant(us, self._time_type) for us in (instant, self._asked_from, clock))
        if instant > clock:
            return f"the answer at {asked} is not known: the query has come to {last}; push more rows, or use `advance`"
        return (
            f"the answer at {asked} is not known any more: it is kept since {first}; keep it for longer, as with "
            "`keep_answer='1 hour'`"
        )

    def export_state(self) -> Any:
        """All that is needed to go on; see `import_state`."""
        return self._asked_from, self._kept.changes

    def import_state(self, held: Any) -> None:
        """Goes on with what `export_state` gave."""
        self._asked_from, changes = held
        self._kept = KeptChanges(changes.schema, self._kept.reading)
        self._kept.take(changes)


def history_of(keep: Keep) -> int | None:
    """For how long an answer is kept, in microseconds; None if it is not."""
    if isinstance(keep, bool):
        return 0 if keep else None
    return length_us(keep, "keep_answer")
