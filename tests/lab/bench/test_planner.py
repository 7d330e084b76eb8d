"""The grid of loads, and what is told of a choice."""

from __future__ import annotations

import json
import sys

import pytest

from sash.cli.main import main
from sash.cost.choose_join import SHIPPED
from sash.cost.join_cost import HASH, WNL, JoinMethod
from sash.lab.bench import planner_choice
from sash.lab.bench.planner_choice import Cell, GridLoad, grid, measure_cell, planner_facts


def test_there_are_fifty_loads_from_tiny_to_large() -> None:
    loads = [workload.load for workload in grid()]
    assert len(loads) == len(set(loads)) == 50
    sizes = [load.window_tuples(0) + load.window_tuples(1) for load in loads]
    assert min(sizes) == 2
    assert max(sizes) == 2_000_000


def test_a_cell_has_the_choice_and_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_choice, "N_FINAL_ROUNDS", 1)
    cell = measure_cell(GridLoad(100, 20, 1, 10), SHIPPED)
    assert cell.measured[cell.best] == min(cell.measured.values())
    assert cell.chosen in cell.measured
    assert cell.ratio >= 1
    assert len(cell.measured) > 5


def test_choices_within_a_fifth_are_good() -> None:
    workload, chosen, best = GridLoad(1, 1, 1, 1), JoinMethod(HASH), JoinMethod(WNL)
    cells = [Cell(workload, chosen, best, {chosen: ns, best: 100.0}) for ns in (110.0, 119.0, 121.0)]
    facts = planner_facts(cells, SHIPPED)
    assert facts["good"] == 2
    assert [cell["ratio"] for cell in facts["cells"]] == pytest.approx([1.1, 1.19, 1.21])


@pytest.mark.slow
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(planner_choice, "grid", lambda: [GridLoad(10, 1, 1, 10)] * 15)
    monkeypatch.setattr(planner_choice, "N_FINAL_ROUNDS", 1)
    monkeypatch.setenv("COLUMNS", "150")
    monkeypatch.setattr(sys, "argv", ["sash", "bench", "planner", "--quick"])
    main()
    assert "of 2 choices are the best method, or within 20% of it; prices shipped with Sash" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["sash", "bench", "planner", "--quick", "--json"])
    main()
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 2
