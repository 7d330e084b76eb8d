"""`sash.answer`: what changes amount to at an instant, from tables, frames, files and the outputs of scripts."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sash
from sash.errors import BindError, PlanError, SashError, SourceError
from sash.testing import stream_of
from support.commands import run_command

ROWS = stream_of("""
    ts | k | v
    1  | a | 1
    1  | a | 1
    3  | b | 2
    4  | a | 3
    9  | c | 4
""")


def changes_of(text: str, rows: pa.Table = ROWS, **options: object) -> pa.Table:
    return sash.sql(text, s=sash.stream(rows, time="ts", **options))  # type: ignore[arg-type]


def listed(answer: pa.Table) -> list[tuple]:
    return sorted((tuple(row.values()) for row in answer.to_pylist()), key=repr)


class TestMeaning:
    def test_a_row_is_in_from_its_ts_until_before_its_expires(self) -> None:
        changes = changes_of("SELECT k, v FROM s [RANGE 3 us]")
        answers = {at: listed(sash.answer(changes, at)) for at in (0, 1, 3, 4, 6, 7)}
        assert answers == {
            0: [],
            1: [("a", 1), ("a", 1)],
            3: [("a", 1), ("a", 1), ("b", 2)],
            4: [("a", 3), ("b", 2)],
            6: [("a", 3)],
            7: [],
        }

    @pytest.mark.parametrize("more", ["", " EMIT CHANGES"])
    def test_what_was_taken_back_has_left_as_often(self, more: str) -> None:
        changes = changes_of(f"SELECT k FROM s [ROWS 3]{more}")
        assert listed(sash.answer(changes, 3)) == [("a",), ("a",), ("b",)]
        assert listed(sash.answer(changes, 4)) == [("a",), ("a",), ("b",)]
        assert listed(sash.answer(changes, 9)) == [("a",), ("b",), ("c",)]

    def test_a_later_row_replaces_that_of_its_group(self) -> None:
        changes = changes_of("SELECT k, SUM(v) AS total FROM s [RANGE 5 us] GROUP BY k")
        assert listed(sash.answer(changes, 3)) == [("a", 2), ("b", 2)]
        assert listed(sash.answer(changes, 6)) == [("a", 3), ("b", 2)]
        assert listed(sash.answer(changes, 9)) == [("c", 4)]

    def test_one_group_is_always_there(self) -> None:
        changes = changes_of("SELECT COUNT(*) AS n FROM s [RANGE 3 us]")
        assert [listed(sash.answer(changes, at)) for at in (-5, 1, 8, 9)] == [[(0,)], [(2,)], [(0,)], [(1,)]]

    def test_zeros_leave_to_the_bit_where_both_are_there(self) -> None:
        rows = pa.table({"ts": [1, 2, 3], "v": [-0.0, 0.0, 5.0]})
        changes = changes_of("SELECT v FROM s [ROWS 2]", rows)
        assert [math.copysign(1, v) for v in sash.answer(changes, 2)["v"].to_pylist()] == [-1, 1]
        rows = rows.append_column("k", pa.array(["a", "b", "b"]))
        changes = changes_of("SELECT v FROM s [PARTITION BY k ROWS 1]", rows)
        assert [math.copysign(1, v) for v in sash.answer(changes, 3)["v"].to_pylist()] == [-1, 1]
        changes = changes_of("SELECT v FROM s [ROWS 1]", rows)
        flipped = [v if v else v * op for v, op in zip(changes["v"].to_pylist(), changes["_op"].to_pylist())]
        swapped = changes.set_column(0, "v", pa.array(flipped))
        assert listed(sash.answer(swapped, 3)) == [(5.0,)]

    def test_lists_are_told_apart(self) -> None:
        changes = changes_of("SELECT list(v) AS vs FROM s [ROWS 2] GROUP BY k")
        assert listed(sash.answer(changes, 3)) == [([1],), ([2],)]

    def test_without_an_instant_it_is_the_last_that_is_final(self) -> None:
        changes = changes_of("SELECT k, v FROM s [RANGE 4 us] WHERE k <> 'c'")
        assert sash.answer(changes).num_rows == 0
        assert listed(sash.answer(changes.replace_schema_metadata(), groups=False)) == [
            ("a", 1),
            ("a", 1),
            ("a", 3),
            ("b", 2),
        ]

    def test_nothing_has_happened_yet(self) -> None:
        assert sash.answer(changes_of("SELECT k FROM s", ROWS.slice(0, 0))).num_rows == 0
        assert listed(sash.answer(changes_of("SELECT COUNT(*) AS n FROM s [ROWS 1]", ROWS.slice(0, 0)))) == [(0,)]


class TestTables:
    def test_what_it_takes_goes_along_into_parquet(self, tmp_path: Path) -> None:
        changes = changes_of("SELECT k, SUM(v) AS total FROM s [RANGE 5 us] GROUP BY k")
        pq.write_table(changes, tmp_path / "changes.parquet")
        assert sash.answer(pq.read_table(tmp_path / "changes.parquet"), 6).equals(sash.answer(changes, 6))

    @pytest.mark.parametrize("convert", [lambda table: table.to_pandas(), pl.from_arrow], ids=["pandas", "polars"])
    def test_other_frames_have_to_be_told(self, convert: Callable) -> None:
        frame = convert(changes_of("SELECT k, SUM(v) AS total FROM s [RANGE 5 us] GROUP BY k"))
        with pytest.raises(BindError, match="does not say whether the newest row of a group replaces the older one"):
            sash.answer(frame, 6)
        assert listed(sash.answer(frame, 6, groups=["k"])) == [("a", 3), ("b", 2)]

    def test_changes_may_come_in_parts(self) -> None:
        query = sash.query("SELECT k, v FROM s [ROWS 2]", s=sash.stream(ROWS.schema, time="ts"))
        parts = [query.push("s", ROWS.slice(start, 1)) for start in range(5)]
        assert listed(sash.answer(pa.concat_tables([*parts, query.finish()]))) == [("a", 3), ("c", 4)]
        with pytest.raises(SourceError, match=r"take back 2 rows that they have not brought: .* give all changes"):
            sash.answer(pa.concat_tables(parts[3:]), 4)

    def test_what_is_not_known_is_refused(self) -> None:
        changes = changes_of("SELECT k, SUM(v) AS total FROM s [RANGE 5 us] GROUP BY k")
        for wrong, reason in (
            (changes.drop_columns(["_op"]), "no column `_op`, so it does not hold changes"),
            (changes.drop_columns(["k"]), "no column `k`, which tells groups apart"),
            (changes.set_column(2, "_op", pa.array(["+1"] * changes.num_rows)), "`_op` of the table is string"),
        ):
            with pytest.raises(BindError, match=reason):
                sash.answer(wrong, 6)
        with pytest.raises(PlanError, match="the answer at 10 is not known: the changes are final up to 9"):
            sash.answer(changes, 10)
        with pytest.raises(BindError, match="`groups` is 'k'; give a list of columns, or False"):
            sash.answer(changes, 6, groups="k")
        with pytest.raises(BindError, match="is no instant"):
            sash.answer(changes, "noon")


SCRIPT = """CREATE STREAM s (k VARCHAR, v INT, ts TIMESTAMP) TIMESTAMP BY ts FROM 's' FORMAT csv;
CREATE QUERY rows AS SELECT k, v FROM s [ROWS 2] INTO 'out/rows' FORMAT {format};
CREATE QUERY groups AS SELECT k, SUM(v) AS total FROM s GROUP BY k WINDOW 5 SECONDS INTO 'out/groups' FORMAT {format};
CREATE QUERY early AS SELECT k FROM s WHERE k = 'a' WINDOW 1 MINUTE INTO 'out/early' FORMAT {format};
"""
FORMATS = ("csv", "json", "parquet")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "s").mkdir()
    times = [datetime(2026, 1, 1, 12, 0, second) for second in (1, 3, 4)]
    (tmp_path / "s" / "1.csv").write_text(
        "k,v,ts\n" + "".join(f"{k},{v},{t}\n" for k, v, t in zip("aba", (1, 2, 3), times))
    )
    (tmp_path / "s" / "2.csv").write_text("k,v,ts\nc,4,2026-01-01 12:00:09\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> Callable:
    """Runs `sash`; returns its exit code, and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        code = run_command(monkeypatch, *arguments)
        out, err = capsys.readouterr()
        return code, out + err

    def run_script(format: str) -> None:
        (place / "script.sql").write_text(SCRIPT.format(format=format))
        assert run("run", "script.sql", "--engine", "embedded", "--json")[0] == 0

    run.script = run_script  # type: ignore[attr-defined]
    return run


class TestOutputs:
    @pytest.mark.parametrize("format", FORMATS)
    def test_an_output_is_read_as_its_query_has_written_it(self, command, format: str) -> None:
        command.script(format)
        assert listed(sash.answer("out/rows")) == [("a", 3), ("c", 4)]
        assert listed(sash.answer(Path("out/groups"), "2026-01-01 12:00:05")) == [("a", 4), ("b", 2)]
        assert listed(sash.answer("out/groups")) == [("c", 4)]
        assert listed(sash.answer("out/early")) == listed(sash.answer("out/early", "2026-01-01 12:00:09")) != []

    def test_the_command_shows_it_with_its_instant(self, command) -> None:
        command.script("csv")
        code, shown = command("answer", "out/groups", "--at", "2026-01-01 12:00:05")
        assert code == 0
        assert "groups at 2026-01-01 12:00:05: 2 rows" in shown
        code, shown = command("answer", "out/rows", "--rows", "1")
        assert "rows at 2026-01-01 12:00:09: 2 rows, of which the first 1" in shown
        code, shown = command("answer", "out/groups", "--json")
        assert json.loads(shown) == {"query": "groups", "at": "2026-01-01 12:00:09", "rows": [{"k": "c", "total": 4}]}

    def test_times_may_be_integers(self, command, place: Path) -> None:
        (place / "s" / "1.csv").write_text("k,v,ts\na,1,3\nb,2,5\n")
        (place / "s" / "2.csv").unlink()
        script = SCRIPT.replace("ts TIMESTAMP)", "ts BIGINT)").format(format="csv")
        (place / "script.sql").write_text(script)
        assert command("run", "script.sql", "--engine", "embedded", "--json")[0] == 0
        assert json.loads(command("answer", "out/rows", "--at", "4", "--json")[1]) == {
            "query": "rows",
            "at": "4",
            "rows": [{"k": "a", "v": 1}],
        }

    def test_what_is_not_known_is_refused(self, command, place: Path) -> None:
        command.script("json")
        for arguments, reason in (
            (["out/none"], "there is no output out/none; give the directory that a query writes INTO, or run it first"),
            (["s"], "s is not an output of Sash: it holds"),
            (
                ["out/groups", "--at", "2026-01-01 12:00:10"],
                "not known: the changes are final up to 2026-01-01 12:00:09",
            ),
            (
                ["out/groups", "--at", "2026-01-01"],
                "2026-01-01 00:00:00 is before everything in out/groups: its changes begin at 2026-01-01 12:00:01, and "
                "are final up to 2026-01-01 12:00:09; ask for an instant since then",
            ),
        ):
            code, shown = command("answer", *arguments)
            assert code == 1
            assert f"error: {reason}" in shown or reason in shown
        (place / "out" / "new").mkdir()
        assert "nothing is published in out/new yet; ask again when" in command("answer", "out/new")[1]

    def test_only_what_was_published_counts(self, command, place: Path) -> None:
        command.script("csv")
        for batch in (place / "out" / "rows").glob("batch=*"):
            (batch / "notes.csv").write_text("k,v,_op,_ts,_expires\nx,1,1,2026-01-01 12:00:01,\n")
        assert listed(sash.answer("out/rows")) == [("a", 3), ("c", 4)]

    def test_what_was_changed_or_removed_is_refused(self, command, place: Path) -> None:
        command.script("csv")
        first, *_ = sorted((place / "out" / "rows").glob("batch=*/*.csv"))
        content = first.read_text()
        first.write_text(content + "\n")
        with pytest.raises(SourceError, match=r"is not what was written; restore it from a backup"):
            sash.answer("out/rows")
        first.unlink()
        with pytest.raises(SourceError, match=r"is missing from the output; restore it"):
            sash.answer("out/rows")

    def test_a_batch_that_is_under_way_does_not_count_yet(self, command, place: Path) -> None:
        command.script("csv")
        *_, last = sorted((place / "out" / "rows").glob("batch=*"))
        manifest = place / "out" / "rows" / "_sash"
        lines = manifest.read_bytes().splitlines(keepends=True)
        newest = next(number for number, line in enumerate(lines) if f'"batch": {last.name[6:]},'.encode() in line)
        manifest.write_bytes(b"".join(lines[: newest + 1]))
        last.rename(place / "elsewhere")
        assert listed(sash.answer("out/rows")) == [("a", 3), ("b", 2)]

    def test_a_session_writes_such_outputs_too(self, place: Path) -> None:
        session = sash.Session()
        session.stream("s", ROWS.schema, time="ts")
        session.query("q", "SELECT k, COUNT(*) AS n FROM s [RANGE 3 us] GROUP BY k", into="out/q", format="csv")
        session.push("s", ROWS)
        session.finish()
        assert listed(sash.answer("out/q")) == [("c", 1)]
        assert listed(sash.answer("out/q", 4)) == [("a", 1), ("b", 1)]


def test_no_error_of_another_kind_gets_out() -> None:
    for wrong in (pa.table({"a": [1]}), [{"a": 1}], 5, None):
        with pytest.raises(SashError):
            sash.answer(wrong)
