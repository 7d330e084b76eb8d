"""Where things are: one name for every directory, however it was spelt, and what lies in what."""

from __future__ import annotations

import fnmatch
import glob
import os

import pyarrow as pa
import pyarrow.fs

from sash.errors import SourceError, mask_secrets

WILDCARDS = "*?["


def real_place(path: str) -> str:
    """The one name of a local file or directory: absolute, without `file:`, links and dots. Other addresses stay."""
    path = _plain_path(path)
    return path.rstrip("/") if "://" in path else os.path.realpath(path)


def _plain_path(path: str) -> str:
    """A path without `file:`; other addresses stay."""
    if not path.startswith("file://"):
        return path.removeprefix("file:")
    try:
        return pyarrow.fs.FileSystem.from_uri(path)[1]
    except (pa.ArrowInvalid, OSError) as error:
        raise SourceError(f"`{path}` is not the address of a local file: {error}; write a plain path") from None


def absolute_path(path: str) -> str:
    """A path, which may be a glob, for whoever is in another directory; links stay, and so do other addresses."""
    path = _plain_path(path)
    return path if "://" in path else os.path.abspath(path)


def shown_place(path: str) -> str:
    """A path as a user would write it: relative to here if it is below, and without secrets."""
    if "://" in path:
        return mask_secrets(path)
    here = os.getcwd()
    return os.path.relpath(path, here) if path.startswith(f"{here}/") else path


def lies_in(path: str, directory: str) -> bool:
    """Whether a place is a directory or lies in it; both as `real_place` names them."""
    return path == directory or path.startswith(f"{directory.rstrip('/')}/")


def may_read(source: str, directory: str) -> bool:
    """Whether a source, which may be a glob, may read what is in a directory, or lies in it."""
    path = absolute_path(source)
    base, pattern = (path, []) if os.path.exists(path) else split_glob(path)
    base = real_place(base)
    if not pattern or lies_in(base, directory):
        return overlap(base, directory)
    if not lies_in(directory, base):
        return False
    names = os.path.relpath(directory, base).split("/")
    return all(fnmatch.fnmatchcase(name, part) for name, part in zip(names, pattern, strict=False))


def overlap(one: str, other: str) -> bool:
    """Whether two places are the same, or one lies in the other."""
    return lies_in(one, other) or lies_in(other, one)


def linked_places(source: str) -> set[str]:
    """Where links lead that whoever reads a source follows: by their real names, of those that are there now."""
    path = absolute_path(source)
    if "://" in path:
        return set()
    found: set[str] = set()
    for match in [path] if os.path.exists(path) else glob.iglob(path):
        _follow(match, found)
    return found


def _follow(path: str, found: set[str]) -> None:
    if os.path.realpath(path) != path:
        path = os.path.realpath(path)
        if path in found:
            return
        found.add(path)
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            below = [entry.path for entry in entries if entry.is_symlink() or entry.is_dir()]
        for each in below:
            _follow(each, found)


def split_glob(path: str) -> tuple[str, list[str]]:
    """The directory before the first name with a wildcard, and the names from there on."""
    names = path.split("/")
    n_plain = next((idx for idx, name in enumerate(names) if any(sign in name for sign in WILDCARDS)), len(names))
    return "/".join(names[:n_plain]) or "/", names[n_plain:]
