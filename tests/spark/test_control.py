"""What the driver says to a running query, and what is not taken for it; without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sash.errors import SourceError
from sash.spark.control import Control, Punctuation, hear
from sash.spark.source_log import check_heard


@pytest.mark.parametrize("said", [Punctuation("", None), Punctuation('a "quoted" {stream}\n', -5), Punctuation("b", 7)])
def test_what_is_said_is_heard(tmp_path: Path, said: Punctuation) -> None:
    control = Control(tmp_path, "0123456789abcdef0")
    control.say(said)
    (path,) = tmp_path.iterdir()
    assert hear(path.read_bytes(), str(path), control.stamp) == said
    assert control.is_own(str(path))
    control.check()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"stream": "", "complete_us": 9}',
        b'{"run": "other", "stream": "", "complete_us": 9}',
        b'{"run": "mine", "stream": ""}',
        b'{"run": "mine", "stream": "", "complete_us": "soon"}',
    ],
)
def test_what_is_not_of_this_run_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ".half").write_bytes(b"in progress")
    Control(tmp_path, "mine").check()
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(SourceError) as error:
        Control(tmp_path, "mine").check()
    assert str(error.value) == (
        f"control file `{tmp_path}/x.json` was not written by this run: it has not its stamp; remove the file"
    )


def test_what_was_said_must_not_vanish_before_it_was_heard(tmp_path: Path) -> None:
    control = Control(tmp_path / "control", "0123456789abcdef0")
    control.directory.mkdir()
    control.say(Punctuation("", None))
    (own,) = control.directory.iterdir()
    spark = tmp_path / "spark"
    for directory in ("offsets", "sources/0"):
        (spark / directory).mkdir(parents=True)
    (spark / "offsets" / "0").write_text('v1\n{}\n{"logOffset":0}')
    entries = [{"path": each.as_uri(), "batchId": 0} for each in (own, own.with_name("forged.json"))]
    (spark / "sources" / "0" / "0").write_text("\n".join(["v1", *map(json.dumps, entries)]))
    check_heard(control, spark, 0)
    own.unlink()
    with pytest.raises(SourceError, match=rf"control file `{own}` was taken into batch 0 and is gone; restore it"):
        check_heard(control, spark, 0)
