"""What `sash compile` compiles ahead is every kernel, for types that it has now."""

from __future__ import annotations

from pathlib import Path

import pytest
from numba.core.dispatcher import Dispatcher
from typer.testing import CliRunner

from sash.cli.main import app
from sash.kernels import precompile
from sash.kernels.precompile import KernelSignature, read_signatures
from support.kernel_signatures import all_kernels, in_brackets

KERNELS = list(all_kernels())
REMEDY = "run make test, then make kernels"
pytestmark = pytest.mark.skipif(not KERNELS, reason="nothing is compiled: NUMBA_DISABLE_JIT is set")


def test_every_kernel_that_no_other_calls_has_a_line() -> None:
    known = {(each.module, each.kernel) for each in read_signatures()}
    called = {name for _, _, kernel in KERNELS for name in kernel.py_func.__code__.co_names}
    assert not known - {(module, name) for module, name, _ in KERNELS}, REMEDY
    assert not {(module, name) for module, name, _ in KERNELS if name not in called} - known, REMEDY


def test_every_line_is_read_as_it_was_written() -> None:
    signatures = read_signatures()
    assert [in_brackets(each.numba_types()) for each in signatures] == [each.types for each in signatures], REMEDY
    n_parameters = {(module, name): kernel.py_func.__code__.co_argcount for module, name, kernel in KERNELS}
    assert not [each for each in signatures if len(each.numba_types()) != n_parameters[each.module, each.kernel]], (
        REMEDY
    )


def test_types_of_before_are_told() -> None:
    with pytest.raises(TypeError, match="`SlotTable` has other fields now"):
        KernelSignature("sash.kernels.hash_join", "arrive", "(SlotTable(int64[:, ::1]),)").numba_types()


@pytest.mark.slow
def test_the_command_compiles_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "sash.kernels.hashing.unmix_all(uint64[:],)\nsash.kernels.ties.find_runs(int64[::1],)\n"
    (tmp_path / "signatures.txt").write_text(text)
    monkeypatch.setattr(precompile, "SIGNATURES", tmp_path / "signatures.txt")
    done = CliRunner().invoke(app, ["compile"])
    assert done.exit_code == 0, done.output
    assert done.output.startswith("2 kernels of Sash ")
    for each in read_signatures():
        dispatcher = each.dispatcher()
        assert isinstance(dispatcher, Dispatcher)
        assert each.numba_types() in dispatcher.overloads
