"""Files of Sash's own that cannot be read are told of by name, with the reason and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sash.errors import SourceError, describe_os_error

_RESTORE = "restore it from a backup, or run with --fresh to start afresh"


def read_object(path: Path) -> dict[str, Any]:
    """A JSON object."""
    try:
        with reading(path):
            content = json.loads(path.read_bytes())
    except ValueError:
        raise damaged(path, "it is not JSON") from None
    if not isinstance(content, dict):
        raise damaged(path, "it is not a JSON object")
    return content


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Tells of a file that cannot be read, such as a directory in its place; not of one that is gone."""
    try:
        yield
    except FileNotFoundError:
        raise
    except IsADirectoryError:
        raise damaged(path, "it is a directory, not a file") from None
    except NotADirectoryError:
        raise damaged(path, "a part of its path is a file") from None
    except OSError as error:
        raise describe_os_error(error, str(path)) from error


def damaged(path: Path, what: str) -> SourceError:
    """The error for a file that is there, and wrong."""
    return SourceError(f"{path} is damaged: {what}; {_RESTORE}")


def missing(path: Path) -> SourceError:
    """The error for a file that is needed, and gone."""
    return SourceError(f"{path} is missing, without which the run cannot go on; {_RESTORE}")
