"""What commands take in common."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Engine(StrEnum):
    """Where queries run."""

    spark = "spark"
    embedded = "embedded"


RunsOn = Annotated[Engine, typer.Option("--engine", help="On Spark, or in this process.")]
Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        help="A value for a parameter of the script, like x=5: what $x stands for. Once for each.",
    ),
]
ScriptFile = Annotated[
    Path, typer.Argument(help="A script of CREATE STREAM, CREATE TABLE and CREATE QUERY statements.")
]
