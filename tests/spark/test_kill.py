"""Law 4 on Spark, the hard way: the driver, its JVM, workers or all at once die by SIGKILL, and the next run goes on.

Each run below dies, at a place that is named or at a random moment; the last one ends. Together they must have written
what a single run writes, and nothing else. Then one more dies, the input is changed, and a run with `--fresh` must
write the answer to that alone. `SASH_SEED` says at which moments.
"""

from __future__ import annotations

import random
from itertools import cycle, islice

import pytest
from tests.spark.dying import IN_WORKERS, OPERATION, VICTIMS
from tests.spark.dying_runs import SCRIPTS, DyingRuns

from support.profiles import SEED, everyday, volume

pytestmark = [pytest.mark.spark, pytest.mark.slow]

OFTEN = ("EXCEPT",)
"""Of those that share a join, test_shared_kill has some every time."""
LONGEST_DELAY_SECONDS = 8.0
"""From the first thing that a run writes on; the first batch takes about half of it."""


@pytest.mark.parametrize("name", everyday(OFTEN, SCRIPTS))
def test_killed_runs_together_write_what_one_run_writes(name, outputs, tmp_path, monkeypatch):
    n_operations_hit, n_workers_hit, n_moments = volume(dev=(1, 1, 1), ci=(1, 1, 1), deep=(9, 6, 15))
    monkeypatch.chdir(tmp_path)
    runs, moments = DyingRuns(tmp_path, SCRIPTS[name]), random.Random(f"{SEED} {name}")
    n_operations = runs.count_operations()
    victims = cycle(("jvm", "group", "driver"))
    for number in range(n_operations_hit):
        runs.die_at(OPERATION, int(n_operations * (number + moments.random()) / n_operations_hit), next(victims))
    worker_victims = cycle(("worker", "jvm", "worker", "group"))
    for place in islice(cycle(IN_WORKERS), n_workers_hit):
        runs.die_at(place, moments.randrange(4), next(worker_victims))
    for _ in range(n_moments):
        runs.die_after(moments.uniform(0, LONGEST_DELAY_SECONDS), moments.choice([*VICTIMS]))
    runs.add_files()
    runs.end()
    runs.check(outputs)
    runs.die_at(OPERATION, moments.randrange(n_operations), "group")
    runs.change_input()
    runs.end("out.sql", "--fresh")
    runs.check(outputs)
