"""A script that is run again and again by processes that die, and whether what they have written is right."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.spark import dying
from tests.spark.dying import VICTIMS

from sash.embedded.run_to_end import run_files
from sash.runtime.job import Job, QueryRun
from sash.runtime.script import bind_script
from support.masters import MASTER
from support.profiles import SEED, VOLUME

ReadOutputs = Callable[[QueryRun], tuple[list[tuple], dict[str, list[tuple]]]]
SECONDS_FOR_A_RUN = 300 * max(1, VOLUME)
"""The last one reads what all have left."""
FILES_PER_RUN = 2

STREAMS = """
CREATE STREAM a (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM 'a' FORMAT csv;
CREATE STREAM b (id INT, k VARCHAR, ts TIMESTAMP) TIMESTAMP BY ts SLACK 2 SECONDS FROM 'b' FORMAT csv;
"""
SCRIPTS = {
    "a join of three": {
        "joined": "SELECT A.id AS a, B.id AS b, C.id AS c FROM a A, b B, a C WHERE A.k = B.k AND B.id % 7 = C.id % 7 "
        "WINDOW 12 SECONDS"
    },
    "five that share a join": {
        "joined": "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k WINDOW 5 SECONDS",
        "counted": "SELECT A.id % 3 AS m, count(*) AS n FROM a A, b B WHERE A.k = B.k GROUP BY A.id % 3 "
        "WINDOW 5 SECONDS",
        "large": "SELECT A.id AS a, B.id AS b FROM a A, b B WHERE A.k = B.k AND A.id > 3 WINDOW 12 SECONDS",
        "total": "SELECT count(*) AS n FROM a A, b B WHERE A.k = B.k WINDOW 8 SECONDS EMIT CHANGES",
        "keys": "SELECT DISTINCT A.k FROM a A, b B WHERE A.k = B.k WINDOW 3 SECONDS",
    },
    "GROUP BY": {
        "counted": "SELECT A.k, count(*) AS n, sum(B.id) AS total FROM a A, b B WHERE A.k = B.k GROUP BY A.k "
        "WINDOW 12 SECONDS EMIT CHANGES"
    },
    "EXCEPT": {"only_a": "SELECT A.id % 5 AS m FROM a A EXCEPT SELECT B.id % 5 FROM b B WINDOW 4 SECONDS"},
    "OVER, SESSION and top-k": {
        "numbered": "SELECT A.id, row_number() OVER (PARTITION BY A.k ORDER BY A.id DESC) AS n, "
        "lag(A.id) OVER (PARTITION BY A.k ORDER BY A.ts) AS earlier FROM a A [RANGE 7 SECONDS]",
        "sessions": "SELECT A.k, window_start, window_end, count(*) AS n FROM SESSION(a PARTITION BY k, ts, 3 s) A "
        "GROUP BY A.k, window_start, window_end",
        "newest": "SELECT B.k, B.id FROM b B QUALIFY row_number() OVER (PARTITION BY B.k ORDER BY B.id DESC) <= 2 "
        "WINDOW 6 SECONDS",
    },
    "joins that keep rows without partners": {
        "paired": "SELECT A.id AS a, B.id AS b FROM a A LEFT JOIN b B ON A.k = B.k AND B.id % 3 = 0 WINDOW 4 SECONDS",
        "final": "SELECT A.id AS a, B.id AS b FROM a A LEFT JOIN b B ON A.k = B.k AND B.id % 3 = 0 WINDOW 4 SECONDS "
        "EMIT FINAL",
        "latest": "SELECT A.id AS a, B.id AS b FROM a A ASOF LEFT JOIN b B ON A.k = B.k AND A.ts >= B.ts "
        "WINDOW 4 SECONDS",
    },
}


class DyingRuns:
    """A script with its input, in a directory of its own, and the runs that died over it."""

    def __init__(self, root: Path, queries: dict[str, str]):
        self.root, self.queries = root, queries
        self.n_files = self.first_id = 0
        self.story: list[str] = []
        self.environment: dict[str, str] = {}
        """Of the runs."""
        for stream in "ab":
            (root / stream).mkdir()
        self.write_script("out")

    def write_script(self, out: str) -> None:
        queries = (
            f"CREATE QUERY {name} AS {text} INTO '{out}/{name}' FORMAT parquet;\n"
            for name, text in self.queries.items()
        )
        (self.root / f"{out}.sql").write_text(STREAMS + "".join(queries))

    def add_files(self) -> None:
        """Each is newer than all before it, as a run that ends declares its input complete. Some rows are late, and
        some no rows at all."""
        for _ in range(FILES_PER_RUN):
            for stream in "ab":
                self._write(stream, self.n_files)
            self.n_files += 1

    def change_input(self) -> None:
        self.first_id += 1000
        for number in range(self.n_files):
            for stream in "ab":
                self._write(stream, number)

    def _write(self, stream: str, number: int) -> None:
        low = 5 * number
        rows = [f"{self.first_id + low + i},k{i % 3},{_moment(low + i // (1 + (stream == 'b')))}" for i in range(5)]
        if number % 4 == 3:
            rows += [f"{self.first_id - low},k0,2025-12-31 23:00:00", "nonsense,k0,yesterday"]
        new = self.root / "new"
        new.write_text("id,k,ts\n" + "".join(f"{row}\n" for row in rows))
        os.utime(new, (1000 + number, 1000 + number))
        new.rename(self.root / stream / f"{number:04d}.csv")

    def sash(self, *arguments: str, place: str = "nowhere", at: int = 0, victim: str = "") -> subprocess.Popen:
        shutil.rmtree(self.notes, ignore_errors=True)
        self.notes.mkdir()
        command = [sys.executable, dying.__file__, place, str(at), victim, str(self.notes)]
        options = ("run", "--master", MASTER, "--files-per-batch", "1", "--rows", "0")
        with (self.root / "errors").open("w") as errors:
            return subprocess.Popen(
                [*command, *options, *arguments],
                cwd=self.root,
                env=os.environ | self.environment,
                start_new_session=True,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    @property
    def notes(self) -> Path:
        return self.root / "notes"

    def count_operations(self) -> int:
        """How many a run over a few files does, when nothing happens."""
        self.write_script("count")
        self.add_files()
        self.end("count.sql")
        return int((self.notes / "operations").read_text())

    def end(self, *arguments: str) -> None:
        """A run to which nothing happens."""
        run = self.sash(*(arguments or ("out.sql",)))
        assert run.wait(SECONDS_FOR_A_RUN) == 0, self.told()

    def die_at(self, place: str, at: int, victim: str) -> None:
        """A run that loses somebody at a place; if it does not come so far, at an earlier one."""
        while True:
            self.add_files()
            run = self.sash("out.sql", place=place, at=at, victim=victim)
            code = run.wait(SECONDS_FOR_A_RUN)
            if (self.notes / "killed").exists():
                break
            assert code == 0, self.told()
            at //= 2
        self.story.append(f"{victim} at {place} {at}: {(self.notes / 'killed').read_text()}")
        self._check_end(code, victim)

    def die_after(self, delay: float, victim: str) -> None:
        """A run that loses somebody so many seconds after it began to write; less if it ends before."""
        while True:
            self.add_files()
            run = self.sash("out.sql")
            with suppress(subprocess.TimeoutExpired):
                while not (self.notes / "started").exists() and run.poll() is None:
                    with suppress(subprocess.TimeoutExpired):
                        run.wait(0.05)
                run.wait(delay)
            if run.poll() is None:
                break
            assert run.returncode == 0, self.told()
            delay /= 2
        dying.kill(victim, run.pid)
        code = run.wait(SECONDS_FOR_A_RUN)
        self.story.append(f"{victim} {delay:.2f} s after the start")
        if code != 0 or victim == "worker":  # else it had just ended
            self._check_end(code, victim)

    def _check_end(self, code: int, victim: str) -> None:
        said = (self.root / "errors").read_text()
        assert code == VICTIMS[victim], self.told()
        if victim == "jvm":
            assert said.startswith(("error: Spark's JVM has died", "error: Java at ")), self.told()
            assert said.count("\n") == 1, self.told()

    def told(self) -> str:
        """What happened before a failure."""
        return f"seed {SEED}; died: {self.story}; the last run said: {(self.root / 'errors').read_text()[-3000:]}"

    def check(self, outputs: ReadOutputs) -> None:
        """Against a run in this process over the same input, to which nothing happened."""
        expected = self.expected(outputs)
        assert self.written("out", outputs) == expected, self.told()
        assert all(len(changes) > 10 for changes, _, _ in expected.values())

    def expected(self, outputs: ReadOutputs) -> dict[str, tuple]:
        """What a run in this process writes."""
        self.write_script("expected")
        shutil.rmtree(self.root / "expected", ignore_errors=True)
        for each in self._runs("expected"):
            run_files(Job.alone(each), lambda name, tally: None)
        return self.written("expected", outputs)

    def written(self, out: str, outputs: ReadOutputs) -> dict[str, tuple]:
        """By query, the changes, late rows and rejects that are there now."""
        return {each.name: (*outputs(each), _rejects(each)) for each in self._runs(out)}

    def _runs(self, out: str) -> list[QueryRun]:
        return bind_script((self.root / f"{out}.sql").read_text()).runs()


def _rejects(run: QueryRun) -> list[str]:
    paths = Path(run.reject_sink.path).glob("*/*.json")
    return sorted(line for path in paths for line in path.read_text().splitlines())


def _moment(seconds: int) -> str:
    return f"2026-01-01 {seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
