"""What queries on Spark are expected to keep under a limit on memory, for EXPLAIN."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from sash.plan.memory_forecast import MemoryForecast, forecast_memory
from sash.plan.physical import Plan
from sash.spark.machine_budget import MachineBudget
from sash.spark.session_settings import LOCAL_DIRECTORY


def forecast_on_machine(
    budget: MachineBudget, plans: Iterable[Plan], tables: Mapping[str, pa.Table] | None = None
) -> MemoryForecast | None:
    """Of plans that run together, on a machine that has all groups; None if there is no limit. Of `tables` it is known
    how large they are.
    """
    if not budget.n_bytes:
        return None
    machine = budget.of_machine(Path(LOCAL_DIRECTORY))
    found = forecast_memory(plans, machine, tables, budget.n_running)
    return replace(found, n_bytes=budget.n_bytes, is_of_each_machine=True)
