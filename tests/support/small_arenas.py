"""Directories of groups with hardly any memory: whatever can be sealed is sealed in every step."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from sash.store.directory import Directory
from sash.store.memory_budget import LEAST_BYTES, MemoryBudget
from sash.store.vector import dump, load


class SmallArenas:
    """Arenas in a directory, each with room for a byte of state and for a few rows of a step."""

    def __init__(self, directory: Path):
        self._directory = directory

    def create(self) -> Directory:
        """For a group that begins."""
        return self._open(Path(mkdtemp(dir=self._directory)))

    def hand_over(self, state: Any, arena: Directory) -> tuple[Any, Directory]:
        """What another worker finds of a group; who had it before cannot touch it any more."""
        data = dump(state, arena)
        taken = self._open(arena.path.rename(arena.path.with_name(os.urandom(8).hex())))
        return load(data, taken), taken

    def _open(self, path: Path) -> Directory:
        disk = self._directory / "disk"
        return Directory(path, disk, 0, MemoryBudget(1, LEAST_BYTES, LEAST_BYTES, disk))
