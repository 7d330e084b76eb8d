"""Prices that were measured are used; a file that cannot be used is an error, never a silent default."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sash.cost.choose_join import SHIPPED, AlgorithmPrices, JoinPrices
from sash.cost.disk_prices import SHIPPED_DISK, DiskPrices
from sash.cost.join_cost import JoinCosts
from sash.cost.multiway_prices import MultiwayCosts
from sash.cost.prices import costs_path, load_prices, save_prices
from sash.errors import SourceError

MEASURED = JoinPrices(
    AlgorithmPrices(JoinCosts(1, 2, 3, 4, 5), 6, 7),
    AlgorithmPrices(JoinCosts(2, 2, 3, 4, 5), 6, 7),
    disk=DiskPrices(1e-9, 2e-9, 3e-5),
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SASH_COSTS", str(tmp_path / "deep" / "costs.json"))
    return tmp_path / "deep" / "costs.json"


def test_prices_come_back_as_they_were_saved(path: Path) -> None:
    assert load_prices() is SHIPPED
    assert save_prices(MEASURED, {"sash": "1.2"}) == path
    loaded = load_prices()
    assert (loaded.hash, loaded.buckets, loaded.disk) == (MEASURED.hash, MEASURED.buckets, MEASURED.disk)
    assert str(path) in loaded.origin
    assert json.loads(path.read_text())["sash"] == "1.2"


def test_a_disk_that_was_not_measured_has_the_prices_that_come_with_sash(path: Path) -> None:
    path.parent.mkdir()
    path.write_text(json.dumps({"format": 1, "nanoseconds": ALL}))
    assert load_prices().disk == SHIPPED_DISK


def test_where_the_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SASH_COSTS")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/config")
    assert costs_path() == Path("/config/sash/costs.json")
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", "/arena/you")
    assert costs_path() == Path("/arena/you/.config/sash/costs.json")


ONE = {"scan": 1, "insert": 1, "invalidate": 1, "check": 1, "output": 1, "far_insert": 1, "far_output": 1}
ALL = {"hash": ONE, "buckets": ONE}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "{path} holds no join costs: Expecting property name"),
        ("[1]", "{path} holds no join costs: it has no `format`"),
        (json.dumps({"format": 99}), "{path} holds join costs of format 99, but this version of Sash reads format 1"),
        (json.dumps({"format": 1}), "the join costs in {path} cannot be used: `nanoseconds` is missing"),
        (
            json.dumps({"format": 1, "nanoseconds": {**ALL, "buckets": {"scan": 1}}}),
            "the join costs in {path} cannot be used: `insert` is missing",
        ),
        (
            json.dumps({"format": 1, "nanoseconds": {**ALL, "buckets": {**ONE, "scan": -1}}}),
            "the join costs in {path} cannot be used: prices must be finite and not negative",
        ),
        (
            json.dumps({"format": 1, "nanoseconds": ALL, "disk_seconds": {"write": 1, "read": 0, "access": 1}}),
            "the join costs in {path} cannot be used: a disk takes time, and gives none back, but not so",
        ),
        (
            json.dumps({"format": 1, "nanoseconds": {**ALL, "buckets": {**ONE, "scan": "much"}}}),
            "the join costs in {path} cannot be used: could not convert string to float",
        ),
    ],
)
def test_a_file_that_cannot_be_used(path: Path, content: str, reason: str) -> None:
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(SourceError) as caught:
        load_prices()
    assert str(caught.value).startswith(reason.format(path=path))
    assert str(caught.value).endswith("; run `sash calibrate` to measure anew, or remove the file")


def test_prices_of_joins_of_many_are_kept_as_well(path: Path) -> None:
    doubled = replace(SHIPPED.multiway, merge=MultiwayCosts(1, 2, 3, 4, 5, 6, 7, 8, 9))
    save_prices(replace(MEASURED, multiway=doubled), {})
    assert load_prices().multiway == doubled


def test_an_older_file_has_none_of_joins_of_many(path: Path) -> None:
    save_prices(MEASURED, {})
    told = json.loads(path.read_text())
    del told["multiway_nanoseconds"]
    path.write_text(json.dumps(told))
    assert load_prices().multiway == SHIPPED.multiway
