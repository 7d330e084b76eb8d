"""The grid of loads of joins of many streams, and what is told of a choice."""

from __future__ import annotations

import json
import sys

import pytest

from sash.cli.main import main
from sash.cost.choose_join import SHIPPED
from sash.cost.multiway_cost import MW, PROBE
from sash.embedded.multiway_load import even_many_load
from sash.lab.bench import algorithm_choice
from sash.lab.bench.algorithm_choice import ManyCell, algorithm_facts, many_grid, measure_many_cell

LOAD = even_many_load(3, 500, 0.01, None, slow=100, share=0.1)


def test_the_grid_has_sixty_loads_of_all_kinds() -> None:
    loads = many_grid()
    assert len(loads) == len(set(loads)) == 60
    assert {load.n_inputs for load in loads} == {3, 4}
    assert {round(max(map(max, load.reach_s)), 2) for load in loads} == {0.01, 0.1, 1.0, 10.0}
    for kind in (lambda load: load.matches, lambda load: load.conditions, lambda load: load.has_one_window):
        assert 10 < sum(map(bool, map(kind, loads))) < 50


def test_a_cell_has_the_choice_and_the_best_with_their_work() -> None:
    cell = measure_many_cell(LOAD, SHIPPED, 256)
    assert cell.measured[cell.best] == min(cell.measured.values())
    assert {cell.chosen, PROBE} <= set(cell.measured)
    assert cell.ratio >= 1
    assert cell.counted.keys() == cell.measured.keys()
    n_found = [counts[-1] for name, counts in cell.counted.items() if name != PROBE]
    assert max(n_found) < 3 * min(n_found) + 1, "all find the same; probes count what passes the conditions"


def test_choices_within_a_fifth_are_good() -> None:
    work = {PROBE: (1.0,) * 5, MW: (1.0,) * 5}
    cells = [ManyCell(LOAD, PROBE, MW, {PROBE: ns, MW: 100.0}, work) for ns in (110.0, 119.0, 150.0)]
    facts = algorithm_facts(cells, SHIPPED)
    assert (facts["good"], facts["worst"]) == (2, 1.5)


@pytest.mark.slow
def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr(algorithm_choice, "many_grid", lambda: [LOAD] * 15)
    monkeypatch.setenv("COLUMNS", "160")
    monkeypatch.setattr(sys, "argv", ["sash", "bench", "algorithms", "--quick", "--tuples", "256"])
    main()
    assert "of 2 choices are the best algorithm, or within 20% of it" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["sash", "bench", "algorithms", "--quick", "--tuples", "256", "--json"])
    main()
    assert len(json.loads(capsys.readouterr().out)["cells"]) == 2
