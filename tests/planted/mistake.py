"""What a planted mistake is, and the tests that most of them are noticed by."""

from __future__ import annotations

from dataclasses import dataclass

GENERATED = "tests/laws/test_generated.py -k plain_sql"
"""The law over generated queries, chunk by chunk up to the first that is wrong."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """A replacement in one file that a hurried programmer might make, and that changes answers or loses state."""

    name: str
    """Says what goes wrong, in words with dashes between them."""
    family: str
    """What it is a mistake in: the operator, rule, kernel or clause."""
    path: str
    """Of the file, below src/sash."""
    right: str
    """What stands there, exactly once."""
    wrong: str
    """What is put in its place."""
    noticed_by: tuple[str, ...] = (GENERATED,)
    """Arguments of pytest, each for a run of its own, in the order in which they are tried: the quickest first."""

    def planted_in(self, text: str) -> str:
        """The text of the file with the mistake."""
        if text.count(self.right) != 1:
            n_found = text.count(self.right)
            raise ValueError(
                f"`{self.name}` wants to replace what stands in `{self.path}` {n_found} times instead of once; "
                "write `right` and `wrong` anew, as the file reads now"
            )
        return text.replace(self.right, self.wrong)
