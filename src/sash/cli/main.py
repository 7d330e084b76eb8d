"""The `sash` command: its parts, and what happens to errors, signals and exit codes."""

from __future__ import annotations

import os
import sys
import tempfile
from typing import Annotated, NoReturn

import typer
from rich.console import Console

from sash import __version__
from sash.cli.answer import answer
from sash.cli.calibrate import calibrate
from sash.cli.compile_kernels import compile_kernels
from sash.cli.explain_script import explain
from sash.cli.relation_commands import relation
from sash.cli.repair import repair
from sash.cli.run import run
from sash.cli.show import error_console, escaped
from sash.cli.stopping import TerminatedError, ended_by_sigterm
from sash.cli.verify import verify
from sash.errors import InternalError, SashError, describe_os_error, mask_secrets
from sash.lab.bench.bench_commands import bench
from sash.lab.experiments.experiment_commands import experiment
from sash.lab.workloads.workload_commands import workload

INTERRUPTED, TERMINATED, NOBODY_READS = 130, 143, 141
"""Exit codes, as a shell has them for a process that SIGINT, SIGTERM or SIGPIPE has ended."""
app = typer.Typer(name="sash", add_completion=False)
app.add_typer(bench)
app.add_typer(experiment)
app.add_typer(relation)
app.add_typer(workload)


@app.callback(invoke_without_command=True)
def describe(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Continuous SQL over sliding windows, exactly."""
    if version:
        print(f"sash {__version__}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


for command in (run, answer, repair, explain, calibrate, verify):
    app.command()(command)
app.command("compile")(compile_kernels)


def main() -> None:
    """Runs the command. Whatever goes wrong, the user sees a reason, not a traceback."""
    console = error_console()
    try:
        with ended_by_sigterm():
            code = app(standalone_mode=False)
            sys.stdout.flush()
    except SashError as error:
        _fail(console, error)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except TerminatedError:
        code = TERMINATED
    except BrokenPipeError:
        _end_unread()
    except SystemExit as ended:
        if isinstance(ended.__context__, BrokenPipeError):  # so rich and typer end a command whose output nobody reads
            _end_unread()
        raise
    except OSError as error:
        _fail(console, describe_os_error(error))
    except Exception as error:
        if hasattr(error, "format_message"):
            console.print(f"[red]error:[/red] {error.format_message()}")  # pyright: ignore[reportAttributeAccessIssue]
            sys.exit(2)
        _fail(console, InternalError(f"{type(error).__name__}: {error}"), error)
    if code in (INTERRUPTED, TERMINATED):
        console.print("stopped at once" if sys.argv[1:2] == ["run"] else "stopped")
    if isinstance(code, int) and code:
        sys.exit(code)


def _end_unread() -> NoReturn:
    """Whoever read the output has gone, as in `sash run … | head`: there is nobody to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(NOBODY_READS)


def _fail(console: Console, error: SashError, cause: Exception | None = None) -> NoReturn:
    console.print(f"[red]error:[/red] {escaped(str(error))}", highlight=False)
    if cause is not None:
        console.print(f"the details are in {_write_details(cause)}", highlight=False)
    sys.exit(1)


def _write_details(cause: Exception) -> str:
    import traceback

    with tempfile.NamedTemporaryFile("w", prefix="sash-", suffix=".log", delete=False) as file:
        file.write(mask_secrets("".join(traceback.format_exception(cause))))
    return file.name


if __name__ == "__main__":
    main()
