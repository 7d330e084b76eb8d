"""`sash workload` as a user meets it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sash.lab.workloads.batches import BatchCut, batches
from sash.lab.workloads.join_streams import JoinWorkload
from sash.lab.workloads.network import Network
from sash.lab.workloads.progress import WorkloadProgress
from sash.lab.workloads.recorder import Clock
from sash.lab.workloads.retail import Retail
from sash.lab.workloads.workload_commands import N_FILES
from sash.lab.workloads.workload_registry import KINDS, make_workload
from support.commands import run_command

NOW_US = 10**15
"""2001-09-09 01:46:40"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """The exit code, stdout and stderr of a command run in this process, in the test's directory."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        return run_command(monkeypatch, *arguments), *capsys.readouterr()

    return run


def tally_of(run: Callable[..., tuple[int, str, str]], script: str) -> dict:
    code, shown, errors = run("run", script, "--engine", "embedded", "--json")
    assert code == 0, errors
    return json.loads(shown)["queries"]["answer"]


DURATIONS = {"stores": "4 hours", "cameras": "2 minutes", "path": "2 minutes"}
"""Of workloads with few rows per second; of the others 5 seconds are enough."""


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
@pytest.mark.parametrize("name", KINDS)
def test_what_is_written_can_be_run_at_once(run, name, format):
    options = ("--out", "data", "--format", format, "--duration", DURATIONS.get(name, "5s"), "--json")
    code, shown, errors = run("workload", name, *options)
    assert (code, errors) == (0, "")
    facts = json.loads(shown)
    assert (facts["workload"], facts["script"], facts["stopped"]) == (name, "data/streams.sql", False)
    tally = tally_of(run, facts["script"])
    assert tally["n_read"] == tally["n_accepted"] == sum(each["n_rows"] for each in facts["streams"].values()) > 50
    assert all(each["n_files"] <= N_FILES for each in facts["streams"].values())
    assert tally["n_changes"] > 0 or name in ("retail", "pqrs")


def test_the_summary_says_what_to_do_next(run):
    code, shown, errors = run("workload", "sensors", "--rate", "10", "--duration", "20s", "--arrivals", "even")
    assert (code, errors) == (0, "")
    assert shown == (
        "temperature: 200 rows in 10 files in workload/temperature\n"
        "humidity: 200 rows in 10 files in workload/humidity\n"
        "sensors is written; workload/streams.sql declares the streams, and a query over them. To run it:\n"
        "  sash run workload/streams.sql --engine embedded\n"
    )


def test_files_are_cut_as_asked_for(run, tmp_path):
    options = ("--arrivals", "even", "--rate", "10", "--duration", "20s", "--json")
    streams = json.loads(run("workload", "sensors", *options, "--file-rows", "30", "--out", "a")[1])["streams"]
    assert streams["humidity"] == {"n_rows": 200, "n_files": 7}
    streams = json.loads(run("workload", "sensors", *options, "--file-every", "4s", "--out", "b")[1])["streams"]
    assert streams["humidity"] == {"n_rows": 200, "n_files": 5}


def test_a_seed_is_for_repetition(run, tmp_path):
    for out, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        assert run("workload", "auction", "--seed", seed, "--out", out, "--format", "csv", "--duration", "5s")[0] == 0
    a, b, c = ([path.read_text() for path in sorted(Path(out, "Bid").iterdir())] for out in "abc")
    assert a == b != c


@pytest.mark.slow
@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_a_recording_can_be_replayed_and_run(run, format):
    run("workload", "join", "--out", "recorded", "--format", format, "--duration", "10s")
    code, shown, errors = run("workload", "replay", "recorded/a", "--speed", "10", "--out", "again", "--json")
    assert (code, errors) == (0, "")
    assert json.loads(shown)["streams"] == {"a": {"n_rows": 1000, "n_files": 10}}
    assert tally_of(run, "again/streams.sql")["n_accepted"] == 1000


def test_live_ends_with_ctrl_c_and_says_what_there_is(run, monkeypatch):
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    clock = Clock(lambda: NOW_US + round(sum(slept) * 1e6), sleep)
    monkeypatch.setattr("sash.lab.workloads.workload_commands.CLOCK", clock)
    options = ("--live", "--rate", "10", "--arrivals", "even", "--format", "csv")
    code, shown, errors = run("workload", "sensors", *options)
    assert (code, errors) == (0, "")
    assert slept == [1.0, 1.0, 1.0]
    assert "to follow from another terminal: sash run workload/streams.sql --follow\n" in shown
    assert "humidity: 20 rows in 2 files in workload/humidity\nsensors was stopped;" in shown
    assert "2001-09-09 01:46:40.100000" in Path("workload/humidity/000000.csv").read_text()


def test_times_can_start_now(run, monkeypatch):
    clock = Clock(lambda: NOW_US, lambda seconds: pytest.fail("slept"))
    monkeypatch.setattr("sash.lab.workloads.workload_commands.CLOCK", clock)
    run("workload", "sensors", "--now", "--duration", "1s", "--arrivals", "even", "--format", "csv")
    assert ",2001-09-09 01:46:40.000000\n" in Path("workload/humidity/000000.csv").read_text()


def test_the_list_names_streams_and_what_can_be_set(run):
    code, shown, _ = run("workload", "list")
    assert code == 0
    assert [line.split()[0] for line in shown.splitlines() if not line.startswith(" ")] == list(KINDS)
    assert "streams customer, backbone; --rate --duration --arrivals --keys --key-skew --seed\n" in shown
    assert "--set n_links=… through=… travel=… delayed=…\n" in shown
    assert "streams a, b; --rate --duration --keys --seed\n" in shown


def test_settings_reach_the_workload():
    network = make_workload("network", {"rate": 7.0, "keys": 9}, ["travel=50 ms", "n_links=3", "through=0.25"])
    assert isinstance(network, Network)
    assert (network.rate, network.n_keys, network.travel_us) == (7.0, 9, 50_000)
    assert (network.n_links, network.through) == (3, 0.25)
    retail = make_workload("retail", {"keys": 12})
    assert isinstance(retail, Retail)
    assert retail.items == 12
    join = make_workload("join", {"rate": 1000.0, "duration": "2s"}, ["payload=wide", "exponent=1.1"])
    assert isinstance(join, JoinWorkload)
    assert (join.n_tuples, join.payload, join.skew, join.rate) == (4000, "wide", 1.1, 1000)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("join --arrivals even", "--arrivals is even, but `join` takes no such option; leave it out"),
        ("join --rate 0.5", "`--rate` is 0.5, but must be a whole number"),
        ("sensors --arrivals parto", "`arrivals` is `parto`, but there is no `parto`; did you mean `pareto`?"),
        (
            "sensors --key-skew zipf:x",
            "`skew` is `zipf:x`, but after the colon stands the exponent of `zipf`, a number",
        ),
        ("sensors --duration soon", "`soon` is not a length of time; write a number and a unit, as in `5 seconds`"),
        ("sensors --rate 1e9", "ask for 60,000,000,000 rows per stream, but at most 500,000,000 can be drawn at once"),
        ("network --set links=3", "`network` has nothing called `links` to set; did you mean `n_links`?"),
        ("network --set n_links=many", "`--set n_links` is `many`, but must be a number"),
        ("network --set n_links=inf", "`--set n_links` is inf, but must be a whole number"),
        (
            "sensors --file-rows 5 --file-every 1s",
            "but only one of them can say where a file ends; leave the other out",
        ),
        ("sensors --file-rows 0", "`file-rows` is 0, but must be at least 1"),
        ("sensors --seed -1", "`seed` is -1, but must be 0 or more"),
        ("replay missing.csv", "does not exist; check the path"),
    ],
)
def test_mistakes_have_reasons(run, tmp_path, arguments, reason):
    code, shown, errors = run("workload", *arguments.split())
    assert (code, shown) == (1, "")
    assert reason in errors
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_already_is_left_alone(run):
    assert run("workload", "sensors", "--duration", "1s")[0] == 0
    code, _, errors = run("workload", "sensors", "--duration", "1s")
    assert code == 1
    assert "error: `workload` is not empty; remove what is there, or name another --out" in errors


def test_progress_waits_for_two_seconds(capsys, monkeypatch):
    monkeypatch.setattr("rich.console.Console.is_terminal", True)
    now = [0.0]
    workload = make_workload("sensors", {"duration": "10s", "rate": 10.0, "arrivals": "even"})
    with WorkloadProgress("sensors", workload.duration_us, lambda: now[0]) as progress:
        taken = list(batches(workload, BatchCut(rows=50)))
        progress.note(taken[0])
        now[0] = 1.9
        progress.note(taken[1])
        assert capsys.readouterr().err == ""
        now[0] = 2.0
        progress.note(taken[2])
    assert "sensors: 150 rows" in capsys.readouterr().err
    monkeypatch.setattr("rich.console.Console.is_terminal", False)
    now[0] = 0.0
    with WorkloadProgress("sensors", workload.duration_us, lambda: now[0]) as progress:
        now[0] = 2.0
        progress.note(taken[0])
    assert capsys.readouterr().err == "", "a file has no use for it"
