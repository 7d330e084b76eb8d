"""Files of real checkpoints and outputs are damaged, one at a time: the next run is refused by name, or right.

Every case begins with what runs have left, ended or killed in the middle of a batch. Then one file of any kind, of the
checkpoint's, the state's, the control's, the staging's or the output's, is changed, more input comes, and `sash run`
goes on. `pytest -s --hypothesis-profile=deep` shows the table of outcomes; `SASH_SEED` says which files,
`SASH_VOLUME` how many times as many.
"""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from tests.spark.dying import OPERATION
from tests.spark.dying_runs import SCRIPTS, DyingRuns

from support.commands import run_command
from support.profiles import SEED, in_depth

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.deep]

N_CASES = in_depth(20)
"""For each script."""
WAYS = ("flip", "truncate", "delete", "swap", "older", "copy", "foreign")
FIXED = (
    ("killed", "out/*.rejects/batch=*/*.json", "swap"),
    ("ended", "**/spark/state/0/0/*.zip", "copy"),
    ("ended", "**/spark/sources/1/[0-9]*", "copy"),
    ("ended", "**/spark/offsets/.*.crc", "flip"),
    ("ended", "**/spark/state/0/0/.*.changelog.crc", "flip"),
)
"""Files that are damaged so in any case; the others by chance."""
INPUT = ("a", "b", "notes", "expected", "count")
PUBLISHED = re.compile(r"^out/QUERY(\.late|\.rejects)?/(\w+/)?batch=")
"""Of those a run checks the sizes, and what is in the newest batch; `sash repair` looks into all of them."""
RAW = re.compile(r"Traceback|Py4J|org\.apache|java\.|\bbug\b|Exception")
SNAPSHOTS_OFTEN = """
spark.sql.streaming.stateStore.maintenanceInterval 300ms
spark.sql.streaming.stateStore.minDeltasForSnapshot 2
"""


class Scenes:
    """What runs have left at three moments: early, when they had ended, and when one was killed in a batch."""

    def __init__(self, root: Path, queries: dict[str, str]):
        self.work, self._kept = root / "work", root / "kept"
        (root / "conf").mkdir()
        (root / "conf" / "spark-defaults.conf").write_text(SNAPSHOTS_OFTEN)
        self.work.mkdir()
        self.runs = DyingRuns(self.work, queries)
        self.runs.environment = {"SPARK_CONF_DIR": str(root / "conf")}
        n_operations = self.runs.count_operations()
        self.runs.end()
        self._keep("early")
        for _ in range(2):
            self.runs.add_files()
            self.runs.end()
        self._keep("ended")
        self.runs.die_at(OPERATION, n_operations // 2, "group")
        self._keep("killed")

    def _keep(self, moment: str) -> None:
        shutil.copytree(self.work, self._kept / moment)

    def restore(self, moment: str) -> None:
        shutil.rmtree(self.work)
        shutil.copytree(self._kept / moment, self.work)
        self.runs.n_files = len(list((self.work / "a").iterdir()))

    def files(self) -> dict[str, list[Path]]:
        """What Sash and Spark have written, by kind."""
        found: dict[str, list[Path]] = defaultdict(list)
        for path in sorted(self.work.rglob("*")):
            name = path.relative_to(self.work)
            if path.is_file() and len(name.parts) > 1 and name.parts[0] not in INPUT:
                found[kind_of(name)].append(path)
        return found

    def older(self, path: Path) -> Path | None:
        """What a file was before, if it was there and has changed."""
        before = self._kept / "early" / path.relative_to(self.work)
        return before if before.is_file() and before.read_bytes() != path.read_bytes() else None


def kind_of(name: Path) -> str:
    """A name in which one number or word stands for all."""
    kind = re.sub(r"[0-9a-f]{8,}(-[0-9a-f]{4}){0,3}(-[0-9a-f]+)?", "#", str(name))
    kind = re.sub(r"(/\.?)\w+(?=(\.(late|rejects|checkpoint|staging))?/)", r"\1QUERY", kind, count=1)
    return re.sub(r"\d+", "N", kind)


def damage(path: Path, way: str, scenes: Scenes, chance: random.Random) -> bool:
    """Whether something was changed."""
    content = path.read_bytes()
    if way == "delete":
        path.unlink()
    elif way in ("copy", "foreign"):
        name = re.sub(r"\d+", lambda found: str(int(found[0][:9]) + 1), path.name, count=1)
        target = path.with_name(name if name != path.name else f"foreign-{path.name}")
        if target.exists():
            return False
        target.write_bytes(content if way == "copy" else b'{"not": "Sash\'s"}\n')
    elif way == "older":
        before = scenes.older(path)
        if before is None:
            return False
        shutil.copyfile(before, path)
    elif way == "swap":
        others = [each for each in path.parent.iterdir() if each.is_file() and each.suffix == path.suffix]
        other = chance.choice(others)
        if other.read_bytes() == content:
            return False
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    elif not content:
        return False
    elif way == "flip":
        changed = bytearray(content)
        changed[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(changed)
    else:
        path.write_bytes(content[: chance.randrange(len(content))])
    return True


@pytest.fixture
def sash(spark, monkeypatch, capsys) -> Callable[..., tuple[int, str]]:
    """The command in this process, on the Spark that is there: its exit code, and what it says of errors."""
    monkeypatch.setattr("sash.spark.spark_session.spark_session", lambda master: spark)
    monkeypatch.setattr("sash.spark.spark_session.end_session", lambda spark, is_well: None)

    def run(*arguments: str) -> tuple[int, str]:
        return run_command(monkeypatch, *arguments), capsys.readouterr().err

    return run


@pytest.mark.parametrize("name", ["a join of three", "five that share a join"])
def test_a_damaged_file_is_told_or_does_no_harm(name, sash, outputs, tmp_path, monkeypatch, capsys):
    scenes, chance = Scenes(tmp_path, SCRIPTS[name]), random.Random(f"{SEED} {name}")
    expected, found, wrong = {}, defaultdict(Counter), []
    fixed = list(FIXED)
    while sum(each.total() for each in found.values()) < N_CASES:
        moment = fixed[-1][0] if fixed else chance.choice(["ended", "killed"])
        scenes.restore(moment)
        monkeypatch.chdir(scenes.work)
        files = scenes.files()
        if fixed:
            _, pattern, way = fixed[-1]
            path = newest(each for each in scenes.work.glob(pattern) if "count" not in str(each))
            kind = kind_of(path.relative_to(scenes.work))
        else:
            kind, way = chance.choice([*files]), chance.choice(WAYS)
            path = chance.choice(files[kind])
        contents = {each: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
        if not damage(path, way, scenes, chance):
            continue
        fixed = fixed[:-1]
        scenes.runs.add_files()
        if moment not in expected:
            expected[moment] = scenes.runs.expected(outputs)
        code, said = sash("run", "out.sql", "--files-per-batch", "1", "--json")
        if code == 0 and PUBLISHED.search(kind) and path.read_bytes() != contents[path]:
            repaired, told = sash("repair", "out.sql")
            assert repaired == 1, path
            assert path.name in told
            for each, content in contents.items():  # no run goes on from what is in it, or in one it was swapped with
                each.write_bytes(content)
        outcome = judge(code, said, scenes, expected[moment], outputs)
        found[kind, way][outcome] += 1
        if outcome not in ("right", "refused"):
            wrong.append((moment, str(path.relative_to(scenes.work)), way, outcome, said[-2000:]))
        with capsys.disabled():
            n_done = sum(each.total() for each in found.values())
            print(f"{name}: {n_done} of {N_CASES}, {moment}, {way} of {kind}: {outcome}", flush=True)
    with capsys.disabled():
        show(name, found)
    assert not wrong, wrong


def newest(paths: Iterable[Path]) -> Path:
    """By the largest number in its name, as the one after it is free."""
    return max(paths, key=lambda path: int(re.findall(r"\d+", path.name)[0]))


def judge(code: int, said: str, scenes: Scenes, expected: dict, outputs) -> str:
    if RAW.search(said):
        return "a raw trace"
    if code == 0:
        return "right" if scenes.runs.written("out", outputs) == expected else "WRONG"
    is_told = code == 1 and said.startswith("error: ") and re.search(r"\bout(put)?/", said)
    return "refused" if is_told else "told badly"


def show(title: str, found: dict[tuple[str, str], Counter]) -> None:
    """By kind of file and way of damage: how many went on rightly, were refused, and else."""
    table = Table("file", *WAYS, title=f"{title}: right/refused/other")
    for kind in sorted({kind for kind, _ in found}):
        cells = []
        for way in WAYS:
            seen = found.get((kind, way), Counter())
            n_other = seen.total() - seen["right"] - seen["refused"]
            cells.append(f"{seen['right']}/{seen['refused']}/{n_other}" if seen else "")
        table.add_row(kind, *cells)
    Console(width=150).print(table)
