"""`sash bench` as a user meets it, as far as it goes without Spark."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sash.cli.main import main
from sash.lab.bench.agreement import check_agreement


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """The exit code, stdout and stderr of a command run in this process, in the test's directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "150")

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["sash", "bench", *arguments])
        try:
            main()
            code = 0
        except SystemExit as exit:
            code = int(exit.code or 0)
        return code, *capsys.readouterr()

    return run


def test_without_a_command_it_says_which_there_are(run):
    code, shown, errors = run()
    assert (code, errors) == (0, "")
    assert "join" in shown
    assert "window" in shown


JOIN = ("join", "--engines", "duckdb", "--tuples", "2000", "--batch", "400", "--window", "10 ms")


@pytest.mark.slow
def test_join_writes_json_and_png_and_removes_its_files(run, tmp_path):
    code, shown, errors = run(*JOIN)
    assert code == 0, errors
    assert "written to bench-join/join.json and bench-join/join.png" in shown
    facts = json.loads((tmp_path / "bench-join" / "join.json").read_text())
    assert facts["answer"]["rows"] > 0
    assert facts["ratios"] == {"sash/builtin": None, "sash/duckdb": None}
    assert sorted(path.name for path in (tmp_path / "bench-join").iterdir()) == ["join.json", "join.png"]


@pytest.mark.slow
def test_in_this_process_sash_and_duckdb_give_the_same_table(run, tmp_path):
    options = ("--engine", "embedded", "--tuples", "2000", "--batch", "400", "--window", "10 ms", "--payload", "wide")
    code, shown, errors = run("join", *options)
    assert code == 0, errors
    assert "DuckDB, ordered" in shown
    facts = json.loads((tmp_path / "bench-join" / "join.json").read_text())
    assert facts["answer"]["rows"] > 0
    assert set(facts["ratios"]) == {"sash/duckdb", "sash/duckdb_ordered"}
    assert sorted(path.name for path in (tmp_path / "bench-join").iterdir()) == ["join.json", "join.png"]


@pytest.mark.slow
def test_json_is_for_machines_and_a_seed_for_repetition(run):
    answers = [json.loads(run(*JOIN, "--json", "--seed", seed)[1])["answer"] for seed in ("3", "3", "4")]
    assert answers[0] == answers[1] != answers[2]


@pytest.mark.slow
def test_kept_files_are_not_mixed_with_others(run, tmp_path):
    assert run(*JOIN, "--keep")[0] == 0
    assert {path.name for path in (tmp_path / "bench-join" / "files").iterdir()} == {"streams", "duckdb"}
    code, _, errors = run(*JOIN, "--keep")
    assert code == 1
    assert "holds the files of an earlier benchmark; remove it, or name another --out" in errors


def test_a_mismatch_is_an_error(run, monkeypatch):
    """Against an engine that gives no rows at all."""

    def check(outputs, columns, condition):
        return check_agreement(outputs | {"nothing": []}, columns, condition)

    monkeypatch.setattr("sash.lab.bench.compare_engines.check_agreement", check)
    code, shown, errors = run(*JOIN)
    assert (code, shown) == (1, "")
    assert "error: the answers differ: `duckdb` gives" in errors
    assert "only `duckdb`, not `nothing`: k = " in errors


@pytest.mark.slow
def test_window_in_this_process(run, tmp_path):
    options = ("--engine", "embedded", "--base", "10 ms", "--factors", "1,2", "--batch", "400", "--measured", "2")
    code, shown, errors = run("window", *options)
    assert code == 0, errors
    assert "Sash, embedded: longer windows, as many matches" in shown
    steps = json.loads((tmp_path / "bench-window" / "window.json").read_text())["steps"]
    assert [step["factor"] for step in steps] == [1, 2]
    assert (tmp_path / "bench-window" / "window.png").exists()


MULTIWAY = ("multiway", "--tuples", "1800", "--rate", "2000", "--keys", "50", "--window", "50 ms", "--batch", "300")


@pytest.mark.slow
def test_multiway_in_this_process(run, tmp_path):
    code, shown, errors = run(*MULTIWAY, "--engine", "embedded")
    assert code == 0, errors
    assert "3 streams of 2,000 tuples/s each: a tuple completes 4 combinations" in shown
    facts = json.loads((tmp_path / "bench-multiway" / "multiway.json").read_text())
    assert facts["spark"] is None
    assert facts["embedded"]["answer"]["rows"] > 1000
    written = sorted(path.name for path in (tmp_path / "bench-multiway").iterdir())
    assert written == ["multiway.json", "multiway.png"]


@pytest.mark.slow
def test_multiway_takes_more_streams_and_a_share_of_them_for_spark(run):
    options = ("--streams", "4", "--share", "0.5", "--spark-batch", "80", "--engines", "duckdb", "--json")
    facts = json.loads(run(*MULTIWAY, *options)[1])
    assert facts["embedded"]["workload"]["n_streams"] == facts["spark"]["workload"]["n_streams"] == 4
    assert (facts["spark"]["workload"]["rate"], facts["spark"]["workload"]["n_keys"]) == (1000, 25)
    assert facts["spark"]["answer"]["rows"] > 0
    assert list(facts["spark"]["engines"]) == ["duckdb"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("join", "--engines", "flink"), "there is no engine `flink`"),
        (("join", "--window", "a while"), "a while"),
        (("join", "--payload", "huge"), "`payload` is huge, but must be none, wide or a width"),
        (("multiway", "--streams", "9"), "`streams` is 9, but must be 2 to 8"),
        (("multiway", "--share", "2"), "the share is 2, but must be above 0 and at most 1"),
        (("window", "--factors", "1;2"), "the factors are `1;2`, but must be whole numbers with commas between them"),
    ],
    ids=["engine", "window", "payload", "streams", "share", "factors"],
)
def test_mistakes_have_reasons(run, arguments, reason):
    code, shown, errors = run(*arguments)
    assert (code, shown) == (1, "")
    assert reason in errors
    assert not list(Path.cwd().iterdir())
