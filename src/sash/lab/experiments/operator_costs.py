"""What a tuple costs in an operator of each kind: measured once, so that experiments repeat exactly.

A tuple that an operator finds to expire by itself costs as much as one that is told to it; and a kind costs about the
same under every schedule. To measure anew:

    python -m sash.lab.experiments.operator_costs
"""

from __future__ import annotations

COSTS_US = {
    "Distinct": 0.8,
    "Expire": 0.15,
    "GroupBy": 0.75,
    "LookupJoin": 0.13,
    "Membership": 0.9,
    "Project": 0.3,
    "Reorder": 0.05,
    "WindowJoin": 0.42,
}
"""Microseconds of CPU time per tuple that enters or expires, in batches of 10,000 rows with 60,000 in a window."""
BATCH_US, N_BATCHES, N_FILLING = 5_000_000, 26, 8


def measure_costs(schedule: str) -> dict[str, float]:
    """The table above, of this machine, over all queries under one schedule."""
    from sash.lab.experiments.scheduling import SalesWorkload, VirtualRun, kind_of
    from sash.lab.workloads.arrivals import START_US
    from sash.lab.workloads.retail import QUERIES, Retail

    retail = Retail(rate=2_000, duration_us=BATCH_US * N_BATCHES, window_us=30_000_000)
    total: dict[str, list[float]] = {}
    for query in QUERIES:
        run = VirtualRun(SalesWorkload(query, retail), schedule)
        for number in range(N_BATCHES):
            if number == N_FILLING:
                run.start_counting()
            run.tick(START_US + number * BATCH_US, START_US + (number + 1) * BATCH_US)
        for name, n_rows in run.rows_in.items():
            counted = total.setdefault(kind_of(name), [0, 0])
            counted[0] += n_rows + run.expired[name]
            counted[1] += run.cpu_seconds[name]
    return {kind: round(seconds / n_rows * 1e6, 2) for kind, (n_rows, seconds) in sorted(total.items())}


if __name__ == "__main__":
    for schedule in ("tpa", "nta", "hybrid"):
        print(schedule, measure_costs(schedule))
