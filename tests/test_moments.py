"""What users may pass for an instant or a length of time, and what they are told otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sash.errors import BindError
from sash.runtime.moments import length_us, moment_us

NEW_YEAR_US = 1_767_225_600_000_000


@pytest.mark.parametrize(
    "moment",
    [
        NEW_YEAR_US,
        np.int64(NEW_YEAR_US),
        datetime(2026, 1, 1),
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        pd.Timestamp("2026-01-01 00:00:00.000000999"),
        np.datetime64("2026-01-01"),
        "2026-01-01 00:00:00",
        "2026-01-01T02:00:00+02:00",
        np.datetime64(NEW_YEAR_US * 1000 + 999, "ns"),
    ],
)
def test_an_instant(moment: Any) -> None:
    assert moment_us(moment) == NEW_YEAR_US


@pytest.mark.parametrize(
    "moment", [date(2026, 1, 1), 1.5, True, None, "soon", "infinity", pd.NaT, np.datetime64("NaT")]
)
def test_what_is_no_instant_is_told(moment: Any) -> None:
    with pytest.raises(BindError, match="is no instant; give a datetime"):
        moment_us(moment)


@pytest.mark.parametrize(
    "moment",
    [
        2**63 - 1,
        2**70,
        np.datetime64("600000-01-01"),
        np.datetime64(2**62, "Y"),
        np.datetime64(2**62, "s"),
        pd.Timestamp(np.datetime64("600000-01-01", "s")),
    ],
    ids=repr,
)
def test_an_instant_beyond_all_times_is_told(moment: Any) -> None:
    with pytest.raises(BindError, match="is no time: times lie between"):
        moment_us(moment)


def test_pandas_reaches_further_than_python() -> None:
    assert moment_us(pd.Timestamp(np.datetime64("290000-01-01", "s"))) == 9_089_348_860_800_000_000
    assert moment_us(pd.Timestamp("2026-01-01 02:00", tz="+02:00")) == NEW_YEAR_US


def test_every_unit_of_numpy_is_read_exactly() -> None:
    assert length_us(np.timedelta64(20_000_000_000, "s"), "slack") == 20_000_000_000_000_000
    assert length_us(np.timedelta64(3, "W"), "slack") == 3 * 7 * 86_400_000_000
    assert length_us(np.timedelta64(1, "as"), "slack") == 1
    assert length_us(np.timedelta64(2**62, "ns"), "slack") == -(-(2**62) // 1000)


@pytest.mark.parametrize(
    "length", ["5 seconds", timedelta(seconds=5), pd.Timedelta("5s"), np.timedelta64(5, "s"), pd.Timedelta(4999999999)]
)
def test_a_length(length: Any) -> None:
    assert length_us(length, "slack") == 5_000_000


def test_none_at_all_needs_no_unit() -> None:
    assert length_us(0, "slack") == 0


@pytest.mark.parametrize(
    "length", [5, 5.5, np.int64(5), True, b"5", pd.NaT, np.timedelta64(5), np.timedelta64(1, "M"), np.array([5, 6])]
)
def test_a_number_alone_is_no_length(length: Any) -> None:
    with pytest.raises(BindError, match=r"`slack` is .*, which does not say of which unit; give a text"):
        length_us(length, "slack")


@pytest.mark.parametrize("length", [timedelta(seconds=-1), timedelta.max, np.timedelta64(2**62, "D")])
def test_a_length_out_of_range(length: timedelta) -> None:
    with pytest.raises(BindError, match="give a length of time from zero to"):
        length_us(length, "slack")
