"""The command `sash` in this process."""

from __future__ import annotations

import sys

import pytest

from sash.cli.main import main


def run_command(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Runs it; returns its exit code."""
    monkeypatch.setattr(sys, "argv", ["sash", *arguments])
    try:
        main()
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0
