"""A copy of Sash's source that mistakes are planted in, and the tests that run against it."""

from __future__ import annotations

import compileall
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from planted.mistake import Mistake

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sash"
KERNELS = ("kernels", "papers/exact/exact_kernels", "papers/shared", "papers/wjoin")
"""Where numba compiles."""
PYTEST = "-x -q -p no:cacheprovider -p no:xdist --tb=no -rfE --hypothesis-profile=planted"
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
TESTS_FAILED = 1
"""What pytest returns when tests ran, and some failed; not when there were none, or they could not be collected."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a mistake was noticed."""

    mistake: Mistake
    caught_by: str | None
    """The first test that failed; None if none did."""
    seconds: float
    remark: str = ""
    """Why no test could fail, where something else went wrong."""


class Orchard:
    """The copy, in a directory of its own. It keeps what numba compiles, as far as a mistake does not change it."""

    def __init__(self, directory: Path, timeout_s: float):
        self._source = directory / "src"
        self._stash = directory / "stash"
        self._directory = directory
        self._timeout_s = timeout_s
        shutil.copytree(SOURCE, self._source / "sash", copy_function=shutil.copy2)
        compileall.compile_dir(self._source, quiet=1)

    def try_out(self, mistake: Mistake) -> Outcome:
        """Plants a mistake, runs the tests that should notice until one does, and digs it out again."""
        started, remark = time.monotonic(), ""
        with self._planted(mistake):
            for arguments in mistake.noticed_by:
                caught_by, remark = self._run(arguments)
                if caught_by is not None or remark:
                    return Outcome(mistake, caught_by, time.monotonic() - started, remark)
        return Outcome(mistake, None, time.monotonic() - started)

    def failing_by_themselves(self, tests: list[str]) -> str | None:
        """The first of these tests that fails where nothing is planted; None if all pass."""
        caught_by, remark = self._run(shlex.join(tests), timeout_s=20 * self._timeout_s)
        return caught_by or remark or None

    @contextmanager
    def _planted(self, mistake: Mistake) -> Iterator[None]:
        path = self._source / "sash" / mistake.path
        kernels = self._kernels_over(path)
        self._stash.mkdir()
        shutil.copy2(path, self._stash / "right.py")
        kept = {cache: self._stash / cache.name for cache in _compiled(kernels)}
        for cache, stashed in kept.items():
            cache.rename(stashed)
        path.write_text(mistake.planted_in(path.read_text()))
        try:
            yield
        finally:
            shutil.copy2(self._stash / "right.py", path)
            for cache in _compiled(kernels):
                cache.unlink()
            for cache, stashed in kept.items():
                stashed.rename(cache)
            shutil.rmtree(self._stash)

    def _kernels_over(self, path: Path) -> set[Path]:
        """A kernel, and those that are compiled with it in them: numba would not know that these have changed."""
        texts = {each: each.read_text() for folder in KERNELS for each in (self._source / "sash" / folder).glob("*.py")}
        over = found = {path} & texts.keys()
        while found:
            names = [".".join(each.relative_to(self._source).with_suffix("").parts) for each in found]
            found = {
                each
                for each, text in texts.items()
                if each not in over and any(f"from {name} import" in text for name in names)
            }
            over |= found
        return over

    def _run(self, arguments: str, timeout_s: float | None = None) -> tuple[str | None, str]:
        """The first test that failed, if one did, and what went wrong otherwise."""
        command = [sys.executable, "-m", "pytest", *shlex.split(PYTEST), *shlex.split(arguments)]
        paths = os.pathsep.join(map(str, (self._source, ROOT / "tests")))
        env = os.environ | {
            "PYTHONPATH": paths,
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self._directory / "hypothesis"),
        }
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout_s or self._timeout_s
            )
        except subprocess.TimeoutExpired:
            return None, f"`pytest {arguments}` took too long"
        found = FAILED.search(done.stdout)
        if done.returncode == TESTS_FAILED and found:
            return found[1], ""
        if (
            done.returncode < 0
        ):  # the process died by a signal: which test it was in is not known, so its file stands for it
            return shlex.split(arguments)[0], ""
        if done.returncode == 0:
            return None, ""
        return None, f"`pytest {arguments}` ended with {done.returncode}: {_last_line(done.stdout + done.stderr)}"


def _compiled(kernels: set[Path]) -> list[Path]:
    """What numba has kept of these modules."""
    return [cache for kernel in kernels for cache in (kernel.parent / "__pycache__").glob(f"{kernel.stem}.*.nb?")]


def _last_line(text: str) -> str:
    return (text.strip().splitlines() or ["nothing was printed"])[-1]
