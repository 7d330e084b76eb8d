"""`sash answer`: what a query's output amounts to at an instant."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Annotated, Any

import typer

from sash.cli.show import show_answer
from sash.errors import BindError
from sash.io.places import shown_place
from sash.runtime.published_changes import DatedAnswer, PublishedChanges


def answer(
    output: Annotated[str, typer.Argument(help="The directory that a query writes INTO.")],
    at: Annotated[
        str | None,
        typer.Option(help="The instant, like '2026-01-01 12:00:00'; without it, the newest up to which all is known."),
    ] = None,
    rows: Annotated[int, typer.Option(help="How many rows of the answer to show.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all rows of the answer as JSON.")] = False,
) -> None:
    """Show the answer of a query at an instant, as plain SQL would give it then, from the changes it has written."""
    published = PublishedChanges.open(output)
    found = published.dated_answer(_moment(at))
    _refuse_earlier(published, found)
    shown = published.show(found.instant)
    if as_json:
        print(json.dumps({"query": published.query, "at": shown, "rows": found.rows.to_pylist()}, default=_as_json))
    else:
        show_answer(f"{published.query} at {shown}", found.rows, rows)


def _moment(at: str | None) -> str | int | None:
    """A time of streams that tell it in integers is a number."""
    return int(at) if at is not None and at.removeprefix("-").isdecimal() else at


def _as_json(value: Any) -> int | str:
    """What JSON has no word for; sums of integers are decimals without a fraction."""
    is_whole = isinstance(value, Decimal) and value.as_tuple().exponent == 0
    return int(value) if is_whole else str(value)


def _refuse_earlier(published: PublishedChanges, found: DatedAnswer) -> None:
    """Nobody asks for an answer before the first change, but by mistake."""
    if found.first_us is not None and found.instant < found.first_us:
        until = "" if published.final_us is None else f", and are final up to {published.show(published.final_us)}"
        raise BindError(
            f"{published.show(found.instant)} is before everything in {shown_place(published.path)}: its changes begin "
            f"at {published.show(found.first_us)}{until}; ask for an instant since then"
        )
