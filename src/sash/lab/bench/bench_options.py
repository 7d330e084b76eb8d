"""Options that several commands of `sash bench` have."""

from __future__ import annotations

from typing import Annotated

import typer

Rate = Annotated[int, typer.Option(help="Tuples per second of event time, of each stream.")]
Payload = Annotated[
    str, typer.Option(help="none; wide: two strings of 20 characters and a DECIMAL(18,2); or the width of one string.")
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same streams.")]
Master = Annotated[str, typer.Option(help="The Spark master.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, and no progress.")]
