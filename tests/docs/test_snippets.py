"""Runs every snippet of README.md and docs/, in order, each page in an empty directory of its own.

    ```python           is run; the blocks of a page share one namespace
    ```sh               is run by a shell, unless it needs Spark, make or pip, or measures: then its commands are only
                        checked; those of the first pages that need Spark or make are run by tests of their own
    ```sql              is planned over the streams and tables that the page has declared so far
    ```sql file=NAME    is also saved under this name
    ```sql verbose      is explained in full
    ```text             what the block before it prints: its output, its warnings, or for SQL the EXPLAIN or the error
    ``` with no word    is for the reader only

A block without a text block after it must print nothing. What differs from run to run is left out: the live progress
of `sash run`, its speed, and the directory. To write today's output into the pages, and then read the difference:

    python tests/docs/test_snippets.py --rewrite-docs [-k PAGE]
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from sash.cli.main import app
from sash.errors import SashError, SashWarning
from sash.io.files import FileSource
from sash.io.tables import declared_table
from sash.plan.explain.tree import explain_plan
from sash.plan.planner import plan_query
from sash.sql.bind import bind
from sash.sql.catalog import Catalog, RelationInfo, StreamInfo
from sash.sql.declared_validity import seen_schema
from sash.sql.parse import parse_script
from sash.sql.statements import CreateQuery, CreateStream, Statement
from support.bare import SOURCES, run_bare

pytestmark = pytest.mark.usefixtures("without_limit")  # pages show what EXPLAIN says without one

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCED = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = "text"
STARTS_SPARK = "spark_session("
HOME = "/home/you"


@dataclass
class Block:
    """A fenced block. `line` is where its code starts, `place` where the code stands in the page's text."""

    info: str
    code: str
    line: int
    place: tuple[int, int]
    output: Block | None = None

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def file(self) -> str | None:
        return next((word.removeprefix("file=") for word in self.info.split(" ") if word.startswith("file=")), None)

    @property
    def is_verbose(self) -> bool:
        return "verbose" in self.info.split(" ")

    @property
    def expected(self) -> str:
        return self.output.code if self.output else ""


@dataclass
class Reader:
    """Does what a page says, as its reader would."""

    page: Path
    directory: Path
    names: dict = field(default_factory=lambda: {"__name__": "__main__"})
    catalog: Catalog = field(default_factory=dict)
    has_spark: bool = False
    """Whether `sash run` may start Spark."""

    def run(self, block: Block) -> str | None:
        """What the block prints; None if its commands are only checked."""
        if block.file:
            (self.directory / block.file).write_text(block.code)
        match block.language:
            case "python":
                return _tidy(self._run_python(block), self.directory)
            case "sh":
                if not _is_run(block, self.has_spark):
                    return _check_commands(block)
                return _tidy(self._run_shell(block), self.directory)
            case "sql":
                return self._run_sql(block)
        return ""

    def _run_python(self, block: Block) -> str:
        code = compile("\n" * (block.line - 1) + block.code, self.page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as printed, warnings.catch_warnings():
            warnings.simplefilter("always", SashWarning)
            warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}")
            exec(code, self.names)
        return printed.getvalue()

    def _run_shell(self, block: Block) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "-c", block.code]
        environment = {**os.environ, "PATH": path, "COLUMNS": "100"}
        done = subprocess.run(command, capture_output=True, text=True, cwd=self.directory, env=environment)
        return done.stdout + done.stderr

    def _run_sql(self, block: Block) -> str:
        try:
            return "".join(self._plan(statement, block.is_verbose) for statement in parse_script(block.code))
        except SashError as error:
            if block.output is None:
                raise
            return f"{error}\n"

    def _plan(self, statement: Statement, is_verbose: bool) -> str:
        """Takes note of a stream or table; explains a query."""
        if isinstance(statement, CreateQuery):
            return explain_plan(plan_query(bind(statement.select, self.catalog)), verbose=is_verbose)
        declared = (statement.path, statement.format, statement.schema, statement.options)
        if isinstance(statement, CreateStream):
            FileSource(*declared)
            info = StreamInfo(statement.schema, statement.time, statement.slack_us, statement.tie, statement.statistics)
        else:
            declared_table(*declared)
            seen = seen_schema(statement.schema, statement.validity)
            info = RelationInfo(seen, validity=statement.validity, no_versions=None)
        self.catalog[statement.name.lower()] = info
        return ""


def read_blocks(text: str) -> list[Block]:
    """The blocks of a page, each with the text block after it as its output."""
    blocks: list[Block] = []
    for found in FENCED.finditer(text):
        line = text.count("\n", 0, found.start("code")) + 1
        block = Block(found["info"].strip(), found["code"], line, found.span("code"))
        if block.language == OUTPUT:
            assert blocks, f"line {line}: there is no block that this could be the output of"
            assert blocks[-1].output is None, f"line {line}: the block before has an output already"
            blocks[-1].output = block
        elif block.language:
            blocks.append(block)
    return blocks


def blocks_without_spark(page: Path) -> list[Block]:
    """The blocks before the first one that starts Spark."""
    blocks = read_blocks(page.read_text(encoding="utf-8"))
    first = next((idx for idx, block in enumerate(blocks) if STARTS_SPARK in block.code), len(blocks))
    return blocks[:first]


def follow(page: Path, blocks: list[Block], directory: Path, is_rewritten: bool, has_spark: bool = False) -> None:
    """Runs blocks of a page and compares what they print with what the page says, or makes the page say it."""
    reader = Reader(page, directory, has_spark=has_spark)
    told: list[tuple[Block, str]] = []
    for block in blocks:
        seen = reader.run(block)
        if seen is None:
            continue
        if is_rewritten and block.output:
            told.append((block.output, seen))
        elif _without_speed(seen) != _without_speed(block.expected) and (block.output or _must_print(block)):
            raise AssertionError(f"{page.name}, line {block.line} prints\n{seen}but the page says\n{block.expected}")
    if is_rewritten:
        text = page.read_text(encoding="utf-8")
        for output, seen in reversed(told):
            start, end = output.place
            text = text[:start] + seen + text[end:]
        page.write_text(text, encoding="utf-8")


def _must_print(block: Block) -> bool:
    """SQL without a text block only has to be planned."""
    return block.language != "sql"


def _tidy(text: str, directory: Path) -> str:
    """Output as on any machine: without blanks at line ends, progress, and this run's directory."""
    text = re.sub(r"[ \t]+$", "", text.replace(str(directory), HOME), flags=re.MULTILINE)
    text = re.sub(r"^ query +batches .*\n(?: .*\n)*", "", text, flags=re.MULTILINE).strip("\n")
    return f"{text}\n" if text else ""


def _without_speed(text: str) -> str:
    return re.sub(r"\d+\.\d s, [\d,]+ rows/s|[\d,]+\.\d ms$", "", text, flags=re.MULTILINE)


def _commands(block: Block) -> Iterator[list[str]]:
    for line in block.code.replace("\\\n", " ").splitlines():
        if words := shlex.split(line, comments=True):
            yield words


def _is_run(block: Block, has_spark: bool) -> bool:
    """Whether a shell block can be run here; heredocs keep us from looking at each line as a command."""
    if re.search(r"^(make|pip|git|cd|sash bench|sash calibrate|sash experiment)\b", block.code, re.MULTILINE):
        return False
    return has_spark or all(
        "--engine embedded" in line for line in re.findall(r"^sash run .*", block.code, re.MULTILINE)
    )


def _check_commands(block: Block) -> None:
    for command in _commands(block):
        _check_command(command)


def _check_command(words: list[str]) -> None:
    """Whether there is such a target of make, or such a command of sash with these options."""
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), f"make has no {words[1]}"
    if words[0] == "sash":
        command, rest = typer.main.get_command(app), words[1:]
        context = command.make_context("sash", list(rest))
        while isinstance(command, TyperGroup):
            name, command, rest = command.resolve_command(context, rest)
            assert command is not None
            context = command.make_context(name, list(rest), parent=context)


@pytest.fixture
def is_rewritten(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--rewrite-docs", default=False))


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rewritten: bool) -> None:
    monkeypatch.chdir(tmp_path)
    follow(page, blocks_without_spark(page), tmp_path, is_rewritten)


README, GETTING_STARTED = ROOT / "README.md", ROOT / "docs" / "getting-started.md"
SPARK_PAGES = [page for page in PAGES if STARTS_SPARK in page.read_text(encoding="utf-8")]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page == README else pytest.mark.deep, id=_name(page)) for page in SPARK_PAGES],
)
def test_page_with_spark(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rewritten: bool) -> None:
    """From the start, as the blocks with Spark use what stands before them.

    The JVM is in another directory, so these pages give it absolute paths.
    """
    monkeypatch.chdir(tmp_path)
    follow(page, read_blocks(page.read_text(encoding="utf-8")), tmp_path, is_rewritten)


@pytest.mark.slow
@pytest.mark.spark
def test_getting_started_with_its_commands_on_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_rewritten: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = read_blocks(GETTING_STARTED.read_text(encoding="utf-8"))
    assert [block.code for block in blocks if "--fresh abroad.sql" in block.code] == ["sash run --fresh abroad.sql\n"]
    follow(GETTING_STARTED, blocks, tmp_path, is_rewritten, has_spark=True)


def _shell(text: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """What a reader sees who has installed Sash, and whose shell stops at the first command that fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": SOURCES}
    return subprocess.run(["bash", "-ec", text], capture_output=True, text=True, cwd=directory, env=environment)


@pytest.mark.deep
@pytest.mark.slow
@pytest.mark.spark
def test_the_commands_of_the_readme_in_a_checkout(tmp_path: Path) -> None:
    """`make demo` and then the commands on files, with what is installed here instead of a new `.venv`."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("data", "output"))
    (tmp_path / "ready").touch()
    blocks = [block.code for block in read_blocks(README.read_text(encoding="utf-8")) if block.language == "sh"]
    (demo,) = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines() if "make demo" in line]
    installed = f"BIN={Path(sys.executable).parent} READY=ready"
    done = _shell(f"{demo} -o ready {installed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "hot_and_humid: the newest 10 of" in done.stdout
    assert not (tmp_path / ".venv").exists()
    on_spark = _answer(tmp_path)
    assert on_spark
    (commands,) = [block for block in blocks if "sash run examples" in block]
    done = _shell(commands, tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert " 0 rows read" in done.stdout, "on Spark it went on, and there was nothing new"
    assert _answer(tmp_path) == on_spark, "written anew, in this process"


def _answer(checkout: Path) -> list[tuple]:
    import duckdb

    files = checkout / "examples" / "output" / "hot_and_humid" / "*" / "*.parquet"
    rows = duckdb.read_parquet(str(files), hive_partitioning=False)  # how input was cut into batches is not the answer
    return rows.order("ALL").fetchall()


FOLLOW = """
import sys
from pathlib import Path
from tests.docs.test_snippets import STARTS_SPARK, follow, read_blocks

page = Path(sys.argv[1])
blocks = [block for block in read_blocks(page.read_text(encoding="utf-8")) if STARTS_SPARK not in block.code]
follow(page, blocks, Path.cwd(), is_rewritten=False)
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", [README, GETTING_STARTED], ids=_name)
def test_what_needs_no_spark_runs_without_extras(page: Path, tmp_path: Path) -> None:
    """As after `pip install sash`; what the first pages do before Spark comes in needs no more."""
    place = tmp_path / "place"
    place.mkdir()
    done = run_bare(["-c", FOLLOW, str(page)], place, tmp_path / "shim", [str(ROOT), str(ROOT / "tests")])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "ARCHITECTURE.md"], ids=_name)
def test_links_lead_somewhere(page: Path) -> None:
    text = FENCED.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
        assert "://" in link or (page.parent / link).exists(), f"{page.name} links to {link}, which is not there"


def test_the_table_of_contents_names_every_page() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    missing = [_name(page) for page in PAGES[1:] if f"]({page.relative_to(ROOT / 'docs').as_posix()})" not in index]
    assert missing == ["docs/index.md"]


class RewriteOption:
    """A plugin of pytest: only a run of this file as a program has the option."""

    @staticmethod
    def pytest_addoption(parser: pytest.Parser) -> None:
        parser.addoption("--rewrite-docs", action="store_true", help="write today's output into the pages")


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]], plugins=[RewriteOption]))
