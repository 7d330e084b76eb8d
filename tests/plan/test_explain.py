"""EXPLAIN: the same plan always gives the same text, in short and verbose."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sash.plan.explain.describe_sharing import explain_sharing
from sash.plan.explain.tree import explain_plan
from sash.plan.explain.wording import format_duration, plain
from sash.plan.sharing.who_shares import LEAST_IN_SCRIPTS, decide_sharing
from sash.runtime.script import read_script

GOLDEN = Path(__file__).parent / "three_streams.explain"
FIXTURES = sorted((Path(__file__).parent / "explain").glob("*.explain"))
EXAMPLE = Path(__file__).parents[2] / "examples" / "datacenter.sql"
SCREENS = Path(__file__).parent / "datacenter.explain"
SQL = """\
SELECT A.k, upper(B.s) AS s, C.ts AS c, R.name
FROM A [PARTITION BY k, s ROWS 10], B [RANGE 90 MINUTES], C [RANGE 1 HOUR], R
WHERE A.k = B.k AND A.s = B.s AND B.s = C.s AND A.k + B.n = C.k AND C.s = R.s
  AND A.k > 0 AND B.n < 10 AND R.name <> 'z' AND A.ts < C.ts EMIT CHANGES"""
PROGRAM = f"""
import pyarrow as pa
import sash

def stream(**columns):
    return sash.stream(pa.schema([("ts", pa.int64()), *columns.items()]).empty_table(), time="ts", slack="5 seconds")

frames = dict(
    A=stream(k=pa.int64(), s=pa.string()),
    B=stream(k=pa.float64(), s=pa.string(), n=pa.int32()),
    C=stream(k=pa.int64(), s=pa.string()),
    R=sash.relation(pa.table({{"s": ["x"], "name": ["y"]}})),
)
text = sash.explain({SQL!r}, **frames) + "\\n" + sash.explain({SQL!r}, verbose=True, **frames)
fingerprint = sash.query({SQL!r}, **frames).plan.fingerprint
"""


@pytest.fixture(scope="module")
def explained() -> dict[str, str]:
    made: dict[str, str] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("SASH_MEMORY", raising=False)
        exec(PROGRAM, made)
    return made


def test_three_streams_and_a_relation(explained: dict[str, str], request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--rewrite-goldens", default=False):
        GOLDEN.write_text(f"{SQL}\n\n{explained['text']}", encoding="utf-8")
    assert f"{SQL}\n\n{explained['text']}" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_operators_and_schedules(path: Path, plan: Callable, request: pytest.FixtureRequest) -> None:
    """A fixture is a query and EXPLAIN of it, in short and verbose, with empty lines between them."""
    sql = path.read_text(encoding="utf-8").split("\n\n")[0].rstrip("\n")
    seen = f"{sql}\n\n{explain_plan(plan(sql))}\n{explain_plan(plan(sql), verbose=True)}"
    if request.config.getoption("--rewrite-goldens", default=False):
        path.write_text(seen, encoding="utf-8")
    assert seen == path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_example_fits_on_a_screen(request: pytest.FixtureRequest) -> None:
    """Its ten queries together, as they run, and each by itself."""
    plans = read_script(EXAMPLE).plans
    alone = {name: explain_plan(each) for name, each in plans.items()}
    texts = [
        explain_sharing(decide_sharing(plans, LEAST_IN_SCRIPTS)),
        *(f"Query {name} by itself\n{text}" for name, text in alone.items()),
    ]
    if request.config.getoption("--rewrite-goldens", default=False):
        SCREENS.write_text("\n".join(texts), encoding="utf-8")
    assert "\n".join(texts) == SCREENS.read_text(encoding="utf-8")
    assert all(len(text.splitlines()) <= 16 for text in alone.values())
    assert all(len(line) <= 120 for text in alone.values() for line in text.splitlines())


@pytest.mark.slow
@pytest.mark.usefixtures("without_limit")
def test_the_text_does_not_depend_on_the_process(explained: dict[str, str]) -> None:
    """Sets of strings have another order in every process, unless PYTHONHASHSEED says otherwise."""
    program = f"{PROGRAM}\nprint(text, fingerprint, sep='', end='')"
    seed = "1" if os.environ.get("PYTHONHASHSEED") != "1" else "2"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    other = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert other.stdout == explained["text"] + explained["fingerprint"]


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 seconds"),
        (1, "1 microsecond"),
        (1_500, "1 millisecond 500 microseconds"),
        (90_000_000, "1 minute 30 seconds"),
        (3_600_000_000, "1 hour"),
        (8 * 86_400_000_000, "1 week 1 day"),
    ],
)
def test_durations_are_exact(us: int, text: str) -> None:
    assert format_duration(us) == text


@pytest.mark.parametrize(
    ("condition", "shown"),
    [
        ("NOT A.x = 1", "NOT A.x = 1"),
        ("(A.x = 1 OR A.x = 2)", "A.x = 1 OR A.x = 2"),
        ("A.x = 1 AND A.k = 2", "(A.x = 1) AND (A.k = 2)"),
        ("A.s = ')' OR A.s = '('", "A.s = ')' OR A.s = '('"),
        ("abs(A.x) > (A.k)", "abs(A.x) > (A.k)"),
    ],
)
def test_conditions_are_shown_as_written(condition: str, shown: str, plan: Callable) -> None:
    text = explain_plan(plan(f"SELECT A.x FROM A WHERE {condition}"), verbose=True)
    assert [line.split(maxsplit=1)[1] for line in text.splitlines() if line.split()[0] == "filter"] == [shown]


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ('"_agg.1" > "_agg.10"', "sum(t.v) > max(abs(t.v))"),
        ('"_group.0" * 2', "(t.k + 1) * 2"),
        ('("_group.0") * 2', "(t.k + 1) * 2"),
        ('abs("_group.0")', "abs(t.k + 1)"),
        ('"_group.0"', "t.k + 1"),
        ('"_agg.1" || \'"_agg.1" _agg.1\'', "sum(t.v) || '\"_agg.1\" _agg.1'"),
        ('"_agg.100"', "_agg.100"),
        ('"a name" + "A.x"', '"a name" + A.x'),
    ],
)
def test_names_of_ones_own_are_written_as_what_they_mean(sql: str, shown: str) -> None:
    assert plain(sql, {"_agg.1": "sum(t.v)", "_agg.10": "max(abs(t.v))", "_group.0": "t.k + 1"}) == shown
