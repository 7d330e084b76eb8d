"""What the messages of a batch add to the tally of a query."""

from __future__ import annotations

from collections.abc import Sequence

from sash.operators.stream_clock import known_clock
from sash.runtime.job import Tally
from sash.spark.exchange import Message
from sash.spark.spark_notes import progress_of
from sash.store.batch import BEGINNING


def count_answers(tally: Tally, query: str, answers: Sequence[Message], is_first: bool) -> None:
    """Counts a batch of the job that a query is part of; `is_first`: of those that this process runs."""
    _count_rows(tally, query, answers)
    _see_states(tally, query, answers)
    progress = progress_of(answers).values()
    if progress:
        tally.n_held = sum(each["after"]["n_held"] for each in progress)
        if is_first:
            tally.n_held_before = sum(each["before"]["n_held"] for each in progress)
    tally.n_batches += 1


def _count_rows(tally: Tally, query: str, answers: Sequence[Message]) -> None:
    """What was read counts for every query of the job, what came out for its own."""
    for each in answers:
        if each.kind == "arrival":
            tally.n_read += each.facts["n_read"]
        elif each.kind == "rejects":
            tally.n_rejected += each.facts["n_rows"]
        elif each.kind == "late":
            tally.add_late(each.stream, each.facts["n_rows"])
        elif each.kind == "changes" and each.query == query:
            tally.n_changes += each.facts["n_rows"]


def clock_of(answers: Sequence[Message]) -> int | None:
    """Up to and including which time the changes of all groups are final; None if that is not known yet."""
    clock = min((each.facts["clock"] for each in answers if each.kind == "state"), default=BEGINNING)
    return known_clock(clock)


def _see_states(tally: Tally, query: str, answers: Sequence[Message]) -> None:
    """How far the groups are: the last of them says how far the query is."""
    states = [each.facts for each in answers if each.kind == "state"]
    if not states:
        return
    tally.add_states(states)
    tally.clock_us = clock_of(answers)
    until = [state["partial_until"][query] for state in states if query in state["partial_until"]]
    tally.partial_until_us = max(until, default=tally.partial_until_us)
