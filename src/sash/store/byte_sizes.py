"""Numbers of bytes, as people read and write them."""

from __future__ import annotations

import re

_UNITS = ("", "k", "m", "g", "t")


def format_bytes(n_bytes: float) -> str:
    """A number of bytes in the unit that keeps it short."""
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:,.0f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} GiB"


def parse_bytes(text: str) -> int | None:
    """The number of bytes that a text such as `512m`, `4 GiB`, `64 kB` or `1000` says; None if it says none.

    Units are powers of 1024, as Spark and the JVM read them.
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", text.lower())
    return round(float(found[1]) * 1024 ** _UNITS.index(found[2])) if found else None


def format_traffic(n_bytes: float) -> str:
    """A number of bytes that come and go, in decimal units as disks are sold with, and two digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if n_bytes < 999.5 or unit == "GB":
            break
        n_bytes /= 1000
    return f"{n_bytes:,.0f} {unit}" if n_bytes >= 9.95 or unit == "B" else f"{n_bytes:.1f} {unit}"
