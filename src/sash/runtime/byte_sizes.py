"""Numbers of bytes, as people read them."""

from __future__ import annotations


def format_bytes(n_bytes: float) -> str:
    """A number of bytes in the unit that keeps it short."""
    for unit in ("B", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:,.0f} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:,.1f} GiB"
