"""`sash relation`: what tables need to be read as they were."""

from __future__ import annotations

from typing import Annotated

import typer

relation = typer.Typer(name="relation", help="Prepare tables that change.", no_args_is_help=True)


@relation.callback()
def describe() -> None:
    """Prepare tables that change."""


@relation.command()
def history(
    address: Annotated[str, typer.Argument(help="The database: postgresql://user@host:5432/database.")],
    table: Annotated[str, typer.Argument(help="The table: name, or schema.name.")],
    remove: Annotated[bool, typer.Option("--remove", help="Take the history away, with all that it knows.")] = False,
) -> None:
    """Let PostgreSQL keep what is written to a table, by a trigger, so that it can be read as it was."""
    from sash.io.postgres_history import remove_history, set_up_history

    print(remove_history(address, table) if remove else set_up_history(address, table))
