"""What commands take in common."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

ScriptFile = Annotated[
    Path, typer.Argument(help="A script of CREATE STREAM, CREATE TABLE and CREATE QUERY statements.")
]
