"""Every error Sash raises on purpose.

A message is lower case, puts names in backticks, says the value seen, the reason and the remedy. Errors about a query
text also carry where in the text the mistake stands, and print that line underlined.
"""

from __future__ import annotations

import difflib
import errno
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from textwrap import indent


@dataclass(frozen=True, slots=True)
class Span:
    """Where something stands in a query text: character offsets, `end` exclusive."""

    start: int
    end: int


class SashError(Exception):
    """The root of all errors that Sash raises on purpose. Their messages hold no secrets of the user's."""

    def __init__(self, message: str = ""):
        super().__init__(mask_secrets(message))


class QueryError(SashError):
    """A mistake in a query text; shown with its line and the place underlined when the place is known."""

    def __init__(self, message: str, text: str | None = None, span: Span | None = None, note: str | None = None):
        """`note` is what helps to see the mistake, in lines of its own; it stands below the text."""
        self.reason = message
        self.text = text
        self.span = span
        self.note = note
        shown = [message] if text is None or span is None else [message, underline(text, span)]
        super().__init__("\n".join([*shown, *([indent(note, "  ")] if note else [])]))


class ParseError(QueryError):
    """The text is not a sentence of Sash's SQL."""


class BindError(QueryError):
    """The text names something that is not there, or uses it with the wrong type."""


class PlanError(QueryError):
    """The query is well-formed but cannot be run; the message says which clause and what would fix it."""


class SourceError(SashError):
    """Bad data, or a source that fails; the message names the file, row and field."""


class ResourceError(SashError):
    """Something the run needs is missing or used up: memory, disk, Java, a Spark setting."""


class MismatchError(SashError):
    """Engines that must give the same answer do not; the message shows rows that only one of them gives."""


class InternalError(SashError):
    """An invariant of Sash itself is broken."""

    def __init__(self, message: str):
        super().__init__(f"{message} (this is a bug in Sash, please report it)")


class SashWarning(UserWarning):
    """Something a user should know that does not stop the query, such as rows that came too late."""


_SECRET_NAMES = (
    r"[\w.-]*(?:password|passwd|secret|token|credential|signature|\bsig\b|jaas"
    r"|(?:access|account|api|private|shared)[._-]?key)[\w.-]*"
)
_SECRETS = re.compile(
    r"""(?P<before>://)(?P<secret>(?:[^\s'"`]|'')*:(?:[^\s'"`]|'')*(?=@))"""  # the user and password of an address
    r"""|(?P<before_token>https?://)(?P<lone_token>[^\s'"`/:@]+(?=@))"""
    rf"""|(?P<parameter>[?&;]{_SECRET_NAMES}=)(?P<value>[^&;\s'"`]+)"""
    rf"""|(?P<option>{_SECRET_NAMES}['"]?\s*=?\s*')(?P<text>[^']+(?='))""",
    re.IGNORECASE,
)
_MASK = "***"


def mask_secrets(text: str, keeps_length: bool = False) -> str:
    """A text without the passwords, keys and tokens in its addresses and in options that are named so."""

    def mask(secret: str) -> str:
        return "*" * len(secret) if keeps_length or set(secret) == {"*"} else _MASK

    def replace(found: re.Match[str]) -> str:
        before, secret = (text for text in found.groups() if text is not None)
        return before + mask(secret)

    return _SECRETS.sub(replace, text)


_REMEDIES = {
    errno.ENOSPC: "the disk is full; make room",
    errno.EDQUOT: "the disk quota is used up; make room",
    errno.EACCES: "this user may not; give it the right",
    errno.EPERM: "this user may not; give it the right",
    errno.EROFS: "the disk is read-only; choose another directory",
    errno.ENOENT: "it is not there; put it back, or create the directory",
    errno.ENOTDIR: "a part of the path is a file; choose another directory",
    errno.EMFILE: "too many files are open; raise the limit (`ulimit -n`)",
}


def describe_os_error(error: OSError, path: str = "") -> ResourceError:
    """What the operating system refused, as a sentence with the file, which it need not name, and the remedy."""
    what = error.strerror or str(error) or type(error).__name__
    place = f"`{path or error.filename}`: " if path or error.filename else ""
    return ResourceError(
        f"{place}{_REMEDIES.get(error.errno or 0, f'{what}; check that it can be reached')}, and run again"
    )


_EXTRAS = {
    "spark": ("pyspark", "pandas", "google.protobuf"),
    "postgres": ("psycopg",),
    "delta": ("deltalake",),
    "plots": ("matplotlib",),
    "testing": ("hypothesis",),
}
"""What has to be there of what each extra in pyproject.toml brings; a Java may be the machine's own."""


def require_extra(extra: str, what: str, otherwise: str | None = None) -> None:
    """Raises ResourceError if a package of an extra is not installed; none is imported.

    `what` is what the user asked for, `otherwise` how to do without. Call it before anything has been done.
    """
    missing = [module.removeprefix("google.") for module in _EXTRAS[extra] if not _is_installed(module)]
    if missing:
        remedy = f"install it with `pip install 'sash[{extra}]'`{f', or {otherwise}' if otherwise else ''}"
        raise ResourceError(f"{what} needs {missing[0]}, which is not installed; {remedy}")


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ImportError:  # a package that it is in is not there
        return False


def locate(text: str, offset: int) -> tuple[int, int]:
    """The line and column of a character offset, both counted from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1


def underline(text: str, span: Span) -> str:
    """The line that holds `span`, numbered, with the span marked below it."""
    line, column = locate(text, span.start)
    content = mask_secrets(text.split("\n")[line - 1], keeps_length=True)
    width = max(1, min(span.end - span.start, len(content) - column + 1))
    gutter = f"  line {line}: "
    return f"{gutter}{content}\n{' ' * (len(gutter) + column - 1)}{'^' * width}"


def suggest(name: str, known: Iterable[str]) -> str:
    """A closing clause that names what the user may have meant, or everything there is when nothing is near."""
    known = sorted(known)
    near = difflib.get_close_matches(name.lower(), [other.lower() for other in known], n=3, cutoff=0.6)
    if near:
        names = [other for other in known if other.lower() in near]
        return f"did you mean {' or '.join(f'`{other}`' for other in names)}?"
    return f"there is {', '.join(f'`{other}`' for other in known)}" if known else "there is none"
