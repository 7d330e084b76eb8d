"""`sash compile`: what queries run is compiled before any of them waits for it."""

from __future__ import annotations

import os
import time

from sash import __version__


def compile_kernels() -> None:
    """Compile what queries run, and keep it beside Sash, so that no query waits for a compiler. Takes half a minute."""
    from sash.cli.show import CountedProgress, console
    from sash.kernels.precompile import compile_all

    started = time.monotonic()
    with CountedProgress("modules compiled") as progress:
        n_compiled = compile_all(len(os.sched_getaffinity(0)), progress.report)
    console.print(f"{n_compiled} kernels of Sash {__version__} are compiled, in {time.monotonic() - started:.0f} s")
