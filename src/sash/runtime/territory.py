"""Which directories the queries of a script or session write to: none that another one writes to, reads or lies in."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

from sash.errors import PlanError, Span
from sash.io.manifest import MARK
from sash.io.output_dir import OutputDir
from sash.io.places import lies_in, linked_places, may_read, overlap, real_place, shown_place
from sash.io.sink import FileSink


class Territories:
    """Outputs as they are declared; what cannot stand beside what is there is refused, and underlined in a script."""

    def __init__(self, text: str | None = None, taken: Mapping[str, FileSink] | None = None):
        """`taken` are the outputs of queries that were let pass before."""
        self._text = text
        self._outputs: dict[str, tuple[OutputDir, Span | None]] = {
            name: (_output(sink), None) for name, sink in (taken or {}).items()
        }

    def add(self, name: str, sink: FileSink, span: Span | None = None) -> None:
        """Raises PlanError if a directory cannot be an output at all, or not beside those of the queries before."""
        output = _output(sink)
        for place, what in _PLACES.items():
            if lies_in(real_place(place()), sink.path):
                raise PlanError(
                    f"`{name}` cannot write to {sink.path}, as that is or holds {what}; "
                    "write INTO a directory of its own",
                    self._text,
                    span,
                )
        for other, (taken, _) in self._outputs.items():
            if _overlap(output, taken):
                raise PlanError(
                    f"`{name}` cannot write to {shown_place(sink.path)}: `{other}` writes to "
                    f"{shown_place(taken.path)}; give every query a directory of its own, outside those of others",
                    self._text,
                    span,
                )
        self._outputs[name] = output, span

    def refuse_checkpoint(self, checkpoint: str) -> None:
        """Raises PlanError if an output is, holds or lies in the directory that a session goes on from."""
        for name, (output, span) in self._outputs.items():
            if any(overlap(directory, checkpoint) for directory in output.territory):
                raise PlanError(
                    f"`{name}` cannot write to {shown_place(output.path)}, as the checkpoint of the session is "
                    f"{shown_place(checkpoint)}; choose another directory for one of them",
                    self._text,
                    span,
                )

    def refuse_sources(self, sources: Collection[tuple[str, str]]) -> None:
        """Raises PlanError if an output is, holds or lies in what a stream or table is read from: its name and path."""
        for source, path in sources if self._outputs else ():
            linked = linked_places(path)
            for name, (output, span) in self._outputs.items():
                if any(_is_read(path, linked, directory) for directory in output.territory):
                    raise PlanError(
                        f"`{name}` cannot write to {shown_place(output.path)}, as `{source}` is read from "
                        f"{shown_place(path)}; write INTO a directory that neither holds it nor lies in it",
                        self._text,
                        span,
                    )


_PLACES = {
    lambda: "/": "the root directory",
    os.getcwd: "the directory you are in",
    lambda: os.path.expanduser("~"): "your home directory",
}


def refuse_name(name: str, kind: str, content: str, text: str | None = None, span: Span | None = None) -> None:
    """Raises PlanError for a name that would lead out of the directory in which it is to name one."""
    if any(sign in name for sign in "/\\") or name.startswith(".") or name.lower() == MARK:
        raise PlanError(
            f"`{name}` cannot name a {kind}, as {content} go to a directory of that name; choose another, without "
            "slashes, and without a dot at its beginning",
            text,
            span,
        )


def _output(sink: FileSink) -> OutputDir:
    return OutputDir(sink.path, sink.format)


def _is_read(source: str, linked: Iterable[str], directory: str) -> bool:
    return may_read(source, directory) or any(overlap(each, directory) for each in linked)


def _overlap(one: OutputDir, other: OutputDir) -> bool:
    return any(overlap(a, b) for a in one.territory for b in other.territory)
