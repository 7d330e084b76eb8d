"""What `sash run` does to directories that are not its own, and to those that are: nothing, and nothing unasked."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.faults.conftest import SCRIPT

from sash.errors import mask_secrets
from sash.io.manifest import MARK

INTO = "INTO 'out/q' FORMAT csv"


def write_script(place, into: str) -> None:
    (place.root / "script.sql").write_text(SCRIPT.replace("'out/q'", f"'{into}'"))


class TestFresh:
    """`--fresh` removes what Sash has written, and nothing else."""

    def test_it_replaces_an_answer(self, place, embedded):
        place.write(1, 2, 3)
        assert embedded().code == 0
        place.write(7, 8)
        assert embedded("--fresh").code == 0
        assert place.answer() == [7, 8]

    @pytest.mark.parametrize("options", [(), ("--fresh",)])
    def test_a_folder_of_the_user_s_stays(self, place, embedded, options):
        place.write(1)
        (place.root / "out" / "q").mkdir(parents=True)
        (place.root / "out" / "q" / "thesis.tex").write_text("ten years")
        done = embedded(*options)
        assert done.is_refused
        assert "out/q is not an output of Sash: it holds `thesis.tex` and no mark of Sash's" in done.said
        assert "earlier run" not in done.said
        assert (place.root / "out" / "q" / "thesis.tex").read_text() == "ten years"

    @pytest.mark.parametrize("suffix", [".late", ".rejects", ".checkpoint"])
    def test_a_folder_beside_the_output_stays(self, place, embedded, suffix):
        place.write(1)
        assert embedded().code == 0
        kept = place.root / "out" / f"q{suffix}" / "thesis.tex"
        kept.parent.mkdir(exist_ok=True)
        kept.write_text("ten years")
        done = embedded("--fresh")
        assert done.is_refused
        assert f"out/q{suffix}" in done.said
        assert "`thesis.tex`" in done.said
        assert kept.exists()
        assert place.answer() == [1]

    @pytest.mark.parametrize(
        "into", ["in", "in/deep", ".", "..", "/", "{home}", "{root}/in", "file://{root}/in", "link"]
    )
    def test_places_that_cannot_be_outputs(self, place, embedded, monkeypatch, into):
        place.write(1, 2)
        monkeypatch.setenv("HOME", str(place.root / "home"))
        (place.root / "home").mkdir()
        (place.root / "link").symlink_to("in")
        write_script(place, into.format(home=place.root / "home", root=place.root))
        before = place.files()
        done = embedded("--fresh")
        assert done.is_refused
        assert "`q` cannot write to" in done.said
        assert "^^^" in done.stderr, "the place is underlined"
        assert place.files() == before
        assert len(list((place.root / "in").iterdir())) == 2

    @pytest.mark.parametrize(
        ("source", "into"),
        [
            ("d[1]", "d[1]/a"),
            ("d[1]", "d[1]"),
            ("linked", "out/q"),
            ("linked/*", "out/q"),
            ("linked/more/*.csv", "out/q"),
        ],
    )
    def test_sources_that_reach_an_output_another_way(self, place, embedded, source, into):
        """By a name that looks like a pattern, or through links."""
        place.write(1)
        (place.root / "d[1]").mkdir()
        (place.root / "out" / "q").mkdir(parents=True)
        (place.root / "linked" / "more").mkdir(parents=True)
        (place.root / "linked" / "more" / "1.csv").symlink_to(place.root / "out" / "q" / "1.csv")
        (place.root / "linked" / "out").symlink_to("../out")
        (place.root / "script.sql").write_text(SCRIPT.replace("'in'", f"'{source}'").replace("'out/q'", f"'{into}'"))
        done = embedded()
        assert done.is_refused
        assert f"`q` cannot write to {into}, as `s` is read from {source}" in done.said

    @pytest.mark.slow
    @pytest.mark.parametrize("mine", ["q.late/.mine", "q.checkpoint/control", ".q.removed-x", "q.checkpoint"])
    def test_what_only_looks_like_sash_s_stays(self, place, embedded, mine):
        place.write(1)
        assert embedded().code == 0
        kept = place.root / "out" / mine / "thesis.tex"
        kept.parent.mkdir(parents=True)
        kept.write_text("ten years")
        if mine == "q.late/.mine":
            (place.root / "out" / "q" / MARK).rename(place.root / "mark")
            (place.root / "out" / "q.late" / MARK).write_bytes((place.root / "mark").read_bytes())
            (place.root / "mark").rename(place.root / "out" / "q" / MARK)
        if mine == "q.checkpoint":
            (kept.parent / "sash.json").write_text('{"mine": 1}')
            kept.rename(kept.parent / "spark")
            kept = kept.parent / "spark"
        embedded()
        embedded("--fresh")
        assert kept.read_text() == "ten years"

    def test_a_directory_that_holds_the_input(self, place, embedded):
        place.write(1)
        (place.root / "data").mkdir()
        (place.root / "in").rename(place.root / "data" / "in")
        script = SCRIPT.replace("FROM 'in'", "FROM 'data/in'").replace("'out/q'", "'data'")
        (place.root / "script.sql").write_text(script)
        assert "as `s` is read from data/in" in embedded("--fresh").said
        assert (place.root / "data" / "in" / "00.csv").exists()

    @pytest.mark.parametrize("strange", ["notes.txt", "batch=0/notes.csv", "batch=x/part-00-0.csv", "sub/dir.csv"])
    def test_files_in_an_output_that_sash_does_not_know(self, place, embedded, strange):
        place.write(1)
        assert embedded().code == 0
        path = place.root / "out" / "q" / strange
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
        before = place.files()
        done = embedded("--fresh")
        assert done.is_refused
        assert f"`out/q/{strange.split('/')[0]}" in done.said
        assert "was not written by Sash" in done.said
        assert place.files() == before

    def test_all_parts_go(self, place, embedded):
        place.write(1, 2, late=3)
        assert embedded().code == 0
        assert (place.late(), place.rejects()) == ([3], ["nonsense,2026-01-01 00:01:00"])
        staged = place.root / "out" / ".q.staging" / "batch=9" / "part-0.csv.staged"
        staged.parent.mkdir(parents=True)
        staged.write_text("v\n666\n")
        place.write(4)
        assert embedded("--fresh").code == 0
        assert (place.answer(), place.late(), place.rejects()) == ([4], [], [])
        assert not (place.root / "out" / "q.late").exists()
        assert not staged.exists()

    def test_what_cannot_be_removed_stops_the_run(self, place, embedded, disk):
        place.write(1)
        assert embedded().code == 0

        def fail(operation: str, path: str) -> None:
            if operation == "rename" and ".removed-" in path:
                raise PermissionError(13, "Permission denied")

        disk(fail)
        place.write(2)
        done = embedded("--fresh")
        assert done.is_refused
        assert "out/q cannot be removed: [Errno 13] Permission denied" in done.said
        assert place.answer() == [1]

    def test_an_empty_directory_is_free(self, place, embedded):
        place.write(1)
        (place.root / "out" / "q").mkdir(parents=True)
        assert embedded().code == 0
        assert place.answer() == [1]

    def test_a_mark_that_cannot_be_read_marks_nothing(self, place, embedded):
        place.write(1)
        assert embedded().code == 0
        mark = place.root / "out" / "q" / MARK
        mark.write_text(mark.read_text().replace('"q"', '"r"'))
        for options in ((), ("--fresh",)):
            assert "out/q has a mark of Sash's (`_sash`) that is damaged" in embedded(*options).said
        assert place.answer() == [1]


DYING_RUN = """
import os, signal, sys
from sash.io.disk import Disk

left = int(sys.argv.pop(1))
name = sys.argv.pop(1)


def die(operation, path):
    global left
    left -= name in ("any", operation)
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)


Disk.before = die
from sash.cli.main import main
main()
"""


def run_dying(place, at: int, operation: str = "any", *options: str) -> int:
    """Runs the script in a process that kills itself before an operation of this name, after so many others."""
    program = place.root / "dying_run.py"
    program.write_text(DYING_RUN)
    command = [sys.executable, str(program), str(at), operation, "run", "script.sql", "--engine", "embedded", *options]
    done = subprocess.run(command, cwd=place.root, capture_output=True, text=True)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode


@pytest.mark.slow
@pytest.mark.parametrize("at", [0, 1, 2, 3])
def test_rows_of_a_killed_run_are_not_published_by_the_next(place, embedded, at):
    place.write(1, 2, 3)
    assert run_dying(place, at, "rename") == -signal.SIGKILL
    place.write(71, 72, 73)
    assert embedded("--fresh").code == 0
    assert place.answer() == [71, 72, 73]


@pytest.mark.slow
def test_what_lies_in_staging_under_the_name_of_a_part_is_not_published(place, embedded):
    """As versions before part names had a run's identity might have left it."""
    place.write(1)
    assert embedded().code == 0
    (part,) = (place.root / "out" / "q").glob("*/*")
    ready = place.root / "out" / ".q.staging" / "ready" / "batch=0"
    ready.mkdir(parents=True)
    (ready / "part-0.csv").write_text("v\n666\n")
    (ready / part.name).write_text("v\n667\n")
    place.write(2)
    assert embedded("--fresh").code == 0
    assert place.answer() == [2]


class TestOnePlaceManyNames:
    """However INTO is spelt, it is one directory."""

    @pytest.mark.parametrize(
        "into", ["file://{root}/out/q", "file:{root}/out/q", "out/../out/./q/", "link", "{root}/out/q"]
    )
    def test_earlier_output_is_noticed(self, place, embedded, into):
        place.write(1)
        assert embedded().code == 0
        (place.root / "link").symlink_to("out/q")
        write_script(place, into.format(root=place.root))
        place.write(2)
        done = embedded()
        assert done.is_refused
        assert "out/q holds the output of an earlier run" in done.said
        assert place.answer() == [1]
        assert embedded("--fresh").code == 0
        assert place.answer() == [2]

    def test_a_link_stays_a_link(self, place, embedded):
        (place.root / "elsewhere").mkdir()
        (place.root / "link").symlink_to("elsewhere")
        write_script(place, "link")
        for value in (1, 2):
            place.write(value)
            assert embedded("--fresh").code == 0
        assert (place.root / "link").is_symlink()
        (part,) = (place.root / "link").glob("*/*.csv")
        assert part.read_text().splitlines()[1].startswith("2,")

    @pytest.mark.parametrize(
        "into", ["out/q", "./out/q", "out/q/deep", "out", "out/q.late", "file://{root}/out/q", "link"]
    )
    def test_two_queries_cannot_write_to_one_directory(self, place, embedded, into):
        place.write(1)
        (place.root / "link").symlink_to("out/q")
        second = f"CREATE QUERY r AS SELECT v + 1 AS w FROM s [RANGE 1 MINUTE] INTO '{into}' FORMAT csv;\n"
        (place.root / "script.sql").write_text(SCRIPT + second.format(root=place.root))
        done = embedded()
        assert done.is_refused
        assert "`r` cannot write to" in done.said
        assert "`q` writes to out/q" in done.said
        assert "line 3: CREATE QUERY r" in done.stderr
        assert not (place.root / "out").exists()

    @pytest.mark.slow
    @pytest.mark.parametrize("source", ["out", "out/q", "out/q/deep", "out/*/*.csv", "out/q.late"])
    def test_what_a_query_writes_is_not_what_another_reads(self, place, embedded, source):
        place.write(1)
        table = f"CREATE TABLE t (v INT) FROM '{source}' FORMAT csv;\n"
        (place.root / "script.sql").write_text(table + SCRIPT)
        assert "`q` cannot write to out/q, as `t` is read from" in embedded().said

    def test_files_beside_the_output_may_be_read(self, place, embedded):
        """A glob that the output does not match."""
        place.write(1)
        (place.root / "script.sql").write_text(SCRIPT.replace("FROM 'in'", "FROM 'in/*.csv'").replace("'out/q'", "'q'"))
        assert embedded().code == 0


class TestOddPlaces:
    """What is no directory, or may not be read."""

    def test_a_file(self, place, embedded):
        place.write(1)
        (place.root / "out").mkdir()
        (place.root / "out" / "q").write_text("a file")
        for options in ((), ("--fresh",)):
            done = embedded(*options)
            assert done.is_refused
            assert "out/q cannot be an output" in done.said
        assert (place.root / "out" / "q").read_text() == "a file"

    def test_a_file_above(self, place, embedded):
        place.write(1)
        (place.root / "out").write_text("a file")
        assert embedded().is_refused

    def test_a_mark_that_is_a_directory(self, place, embedded):
        place.write(1)
        (place.root / "out" / "q" / MARK).mkdir(parents=True)
        done = embedded()
        assert done.is_refused
        assert "out/q has a mark of Sash's (`_sash`) that is damaged" in done.said


class TestNames:
    def test_a_query_s_name_does_not_lead_out_of_the_output(self, place, embedded):
        place.write(1)
        (place.root / "script.sql").write_text(SCRIPT.replace("QUERY q", 'QUERY "../q"').replace(f" {INTO}", ""))
        done = embedded()
        assert done.is_refused
        assert "`../q` cannot name a query" in done.said
        assert not (place.root / "q").exists()

    def test_a_stream_s_name_does_not_lead_out_of_the_late_rows(self, place, embedded):
        place.write(1, 2, late=3)
        script = SCRIPT.replace("STREAM s", 'STREAM "../../s"').replace("FROM s", 'FROM "../../s"')
        (place.root / "script.sql").write_text(script)
        assert "`../../s` cannot name a stream" in embedded().said
        assert not (place.root / "s").exists()

    def test_scripts_of_similar_paths_share_no_checkpoint(self, place):
        from sash.cli.script_outputs import shared_checkpoints

        paths = ["a/b.sql", "a-b.sql", "a/b.txt", "b.sql", "../b.sql", "x/../a-b.sql"]
        places = [shared_checkpoints(Path(path)) for path in paths]
        assert len(set(places)) == len(paths) - 1
        assert places[1] == places[-1]

    def test_a_query_named_like_its_script_shares_no_checkpoint_with_it(self, place):
        from sash.cli.script_outputs import shared_checkpoints
        from sash.runtime.script import bind_script

        (run,) = bind_script(SCRIPT.replace("QUERY q", "QUERY script").replace(f" {INTO}", "")).runs()
        assert run.output.checkpoint != shared_checkpoints(place.root / "script.sql")


SECRETS = {
    "a stream's address": ("'in'", "'s3a://KEYID:TOPSECRET@bucket/in'"),
    "an unknown scheme": ("'in'", "'postgresql://user:TOPSECRET@host/db'"),
    "an output's address": ("'out/q'", "'hdfs://user:TOPSECRET@host/out'"),
    "an option": ("FORMAT csv;", "FORMAT csv OPTIONS (password 'TOPSECRET');"),
    "a dotted option": ("FORMAT csv;", "FORMAT csv OPTIONS (kafka.sasl.jaas.config 'x TOPSECRET');"),
    "a line with a mistake": ("FROM 'in' FORMAT csv", "FROM 'ftp://me:TOPSECRET@h/in' FORMAT cvs"),
}


@pytest.mark.parametrize("where", SECRETS)
def test_secrets_are_masked(place, sash, where):
    place.write(1)
    (place.root / "script.sql").write_text(SCRIPT.replace(*SECRETS[where], 1))
    for command in (("run", "script.sql", "--engine", "embedded"), ("explain", "script.sql")):
        done = sash(*command)
        assert "TOPSECRET" not in done.said
        assert "KEYID" not in done.said
        assert "Traceback" not in done.said
        assert done.code == 1 or command[0] == "explain"


@pytest.mark.parametrize("arguments", [(), ("--fresh",)])
def test_an_output_on_another_file_system_is_refused_on_spark(place, sash, arguments):
    """Before anything is removed there."""
    place.write(1)
    (place.root / "script.sql").write_text(SCRIPT.replace("'out/q'", "'hdfs://user:TOPSECRET@host/out'"))
    done = sash("run", "script.sql", *arguments)
    assert done.code == 1
    assert done.said.startswith("error: on Spark a query writes INTO a local directory, or one that is mounted: ")
    assert "TOPSECRET" not in done.said


def test_a_newest_change_is_not_one_that_holds_since_the_beginning(place, embedded):
    place.write(1, 2)
    script = SCRIPT.replace("SELECT v FROM s [RANGE 1 MINUTE]", "SELECT COUNT(*) AS n FROM s [RANGE 1 MINUTE]")
    (place.root / "script.sql").write_text(script)
    shown = embedded("--rows", "10").stdout.splitlines()
    rows = [line for line in shown if line.startswith("│")]
    assert "NULL" in rows[0].split("│")[3]
    assert all("2026" in row.split("│")[3] for row in rows[1:])
    assert "NULL │" not in embedded("--fresh", "--rows", "1").stdout.split("┩")[1].split("2026")[0]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("postgresql://user:TOP@host/db", "postgresql://***@host/db"),
        ("postgresql://user:T''OP@host/db", "postgresql://***@host/db"),
        ("https://TOP@host/x", "https://***@host/x"),
        ("s3://bucket/x?secret_key=TOP&region=eu", "s3://bucket/x?secret_key=***&region=eu"),
        ("x?X-Amz-Signature=TOP&y=2", "x?X-Amz-Signature=***&y=2"),
        ("x?sig=TOP", "x?sig=***"),
        ("a=https;AccountKey=TOP==;b=1", "a=https;AccountKey=***;b=1"),
        ("OPTIONS (kafka.sasl.jaas.config 'a TOP')", "OPTIONS (kafka.sasl.jaas.config '***')"),
        ("abfss://container@account/x", "abfss://container@account/x"),
        ("WHERE key = 'a' AND x?signal=3", "WHERE key = 'a' AND x?signal=3"),
    ],
)
def test_what_counts_as_a_secret(text, masked):
    assert mask_secrets(text) == mask_secrets(mask_secrets(text)) == masked
    assert len(mask_secrets(text, keeps_length=True)) == len(text)
