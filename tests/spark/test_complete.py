"""Completing a stream that is not there is refused with the nearest name: nothing would ever come of it."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import sash
from sash.errors import BindError
from sash.spark.control import Punctuation, hear

TEXT = "SELECT k, v FROM readings [RANGE 5 SECONDS]"
MISSING = "there is no stream `readngs` to complete; did you mean `readings`?"


@pytest.fixture
def readings(spark: SparkSession, tmp_path: Path):
    (tmp_path / "in").mkdir()
    return spark.readStream.schema("ts timestamp, k int, v int").parquet(str(tmp_path / "in"))


def test_by_the_frame(readings) -> None:
    out = sash.sql(TEXT, readings=readings)
    with pytest.raises(BindError, match=MISSING):
        sash.complete(out, "readngs")
    with pytest.raises(BindError, match="is no instant"):
        sash.complete(out, "readings", 1.5)  # type: ignore[arg-type]
    sash.complete(out, "Readings", datetime(2026, 1, 1))
    control = out._sash_control
    said = [hear(path.read_bytes(), str(path), control.stamp) for path in control.directory.glob("[!.]*")]
    assert said == [Punctuation("readings", 1767225600000000)]


def test_by_the_handle_of_a_session(readings, tmp_path: Path) -> None:
    session = sash.Session()
    session.stream("readings", readings)
    session.query("all", TEXT, into=tmp_path / "all")
    handle = session.run(checkpoint=tmp_path / "checkpoint")
    try:
        with pytest.raises(BindError, match=MISSING):
            handle.complete("readngs")
        handle.complete("READINGS", datetime(2026, 1, 1))
    finally:
        handle.stop()
