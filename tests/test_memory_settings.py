"""Where the limit on memory comes from, and what is said of a limit that is none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import sash
from sash.errors import PlanError
from sash.runtime.memory_settings import configured
from sash.store.byte_sizes import parse_bytes


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("SASH_MEMORY", raising=False)
    monkeypatch.delenv("SASH_SPILL", raising=False)
    yield
    sash.configure()


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("64k", 1 << 16),
        ("256 MiB", 1 << 28),
        ("1.5g", 3 << 29),
        ("4 GB", 1 << 32),
        ("100000", 100_000),
        (" 2 T ", 1 << 41),
        ("many", None),
        ("-1", None),
        ("", None),
    ],
)
def test_sizes_as_people_write_them(text: str, n_bytes: int | None) -> None:
    assert parse_bytes(text) == n_bytes


def total(memory: int | str | None = None) -> int | None:
    budget = configured(memory).budget()
    return None if budget is None else budget.state_bytes + budget.step_bytes + budget.disk_bytes


def test_without_a_word_there_is_no_limit() -> None:
    assert total() is None


def test_who_is_nearer_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SASH_MEMORY", "64k")
    assert total() == 1 << 16
    sash.configure(memory="128k", spill=tmp_path)
    assert total() == 1 << 17
    assert total("256k") == 1 << 18
    budget = configured("256k").budget()
    assert budget is not None
    assert budget.spill == tmp_path


@pytest.mark.parametrize("size", ["a lot", "-5", "5 apples"])
def test_what_is_not_a_size(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match=f"`memory` is `{size}`, which is not a size; write it like `256 MiB` or `64k`"):
        sash.configure(memory=size)
    monkeypatch.setenv("SASH_MEMORY", size)
    with pytest.raises(PlanError, match=f"SASH_MEMORY is `{size}`, which is not a size"):
        total()


def test_less_than_any_query_needs() -> None:
    with pytest.raises(PlanError, match="`memory` is `100`, which is less than the 16 KiB that any query needs"):
        sash.Session(memory=100)
