"""What is built from the repository, and that its few lists agree."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import sash
from sash import errors
from support.bare import EXTRA_MODULES
from support.commands import run_command

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
WRITTEN = {".py", ".md", ".sql", ".test", ".explain", ".rule", ".golden", ".txt", ".typed"}
"""What files of the repository end in, below its top; what runs and tests leave behind ends otherwise."""


def hatchling(*arguments: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "hatchling", *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_there_is_one_version(monkeypatch, capsys):
    assert run_command(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"sash {sash.__version__}\n"
    assert hatchling("metadata", "version") == sash.__version__


def test_every_extra_can_be_told_to_be_missing():
    assert set(errors._EXTRAS) == set(EXTRAS) - {"all", "dev"}
    required = {module.split(".")[0] for modules in errors._EXTRAS.values() for module in modules}
    assert required <= set(EXTRA_MODULES)


def test_all_and_dev_bring_every_extra():
    (everything,) = EXTRAS["all"]
    assert everything == f"sash[{','.join(name for name in EXTRAS if name not in ('all', 'dev'))}]"
    assert "sash[all]" in EXTRAS["dev"]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """The names of the files in a wheel and in an sdist, and these without the leading directory."""
    place = tmp_path_factory.mktemp("dist")
    hatchling("build", "--directory", str(place))
    (wheel,), (sdist,) = place.glob("*.whl"), place.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        in_wheel = set(opened.namelist())
    with tarfile.open(sdist) as opened:
        return in_wheel, {name.partition("/")[2] for name in opened.getnames()}


@pytest.mark.slow
def test_a_wheel_has_the_package_and_its_types(built):
    in_wheel, _ = built
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    own = {name for name in in_wheel if ".dist-info/" not in name}
    assert own == modules | {"sash/py.typed", "sash/kernels/signatures.txt"}


def test_an_sdist_has_what_its_tests_need_and_nothing_that_was_made(built):
    _, in_sdist = built
    assert {".ci/run", "LICENSE", "Makefile", "README.md", "pyproject.toml", "requirements.lock"} <= in_sdist
    folders = ("docs", "examples", "src", "tests")
    files = {path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in WRITTEN}
    inside = {name for name in in_sdist if name.startswith(tuple(f"{folder}/" for folder in folders))}
    assert {path.relative_to(ROOT).as_posix() for path in files} == inside
    assert not {name for name in in_sdist - inside if name.startswith((".venv", ".git/", "build", "dist"))}
