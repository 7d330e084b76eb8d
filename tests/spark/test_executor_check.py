"""What is said of executors that cannot run a query, and that those of a cluster are asked."""

from __future__ import annotations

from pathlib import Path

import pytest

import sash
from sash.errors import ResourceError
from sash.spark import executor_check
from sash.spark.executor_check import SHARED_PATH, Told, ask_executors, complaint_of, require_executors

RIGHT = Told("node1", "/usr/bin/python3", sash.__version__, "", "token")
SHARED = Path("/shared/checkpoint")
PYTHON = "the Python of `node1` (`/usr/bin/python3`)"
INSTALL = f"install Sash {sash.__version__} there, or let PYSPARK_PYTHON name a Python that has it"


@pytest.mark.parametrize(
    ("told", "complaint"),
    [
        (RIGHT, None),
        (
            RIGHT._replace(version="", missing="sash"),
            f"{PYTHON} has no module `sash`; {INSTALL}",
        ),
        (
            RIGHT._replace(version="", missing="numba"),
            f"{PYTHON} has no module `numba`; {INSTALL}",
        ),
        (
            RIGHT._replace(version="0.0.1"),
            f"{PYTHON} has Sash 0.0.1, but this process has {sash.__version__}; install the same one on all machines",
        ),
        (
            RIGHT._replace(seen=""),
            f"`node1` does not see `/shared/checkpoint` as this machine does; {SHARED_PATH}",
        ),
    ],
)
def test_one_sentence_each(told: Told, complaint: str | None) -> None:
    assert complaint_of(told, "token", SHARED, SHARED_PATH) == complaint


def test_workers_say_what_they_have(spark, tmp_path):
    (tmp_path / "token").write_text("token")
    told = ask_executors(spark, tmp_path / "token")
    assert {each._replace(host="node1", python="/usr/bin/python3") for each in told} == {RIGHT}
    assert {each.seen for each in ask_executors(spark, tmp_path / "none")} == {""}


def test_a_cluster_is_asked_once_and_before_anything_starts(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(executor_check, "count_local_cores", lambda master: None)
    monkeypatch.setattr(executor_check, "_asked", set())
    answers = [[RIGHT._replace(seen="")]]
    monkeypatch.setattr(executor_check, "ask_executors", lambda spark, path: answers.pop())
    with pytest.raises(ResourceError, match="`node1` does not see"):
        require_executors(spark, tmp_path, SHARED_PATH)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(executor_check, "ask_executors", lambda spark, path: [RIGHT._replace(seen=path.read_text())])
    require_executors(spark, tmp_path, SHARED_PATH)
    monkeypatch.setattr(executor_check, "ask_executors", lambda spark, path: answers.pop())
    require_executors(spark, tmp_path, SHARED_PATH)
