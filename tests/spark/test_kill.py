"""Law 4 on Spark, the hard way: the driver, its JVM, workers or all at once die by SIGKILL, and the next run goes on.

Each run below dies, at a place that is named or at a random moment; the last one ends. Together they must have written
what a single run writes, and nothing else. Then one more dies, the input is changed, and a run with `--fresh` must
write the answer to that alone. `SASH_SEED` says at which moments, `SASH_VOLUME` how many times as often.
"""

from __future__ import annotations

import random
from itertools import cycle, islice

import pytest
from tests.spark.dying import IN_WORKERS, OPERATION, VICTIMS
from tests.spark.dying_runs import SCRIPTS, DyingRuns

from support.profiles import SEED, in_depth

pytestmark = [pytest.mark.spark, pytest.mark.slow]

N_OPERATIONS_HIT, N_WORKERS_HIT, N_MOMENTS = in_depth(4), in_depth(3), in_depth(5)
LONGEST_DELAY_SECONDS = 8.0
"""From the first thing that a run writes on; the first batch takes about half of it."""


@pytest.mark.deep  # a run that is killed takes half a minute; every day it is test_shared_kill that kills some
@pytest.mark.parametrize("name", SCRIPTS)
def test_killed_runs_together_write_what_one_run_writes(name, outputs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs, moments = DyingRuns(tmp_path, SCRIPTS[name]), random.Random(f"{SEED} {name}")
    n_operations = runs.count_operations()
    victims = cycle(("jvm", "group", "driver"))
    for number in range(N_OPERATIONS_HIT):
        runs.die_at(OPERATION, int(n_operations * (number + moments.random()) / N_OPERATIONS_HIT), next(victims))
    worker_victims = cycle(("worker", "jvm", "worker", "group"))
    for place in islice(cycle(IN_WORKERS), N_WORKERS_HIT):
        runs.die_at(place, moments.randrange(4), next(worker_victims))
    for _ in range(N_MOMENTS):
        runs.die_after(moments.uniform(0, LONGEST_DELAY_SECONDS), moments.choice([*VICTIMS]))
    runs.add_files()
    runs.end()
    runs.check(outputs)
    runs.die_at(OPERATION, moments.randrange(n_operations), "group")
    runs.change_input()
    runs.end("out.sql", "--fresh")
    runs.check(outputs)
