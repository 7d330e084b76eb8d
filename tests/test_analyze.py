"""EXPLAIN ANALYZE: what was estimated, beside what was measured."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import sash
from sash.cost.join_cost import HASH, WHJ, JoinLoad, JoinMethod
from sash.plan.explain.analysis import work_of_run

JOIN = "SELECT {} A.k FROM a A, b B WHERE A.k = B.k WINDOW 10 SECONDS"


@pytest.fixture(autouse=True)
def without_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is on disk is found by other work than what is in memory, of which estimates speak here."""
    monkeypatch.delenv("SASH_MEMORY", raising=False)


def recorded(seed: int, n_rows: int = 3000, rate: float = 30, n_keys: int = 20) -> pa.Table:
    keys = np.random.default_rng(seed).integers(0, n_keys, n_rows)
    return pa.table({"k": keys, "ts": pa.array((np.arange(n_rows) * 1e6 / rate).astype(int), pa.timestamp("us"))})


def counts(text: str) -> dict[str, tuple[float, float]]:
    """By unit of work: measured and estimated."""
    (line,) = re.findall(r"work +(.*)", text)
    found = re.findall(r"([\d,]+) (\w+) \(estimate ([\d,]+)\)", line)
    return {unit: (float(seen.replace(",", "")), float(told.replace(",", ""))) for seen, unit, told in found}


@pytest.mark.parametrize("hint", ["", "/*+ wnl */", "/*+ whj(8) */", "/*+ whj(8, optimal) */"])
def test_estimates_stand_beside_measurements(hint: str) -> None:
    text = sash.explain(JOIN.format(hint), analyze=True, verbose=True, a=recorded(1), b=recorded(2))
    found = counts(text)
    assert list(found) == ["scans", "insertions", "invalidations", "checks", "outputs"]
    for unit, (seen, told) in found.items():
        assert seen == pytest.approx(told, rel=0.15), unit
    assert found["insertions"][0] == 6000
    changes = sash.sql(JOIN.format(hint), a=recorded(1), b=recorded(2))
    assert found["outputs"][0] == changes.num_rows
    assert f"6,000 rows in, {changes.num_rows:,} out" in text
    assert "replanned  never" in text


def test_without_statistics_only_what_was_measured_is_told() -> None:
    text = sash.explain(JOIN.format(""), analyze=True, verbose=True, a=recorded(1), b=recorded(2, n_rows=1))
    assert "rates unknown" in text
    assert "estimate" not in text
    assert re.search(r"work +\d+ scans; 3,001 insertions;", text)


def test_explain_alone_runs_nothing() -> None:
    text = sash.explain(JOIN.format(""), a=recorded(1), b=recorded(2))
    assert "measured" not in text


@pytest.mark.parametrize("method", [JoinMethod(HASH), JoinMethod(WHJ, 4)])
def test_a_run_begins_with_empty_windows(method: JoinMethod) -> None:
    """Of 10 tuples per second in 5 seconds, each meets half of the other window on average, and none leaves."""
    load = JoinLoad((10, 10), (60, 60), 2)
    work = work_of_run(method, load, 5)
    assert (work.insertions, work.invalidations, work.outputs) == (100, 0, 2 * 50 * 25 / 2)
    long = work_of_run(method, load, 6000)
    assert long.outputs == pytest.approx(120_000 * 300, rel=0.01)
    assert long.invalidations == 20 * 5940


def test_a_join_of_many_tells_its_work_and_its_last_probe_orders() -> None:
    """C has a tenth of the rows, so A and B look there first."""
    sql = "SELECT A.k FROM a A, b B, c C WHERE A.k = B.k AND B.k = C.k WINDOW (A, B) = 2 S AND WINDOW (B, C) = 1 S"
    frames = {"a": recorded(1), "b": recorded(2), "c": recorded(3, n_rows=300, rate=3)}
    text = sash.explain(sql, analyze=True, verbose=True, **frames)
    (work,) = re.findall(r"work +(.*)", text)
    seen = {unit: int(count.replace(",", "")) for count, unit in re.findall(r"([\d,]+) (\w+)", work)}
    assert list(seen) == ["comparisons", "insertions", "removals", "checks", "outputs"]
    assert seen["insertions"] == 6300
    assert seen["outputs"] == sash.sql(sql, **frames).num_rows
    assert seen["comparisons"] >= seen["outputs"]
    (orders,) = re.findall(r"probed +(.*)", text)
    assert re.fullmatch(r"A: C, then B; B: C, then A; C: ., then ., at the end", orders)
    assert "graph LR\n    A ---|2 seconds| B\n" in text


def test_an_algorithm_without_probe_orders_tells_none() -> None:
    sql = "SELECT /*+ hw */ A.k FROM a A, b B, c C WHERE A.k = B.k AND B.k = C.k WINDOW 1 SECOND"
    text = sash.explain(
        sql, analyze=True, verbose=True, **{name: recorded(seed, 300) for seed, name in enumerate("abc")}
    )
    assert "algorithm  HW-join" in text
    assert "comparisons" in text
    assert "prob" not in text


def test_in_short_an_operator_ends_with_what_it_has_done() -> None:
    text = sash.explain(JOIN.format(""), analyze=True, a=recorded(1, 300), b=recorded(2, 300))
    n_changes = sash.sql(JOIN.format(""), a=recorded(1, 300), b=recorded(2, 300)).num_rows
    (join,) = [line for line in text.splitlines() if "WindowJoin" in line]
    assert re.search(rf"keeps A 10 seconds, B 10 seconds +600 rows in, {n_changes:,} out, [\d,]+\.\d ms$", join)
    assert text.count(" rows in, ") == 4, "two streams are put in order, joined and projected"
