"""What chapters 3 to 6 of Exact claim, by number, and which experiment says whether it holds.

Numbers count the claims of a chapter in the order of the text. A claim that can be read in two ways is checked in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from sash.lab.experiments.experiment import Claim

_CHECKED_BY = {
    "exact-3-5": ("E3.1", "E3.2", "E3.8"),
    "exact-3-6": ("E3.3", "E3.4", "E3.5", "E3.6", "E3.7"),
    "exact-3-8": ("E3.9", "E3.10", "E3.11", "E3.16"),
    "exact-3-10": ("E3.12", "E3.13", "E3.14", "E3.15"),
    "exact-4-tasks": ("E4.1", "E4.2", "E4.3", "E4.5", "E4.6"),
    "exact-5-3": ("E5.27", "E5.28", "E5.29"),
    "exact-5-4": ("E5.1",),
    "exact-5-5": ("E5.2", "E4.4"),
    "exact-5-7": ("E5.3", "E5.4", "E5.16"),
    "exact-5-8": ("E5.5", "E5.6", "E5.7", "E5.8", "E5.9"),
    "exact-5-9": ("E5.10", "E5.11", "E5.12", "E5.30"),
    "exact-5-11": ("E5.13", "E5.14", "E5.15"),
    "exact-5-13": ("E5.17", "E5.18"),
    "exact-5-16": ("E5.19", "E5.20", "E5.21", "E5.22"),
    "exact-5-17": ("E5.23", "E5.24"),
    "exact-5-18": ("E5.25", "E5.26"),
    "exact-6-5": ("E6.1", "E6.2"),
    "exact-6-6": ("E6.3", "E6.17"),
    "exact-6-7": ("E6.4", "E6.5", "E6.6"),
    "exact-6-8": ("E6.7", "E6.8"),
    "exact-6-9": ("E6.10",),
    "exact-6-10": ("E6.11", "E6.12", "E6.20"),
    "exact-6-12": ("E6.13", "E6.14"),
    "exact-6-13": ("E6.15", "E6.16"),
    "exact-6-invoke": ("E6.9",),
    "exact-6-reads": ("E6.18", "E6.19"),
    "exact-6-granularity": ("E6.21",),
}
EXPERIMENT_OF = {number: name for name, numbers in _CHECKED_BY.items() for number in numbers}


def numbered(claims: Mapping[str, Iterable[Claim]]) -> list[Claim]:
    """Claims with their numbers, in the order of the numbers that are given."""
    assert set(claims) <= set(EXPERIMENT_OF), "a claim that is in no chapter"
    return [replace(claim, text=f"{number}: {claim.text}") for number, each in claims.items() for claim in each]


def number_of(claim: Claim) -> str:
    """The number of a claim that has one."""
    return claim.text.partition(":")[0]
