"""Errors and warnings as users see them: they point at the line that called Sash."""

from __future__ import annotations

import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import sash
from sash.errors import InternalError
from sash.runtime.callers import FULL_TRACEBACKS, short_tracebacks

SCHEMA = pa.schema({"ts": pa.timestamp("us"), "k": pa.int64()})
ROWS = pa.table({"ts": pa.array([5, 1], pa.timestamp("us")), "k": [1, 2]})

MISTAKES: dict[str, Callable[[], object]] = {
    "a word that is none": lambda: sash.sql("SELEC k FROM s", s=ROWS),
    "a column that is not there": lambda: sash.sql("SELECT kk FROM s", s=ROWS),
    "a stream that is not there": lambda: sash.sql("SELECT k FROM elsewhere", s=ROWS),
    "no window": lambda: sash.sql("SELECT k, count(*) FROM s GROUP BY k", s=ROWS),
    "a type that does not fit": lambda: sash.explain("SELECT k AND ts AS y FROM s", s=ROWS),
    "a frame that is none": lambda: sash.query("SELECT k FROM s", s=3),
    "rows that do not fit": lambda: sash.query("SELECT k FROM s", s=SCHEMA).push("s", [{"ts": 1, "other": 2}]),
    "another stream": lambda: sash.query("SELECT k FROM s", s=SCHEMA).advance(5, "t"),
    "a session without the stream": lambda: sash.Session().query("q", "SELECT k FROM s"),
    "a snapshot that is none": lambda: sash.query("SELECT k FROM s", s=SCHEMA).restore(b"nothing"),
    "a size that is none": lambda: sash.configure(memory="much"),
    "changes that are none": lambda: sash.answer(ROWS),
    "a directory that is not there": lambda: sash.answer("/nowhere/at/all"),
    "a slack below zero": lambda: sash.stream(ROWS, time="ts", slack="-1 second"),
    "half a validity": lambda: sash.relation(ROWS, valid_from="ts"),
    "what cannot be verified": lambda: sash.verify("SELECT k FROM s"),
}


@pytest.fixture
def is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FULL_TRACEBACKS)


@pytest.mark.usefixtures("is_short")
@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_shows_the_line_that_made_it_and_the_message(mistake: Callable[[], object]) -> None:
    with pytest.raises(sash.SashError) as raised:
        mistake()
    shown = "".join(traceback.format_exception(raised.value))
    assert [frame.filename for frame in traceback.extract_tb(raised.value.__traceback__)] == [__file__, __file__]
    assert shown.count("Traceback") == 1, shown
    assert shown.endswith(f"{raised.value}\n")


def test_a_traceback_has_five_lines(tmp_path: Path) -> None:
    script = tmp_path / "mistake.py"
    script.write_text(
        "import datetime as dt, pandas as pd, sash\n"
        "s = pd.DataFrame({'ts': [dt.datetime(2026, 1, 1)], 'k': [1]})\n"
        "sash.sql('SELECT kk FROM s')\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, env={"HOME": str(tmp_path)})
    assert ended.stderr.splitlines() == [
        "Traceback (most recent call last):",
        f'  File "{script}", line 3, in <module>',
        "    sash.sql('SELECT kk FROM s')",
        "sash.errors.BindError: there is no column `kk`; did you mean `k`?",
        "  line 1: SELECT kk FROM s",
        "                 ^^",
    ]


def test_all_frames_are_shown_where_they_are_asked_for() -> None:
    with pytest.raises(sash.SashError) as raised:
        sash.sql("SELECT kk FROM s", s=ROWS)
    assert len(traceback.extract_tb(raised.value.__traceback__)) > 5


@pytest.mark.usefixtures("is_short")
def test_a_bug_of_sash_shows_all_frames() -> None:
    @short_tracebacks
    def face() -> None:
        deeper()

    def deeper() -> None:
        raise InternalError("two rows with one identity")

    with pytest.raises(InternalError) as raised:
        face()
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "deeper"


@pytest.mark.usefixtures("is_short")
def test_what_others_raise_is_left_alone() -> None:
    with pytest.raises(TypeError) as raised:
        sash.sql()  # pyright: ignore[reportCallIssue]
    assert [Path(frame.filename).name for frame in traceback.extract_tb(raised.value.__traceback__)][1] == "callers.py"


@pytest.mark.usefixtures("is_short")
def test_a_mistake_in_a_function_that_sash_calls_shows_its_line() -> None:
    session = sash.Session()
    session.stream("s", ROWS, time="ts")

    def take(changes: pa.Table) -> None:
        session.drop("nobody")

    session.query("q", "SELECT k FROM s", into=take)
    with pytest.raises(sash.SashError, match="nobody") as raised:
        session.run()
    frames = traceback.extract_tb(raised.value.__traceback__)
    assert [frame.name for frame in frames if frame.filename == __file__][-1] == "take"


def test_a_warning_names_the_line_that_called() -> None:
    def warned(call: Callable[[], object]) -> list[str]:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
        return [each.filename for each in caught]

    late = sash.stream(ROWS, time="ts", slack="0 seconds")
    assert warned(lambda: sash.sql("SELECT k FROM s", s=late)) == [__file__]
    session = sash.Session()
    session.stream("s", ROWS, time="ts", slack="0 seconds")
    session.query("q", "SELECT k FROM s")
    assert warned(session.run) == [__file__]


def test_the_face_keeps_its_names_and_words() -> None:
    for face in (sash.sql, sash.answer, sash.Session.push, sash.Query.push):
        assert face.__doc__
        assert "call" not in face.__name__
