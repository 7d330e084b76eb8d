"""What numba has kept of an older source is not in the way of a newer one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

OLD = """
    from typing import NamedTuple
    import numpy as np
    from sash.kernels.jit import kernel

    class Older(NamedTuple):
        values: np.ndarray

    @kernel
    def total(given):
        return given.values.sum()

    print(total(Older(np.arange(4))))
"""


@pytest.mark.slow
def test_a_class_may_be_renamed(tmp_path: Path) -> None:
    module = tmp_path / "kept.py"
    for text in (OLD, OLD.replace("Older", "Renamed")):
        module.write_text(dedent(text))
        done = subprocess.run([sys.executable, "-c", "import kept"], cwd=tmp_path, capture_output=True, text=True)
        assert done.stdout == "6\n", done.stderr
    assert list(tmp_path.rglob("*.nbi")), "nothing was kept, so nothing was in the way"
