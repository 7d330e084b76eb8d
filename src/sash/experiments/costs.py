"""What a tuple costs in an operator of each kind, under each schedule: measured once, so that experiments repeat.

A tuple that an operator finds to expire by itself costs as much as one that is told to it. To measure anew:

    python -m sash.experiments.costs
"""

from __future__ import annotations

COSTS_US: dict[str, dict[str, float]] = {
    "tpa": {
        "Distinct": 1.70,
        "GroupBy": 1.59,
        "LookupJoin": 0.12,
        "Membership": 1.66,
        "Project": 0.34,
        "Reorder": 0.04,
        "WindowJoin": 0.48,
    },
    "nta": {
        "Distinct": 1.04,
        "Expire": 0.23,
        "GroupBy": 0.73,
        "LookupJoin": 0.10,
        "Membership": 0.91,
        "Project": 0.23,
        "Reorder": 0.04,
        "WindowJoin": 0.31,
    },
    "hybrid": {
        "Distinct": 0.96,
        "Expire": 0.39,
        "GroupBy": 0.73,
        "LookupJoin": 0.11,
        "Membership": 0.87,
        "Project": 0.22,
        "Reorder": 0.04,
        "WindowJoin": 0.36,
    },
}
"""Microseconds of CPU time per tuple that enters or expires, in batches of 10,000 rows of each stream with 60,000 of them in a window."""


def measure_costs() -> dict[str, dict[str, float]]:
    """The table above, of this machine, over all queries."""
    from sash.experiments.scheduling import VirtualRun, Workload, kind_of
    from sash.workloads.datacenter import START_US
    from sash.workloads.retail import QUERIES, Retail

    retail = Retail(rate=2_000, duration_us=130_000_000, window_us=30_000_000)
    costs: dict[str, dict[str, float]] = {}
    for schedule in COSTS_US:
        total: dict[str, list[float]] = {}
        for query in QUERIES:
            run = VirtualRun(Workload(query, retail), schedule)
            for number in range(26):
                if number == 8:
                    run.start_counting()
                run.tick(START_US + number * 5_000_000, START_US + (number + 1) * 5_000_000)
            for name, n_rows in run.rows_in.items():
                counted = total.setdefault(kind_of(name), [0, 0])
                counted[0] += n_rows + run.expired[name]
                counted[1] += run.cpu_seconds[name]
        costs[schedule] = {kind: round(seconds / n_rows * 1e6, 2) for kind, (n_rows, seconds) in sorted(total.items())}
    return costs


if __name__ == "__main__":
    for schedule, told in measure_costs().items():
        print(f'    "{schedule}": {told},')
