"""`sash repair`: outputs and checkpoints on Spark that belong together again."""

from __future__ import annotations

from typing import Annotated

import typer

from sash.cli.arguments import ScriptFile
from sash.cli.script_outputs import shared_checkpoints
from sash.runtime.jobs import decide_script, group_runs
from sash.runtime.run_lock import hold_locks
from sash.runtime.script import read_script


def repair(
    file: ScriptFile,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before removing.")] = False,
) -> None:
    """Remove what outputs have beyond their checkpoints on Spark, so that a run can go on from an older checkpoint."""
    from sash.spark.surplus_removal import find_repairs, make

    script, root = read_script(file), shared_checkpoints(file)
    runs = script.runs()
    with hold_locks([root, *(each.output.path for each in runs)]):
        repairs = find_repairs(group_runs(runs, decide_script(script.plans, root), root).all)
        if not repairs:
            print("nothing to repair: outputs and checkpoints belong together")
            return
        for line in [line for each in repairs for line in each.summary]:
            print(line)
        if not yes and not typer.confirm("Remove these batches?"):
            print("nothing was removed")
            raise typer.Exit(1)
        for each in repairs:
            make(each)
    print("repaired; sash run goes on from here")
