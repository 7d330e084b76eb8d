"""`sash bench memory`: the same pairs from every engine, nothing on disk while windows fit, and memory that is seen."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import sash
from sash.errors import InternalError, MismatchError, PlanError
from sash.lab.bench.cell_process import run_cell
from sash.lab.bench.memory_cell import MemoryCell, measure_cell
from sash.lab.bench.memory_growth import MEMORY_BYTES, MemoryBench, bench_memory
from sash.lab.bench.picture import draw_memory
from sash.lab.bench.process_facts import MovedMeter, PeakWatch, resident_bytes
from sash.lab.bench.show_memory import show_memory
from sash.lab.bench.stages import Stages
from sash.lab.bench.step_engines import BUILTIN, ENGINES, generate_steps

QUIET = Stages(is_quiet=True)
IN_THIS_PROCESS = tuple(engine for engine in ENGINES if engine != BUILTIN)
SMALL = MemoryBench(8 << 20, (0.25, 2), IN_THIS_PROCESS, step_rows=2_000, n_measured=2)


@pytest.fixture(autouse=True)
def no_limit_afterwards():
    yield
    sash.configure()


def run_here(cell: MemoryCell, directory: Path, patience_s: float, note) -> dict:
    """A cell without a process of its own, whose memory means nothing then."""
    return measure_cell(cell, directory, lambda message: None) | {"peak_bytes": 1 << 20}


@pytest.mark.slow
@pytest.mark.usefixtures("without_limit")
def test_all_engines_give_the_same_pairs_and_leave_the_disk_alone_while_windows_fit(tmp_path):
    facts = json.loads(json.dumps(bench_memory(SMALL, tmp_path, QUIET, run_here)))
    cells = {(cell["engine"], cell["ratio"]): cell for cell in facts["cells"]}
    assert set(cells) == {(engine, ratio) for engine in IN_THIS_PROCESS for ratio in SMALL.ratios}
    assert not any("left_out" in cell for cell in cells.values())
    assert all(window["answer"]["rows"] > 0 for window in facts["windows"])
    assert not any(tmp_path.iterdir())
    for cell in (cells["sash", 0.25], cells["tiered", 0.25], cells["sash", 2]):
        assert (cell["read_per_tuple"], cell["written_per_tuple"]) == (0, 0)
    assert all(cells[engine, 2]["read_per_tuple"] > 0 for engine in IN_THIS_PROCESS[1:])
    shown = _check_told(facts, tmp_path)
    assert all(ENGINES[engine] in shown for engine in IN_THIS_PROCESS)


def test_a_window_is_full_before_steps_are_measured():
    for ratio in MemoryBench().ratios:
        cell = MemoryBench().cell("sash", ratio)
        n_alive = 2 * cell.workload.rate * cell.workload.window_us / 1e6
        assert n_alive * MEMORY_BYTES == pytest.approx(ratio * cell.limit_bytes, rel=0.01)
        assert 2 * cell.first_row > n_alive
        assert len(cell.workload.batches) - cell.n_filling == 20
        assert MemoryCell.from_json(cell.to_json()) == cell


def test_steps_are_the_batches_of_the_workload():
    workload = SMALL.workload(0.25)
    steps = list(generate_steps(workload))
    assert [sum(rows.num_rows for rows in step.values()) for step in steps] == workload.batches
    assert steps[1]["b"]["v"][0].as_py() == steps[0]["b"].num_rows


def test_engines_that_differ_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("sash.lab.bench.segment_engine.are_near", lambda *_: "a.v % 2 = 0")
    with pytest.raises(MismatchError, match="only `sash`, not `duckdb`"):
        bench_memory(MemoryBench(8 << 20, (0.1,), ("sash", "duckdb"), 1_000, 1), tmp_path, QUIET, run_here)


@pytest.mark.slow
def test_who_gives_up_is_left_out_with_larger_windows_too(tmp_path):
    """DuckDB does nothing in a megabyte."""
    bench = MemoryBench(1 << 20, (0.1, 0.2), ("sash", "duckdb"), 400, 1)
    facts = bench_memory(bench, tmp_path, QUIET, run_here)
    left_out = [cell.get("left_out") for cell in facts["cells"]]
    assert left_out == [None, "ran out of memory", None, "ran out of memory with a smaller window"]
    shown = _check_told(facts, tmp_path)
    assert "DuckDB over segments is left out at 0.1: it ran out of memory\n" in shown


@pytest.mark.slow
def test_a_process_of_its_own_tells_its_memory(tmp_path):
    done = []
    cell = SMALL.cell("tiered", 0.25)
    told = run_cell(cell, tmp_path, 600, done.append)
    assert done[-1] == cell.workload.total_rows
    assert 0 <= told["peak_bytes"] < 64 << 20  # so small a run may be over before anybody has looked
    assert told["read_per_tuple"] == 0


@pytest.mark.slow
def test_the_limit_of_the_environment_is_not_that_of_a_cell(tmp_path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SASH_MEMORY", "64k")
    told = run_cell(SMALL.cell("sash", 0.25), tmp_path, 600, lambda n_rows: None)
    assert told["written_per_tuple"] == 0


def test_a_process_that_takes_too_long_is_left_out(tmp_path):
    told = run_cell(SMALL.cell("tiered", 0.25), tmp_path, 0.01, lambda n_rows: None)
    assert told == {"left_out": "took longer than 0.01 s"}


@pytest.mark.slow
def test_a_process_that_fails_is_an_error(tmp_path):
    with pytest.raises(InternalError, match=r"measuring `nobody` failed: (?s:.*)nobody"):
        run_cell(SMALL.cell("nobody", 0.25), tmp_path, 600, lambda n_rows: None)


@pytest.mark.deep
@pytest.mark.spark
def test_spark_gives_the_same_pairs_from_its_own_process(tmp_path):
    bench = MemoryBench(8 << 20, (0.1,), ("tiered", BUILTIN), step_rows=2_000, n_measured=2, patience_s=600)
    facts = bench_memory(bench, tmp_path, QUIET)
    assert facts["windows"][0]["answer"]["rows"] > 0
    builtin = facts["cells"][1]
    assert builtin["peak_bytes"] > 64 << 20
    _check_told(facts, tmp_path)


def test_bytes_that_are_read_and_written_are_counted_without_the_looks_at_them(tmp_path):
    meter = MovedMeter([os.getpid()])
    before = meter.look()
    assert meter.look() == before
    (tmp_path / "file").write_bytes(bytes(5000))
    (tmp_path / "file").read_bytes()
    after = meter.look()
    assert (after.n_read - before.n_read, after.n_written - before.n_written) == (5000, 5000)


def test_the_peak_is_what_was_there_beside_the_idle_process():
    own = [os.getpid()]
    with PeakWatch(lambda: own) as watch:
        held = np.ones(8 << 20, np.uint8)
        watch.begin(resident_bytes(own) - held.nbytes)
    assert 6 << 20 < watch.peak_bytes < 32 << 20
    assert resident_bytes([0]) == 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"limit_bytes": 1000}, "the memory is 1000 bytes, but must be 64 KiB or more"),
        ({"ratios": ()}, "there must be some, each more than 0"),
        ({"ratios": (0.0, 1.0)}, "there must be some, each more than 0"),
        ({"n_measured": 0}, "must be at least 1"),
    ],
)
def test_what_cannot_be_measured_is_refused(wrong, message):
    with pytest.raises(PlanError, match=message):
        MemoryBench(**wrong)


def _check_told(facts, tmp_path) -> str:
    draw_memory(facts, ENGINES, tmp_path / "memory.png")
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    shown = StringIO()
    show_memory(facts, Console(width=150, file=shown))
    return shown.getvalue()
