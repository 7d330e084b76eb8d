"""The command line as a user meets it: outputs, and for every mistake a reason and no traceback."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from support.commands import run_command

SCRIPT = """CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts FROM 'a' FORMAT csv;
CREATE STREAM b (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts FROM 'b' FORMAT json;
CREATE TABLE names (k VARCHAR, name VARCHAR) FROM 'names.csv' FORMAT csv;
CREATE QUERY pairs AS
  SELECT A.id AS a, B.id AS b, N.name FROM a A, b B, names N WHERE A.k = B.k AND N.k = A.k WINDOW 5 SECONDS
  INTO 'out/pairs' FORMAT csv;
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "1.csv").write_text("id,k,ts\n1,x,2026-01-01 00:00:01\n2,y,2026-01-01 00:00:03\n")
    (tmp_path / "b" / "1.json").write_text('{"id": 1, "k": "x", "ts": "2026-01-01T00:00:04"}\n')
    (tmp_path / "names.csv").write_text("k,name\nx,ex\ny,why\n")
    (tmp_path / "script.sql").write_text(SCRIPT)
    return tmp_path


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def sash(place, monkeypatch, capsys) -> Callable[..., Done]:
    """Runs the command in this process, in the test's directory."""
    monkeypatch.chdir(place)
    monkeypatch.setattr("sash.cli.show.console", Console(width=200))

    def run(*arguments: str) -> Done:
        return Done(run_command(monkeypatch, *arguments), *capsys.readouterr())

    return run


def test_run_writes_changes_and_says_what_it_did(place, sash):
    done = sash("run", "script.sql", "--engine", "embedded")
    assert done.returncode == 0, done.stderr
    assert "pairs: 3 rows read = 3 accepted + 0 late + 0 rejected; 1 changes in out/pairs" in done.stdout
    (part,) = (place / "out" / "pairs").glob("*/*.csv")
    assert part.read_text().splitlines()[1] == '1,1,"ex",1,2026-01-01 00:00:04.000000,2026-01-01 00:00:06.000000'


def test_no_changes_are_shown_if_none_are_asked_for(place, sash):
    assert "the newest 1 of 1 changes" in sash("run", "script.sql", "--engine", "embedded").stdout
    done = sash("run", "script.sql", "--engine", "embedded", "--fresh", "--rows", "0")
    assert "the newest 0 of 1 changes" in done.stdout


def test_parameters_have_their_values(place, sash):
    script = SCRIPT.replace("N.k = A.k", "N.k = A.k AND N.name = $name AND A.id < $most")
    (place / "script.sql").write_text(script)
    done = sash("run", "script.sql", "--engine", "embedded", "--param", "name=ex", "--param", "most=1", "--json")
    assert json.loads(done.stdout)["queries"]["pairs"]["n_changes"] == 0
    assert "N.name = 'ex'" in sash("explain", "script.sql", "--param", "name=ex", "--param", "most=2").stdout
    done = sash("verify", "script.sql", "--param", "name=ex")
    assert (done.returncode, "the parameter `$most` has no value" in done.stderr) == (1, True)


def test_json_is_for_machines(place, sash):
    done = sash("run", "script.sql", "--engine", "embedded", "--json")
    assert json.loads(done.stdout)["queries"]["pairs"]["n_changes"] == 1


@pytest.mark.slow
def test_outputs_of_an_earlier_run_are_not_mixed(place, sash):
    sash("run", "script.sql", "--engine", "embedded")
    again = sash("run", "script.sql", "--engine", "embedded")
    assert (again.returncode, again.stdout) == (1, "")
    assert "--fresh" in again.stderr
    assert sash("run", "script.sql", "--engine", "embedded", "--fresh").returncode == 0


def test_rejected_records_are_counted_and_kept(place, sash):
    (place / "a" / "2.csv").write_text("id,k,ts\nthree,x,2026-01-01 00:00:05\n4,x,2026-01-01 00:00:05\n")
    done = sash("run", "script.sql", "--engine", "embedded")
    assert "5 rows read = 4 accepted + 0 late + 1 rejected" in done.stdout
    (part,) = (place / "out" / "pairs.rejects").glob("*/*.json")
    reject = json.loads(part.read_text())
    assert (Path(reject["file"]).name, reject["line"], reject["text"]) == ("2.csv", 2, "three,x,2026-01-01 00:00:05")


def test_explain_needs_no_data(place, sash):
    (place / "a" / "1.csv").unlink()
    done = sash("explain", "script.sql")
    assert done.returncode == 0
    assert "WindowJoin  A.k = B.k, by hash" in done.stdout
    assert "keeps A 5 seconds, B 5 seconds" in done.stdout
    done = sash("explain", "script.sql", "--verbose")
    assert done.returncode == 0
    assert "hash join: one table of keys for both sides" in done.stdout


def test_explain_can_run_the_query_and_leaves_nothing_behind(place, sash):
    assert "3 rows in, 1 out, " in sash("explain", "script.sql", "--analyze").stdout
    done = sash("explain", "script.sql", "--analyze", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "3 rows in, 1 out; at most 3 rows in state" in done.stdout
    assert "3 insertions" in done.stdout
    assert not (place / "out").exists()


def test_explain_says_what_a_limit_on_memory_would_mean(place, sash):
    assert "Memory:" not in sash("explain", "script.sql").stdout
    unknown = "; what does not fit goes to disk, how much is unknown"
    done = sash("explain", "script.sql", "--memory", "256m")
    assert done.stdout.splitlines()[-1].startswith(f"Memory: 256 MiB of each machine{unknown}")
    done = sash("explain", "script.sql", "--memory", "256m", "--engine", "embedded")
    assert done.stdout.splitlines()[-1].startswith(f"Memory: 256 MiB{unknown}")
    done = sash("explain", "script.sql", "--memory", "256m", "--analyze")
    assert "Memory: 256 MiB; all has fitted: nothing was written" in done.stdout
    done = sash("explain", "script.sql", "--memory", "much")
    assert (done.returncode, "--memory is `much`, which is not a size" in done.stderr) == (1, True)
    done = sash("explain", "script.sql", "--memory", "12", "--engine", "embedded")
    assert done.returncode == 1
    assert "`memory` is `12`, which is less than the 16 KiB that any query needs" in done.stderr


def test_broken_costs_are_named(place, sash, monkeypatch):
    (place / "costs.json").write_text("{}")
    monkeypatch.setenv("SASH_COSTS", str(place / "costs.json"))
    done = sash("explain", "script.sql")
    assert done.returncode == 1
    assert "costs.json holds no join costs: it has no `format`; run `sash calibrate`" in done.stderr


def test_verify_compares_with_duckdb(place, sash):
    done = sash("verify", "script.sql")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ("pairs: agrees at 18 of 18 instants; 3 rows read, 1 changes, 3 rows of answers compared\n")
    assert not (place / "out").exists()


def test_verify_tells_machines(place, sash):
    done = sash("verify", "script.sql", "--json", "--instants", "5", "--query", "pairs")
    facts = json.loads(done.stdout)["queries"]["pairs"]
    assert (facts["agrees"], facts["n_instants"], facts["differences"]) == (True, 5, [])


@pytest.mark.slow
def test_verify_shows_what_differs_and_fails(place, sash, monkeypatch):
    module = sys.modules["sash.oracle.verification"]
    run_tables = module.run_tables

    def run_badly(*arguments):
        changes, finished = run_tables(*arguments)
        return changes.slice(1), finished

    monkeypatch.setattr(module, "run_tables", run_badly)
    done = sash("verify", "script.sql", "--all")
    assert done.returncode == 1
    assert "pairs: differs at 3 of 18 instants (18 in all)" in done.stdout
    assert "first at 2026-01-01 00:00:04:" in done.stdout
    assert "│ missing │      1 │ 1 │ 1 │ ex   │" in done.stdout
    differing = json.loads(sash("verify", "script.sql", "--json").stdout)["queries"]["pairs"]["differences"]
    assert differing[0]["rows"] == [{"_is": "missing", "_times": 1, "a": 1, "b": 1, "name": "ex"}]


def test_verify_names_the_queries_that_there_are(place, sash):
    assert (
        "the script has no query `pears`; did you mean `pairs`?"
        in sash("verify", "script.sql", "--query", "pears").stderr
    )


MISTAKES = {
    "unknown column": (
        "A.k = B.k",
        "A.kk = B.k",
        "error: `A` has no column `kk`; did you mean `k`?\n  line 5: ",
    ),
    "type mismatch": ("A.k = B.k", "A.id = B.k", "CAST"),
    "window missing": (" WINDOW 5 SECONDS", "", "window"),
    "negative window": ("5 SECONDS", "-5 SECONDS", "line 5: "),
    "zero window": ("5 SECONDS", "0 SECONDS", "line 5: "),
    "unbounded plan": ("a A,", "a A [UNBOUNDED],", "never lets a tuple go"),
    "unknown format": ("FORMAT json", "FORMAT jsn", "did you mean `json`?\n  line 2: "),
    "no time column": ("TIMESTAMP BY ts FROM 'a'", "TIMESTAMP BY at FROM 'a'", "line 1: "),
    "missing path": ("FROM 'a'", "FROM 'nowhere'", "nowhere"),
    "syntax": ("CREATE QUERY pairs AS", "CREATE QUERY pairs SA", "line 4: "),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_before_anything_runs(place, sash, mistake):
    right, wrong, reason = MISTAKES[mistake]
    assert right in SCRIPT
    (place / "script.sql").write_text(SCRIPT.replace(right, wrong))
    done = sash("run", "script.sql", "--engine", "embedded")
    assert done.returncode == 1
    assert reason in done.stderr, done.stderr
    assert "Traceback" not in done.stderr + done.stdout
    assert not (place / "out").exists()


DAYS = """CREATE STREAM days (n INT, day DATE) TIMESTAMP BY day FROM 'days' FORMAT {};
CREATE QUERY of_days AS SELECT n, day FROM days [RANGE 1 DAY] INTO 'out/days' FORMAT csv;
"""


def test_a_date_is_its_midnight_in_scripts_too(place, sash):
    (place / "days").mkdir()
    (place / "days" / "1.csv").write_text("n,day\n1,2026-01-01\n2,2026-01-02\n")
    (place / "script.sql").write_text(DAYS.format("csv"))
    done = sash("run", "script.sql", "--engine", "embedded")
    assert done.returncode == 0, done.stderr
    lines = [line for part in sorted((place / "out" / "days").glob("*/*.csv")) for line in part.read_text().split("\n")]
    first = "1,2026-01-01 00:00:00.000000,1,2026-01-01 00:00:00.000000,2026-01-02 00:00:00.000000"
    assert first in lines
    done = sash("verify", "script.sql")
    assert done.returncode == 0, done.stderr


def test_a_date_that_cannot_be_counted_in_microseconds_is_rejected(place, sash):
    (place / "days").mkdir()
    days = pa.array([1, 2**31 - 1], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"n": pa.array([1, 2], pa.int32()), "day": days}), place / "days" / "1.parquet")
    (place / "script.sql").write_text(DAYS.format("parquet"))
    done = sash("run", "script.sql", "--engine", "embedded")
    assert "2 rows read = 1 accepted + 0 late + 1 rejected" in done.stdout, done.stderr


def test_a_strict_run_stops_at_the_record(place, sash):
    (place / "a" / "2.csv").write_text("id,k,ts\n4,x,yesterday\n")
    done = sash("run", "script.sql", "--engine", "embedded", "--strict")
    assert done.returncode == 1
    assert "2.csv, line 2: " in done.stderr
    assert "yesterday" in done.stderr


def test_an_unknown_command_and_an_unknown_option_are_explained(place, sash):
    assert "No such command" in sash("rnu").stderr
    assert "No such option" in sash("run", "script.sql", "--quick").stderr


@pytest.mark.slow
def test_the_command_is_installed(place):
    command = [str(Path(sys.executable).with_name("sash")), "explain", "script.sql"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Query pairs\n")


def test_the_bare_command_describes_itself(sash):
    assert "explain" in sash().stdout
    assert sash().stderr == ""
    assert sash("--version").stdout.startswith("sash 0.")


def test_following_needs_spark(sash):
    assert "--follow needs Spark" in sash("run", "script.sql", "--engine", "embedded", "--follow").stderr


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(28, "No space left on device", "out/x"), "`out/x`: the disk is full; make room, and run again"),
        (OSError(28, "No space left on device"), "the disk is full; make room, and run again"),
        (PermissionError(13, "Permission denied", "/x"), "`/x`: this user may not; give it the right, and run again"),
        (
            FileNotFoundError(2, "No such file or directory", "/x/y"),
            "`/x/y`: it is not there; put it back, or create the directory, and run again",
        ),
        (
            OSError(5, "Input/output error", "/x"),
            "`/x`: Input/output error; check that it can be reached, and run again",
        ),
    ],
)
def test_what_the_system_refuses_is_no_bug(sash, monkeypatch, error, sentence):
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("sash.embedded.run_to_end.run_files", refuse)
    done = sash("run", "script.sql", "--engine", "embedded")
    assert (done.returncode, done.stderr) == (1, f"error: {sentence}\n")


def test_a_bug_is_called_one_and_its_details_are_kept(sash, monkeypatch):
    def divide(*_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr("sash.embedded.run_to_end.run_files", divide)
    done = sash("run", "script.sql", "--engine", "embedded")
    first, second = done.stderr.splitlines()
    assert first == "error: ZeroDivisionError: by nothing (this is a bug in Sash, please report it)"
    assert "in divide" in Path(second.removeprefix("the details are in ")).read_text()


def test_an_interrupted_command_says_so_in_one_line(sash, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sash.cli.verify.verify_script", interrupt)
    done = sash("verify", "script.sql")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "stopped\n")
    monkeypatch.setattr("sash.embedded.run_to_end.run_files", interrupt)
    done = sash("run", "script.sql", "--engine", "embedded")
    assert (done.returncode, done.stderr) == (130, "stopped at once\n")


@pytest.mark.parametrize(
    ("first", "second", "code"), [("TERM", "TERM", 143), ("INT", "TERM", 143), ("TERM", "INT", 130)]
)
def test_the_exit_code_is_that_of_the_signal_that_ended_the_run(sash, monkeypatch, first, second, code):
    def interrupt(*_: object) -> None:
        for name in (first, second):
            signal.raise_signal(getattr(signal, f"SIG{name}"))

    monkeypatch.setattr("sash.embedded.run_to_end.run_files", interrupt)
    done = sash("run", "script.sql", "--engine", "embedded")
    assert (done.returncode, done.stderr) == (code, "stopped at once\n")


def test_sigterm_ends_any_command_with_one_line(sash, monkeypatch):
    monkeypatch.setattr("sash.cli.verify.verify_script", lambda *_: signal.raise_signal(signal.SIGTERM))
    done = sash("verify", "script.sql")
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "stopped\n")


@pytest.mark.parametrize("option", [("--rows", "-1"), ("--files-per-batch", "0"), ("--restarts", "-1")])
def test_numbers_that_mean_nothing_are_refused(sash, option):
    done = sash("run", "script.sql", "--engine", "embedded", *option)
    assert done.returncode == 2
    assert option[0] in done.stderr
