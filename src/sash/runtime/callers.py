"""What the code that calls Sash sees of it: errors and warnings that point at its own line, not at ours."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from functools import wraps
from types import FrameType, FunctionType
from typing import Any, TypeVar

from sash.errors import InternalError, SashError, SashWarning

Face = TypeVar("Face", bound=Callable[..., Any])

FULL_TRACEBACKS = "SASH_TRACEBACK"
"""The variable of the environment that, if it is `full`, leaves tracebacks as they are."""
_IS_SHORT = "_sash_is_short"


def short_tracebacks(face: Face) -> Face:
    """A function that users call, or a class with its public methods, whose errors show the line that called it.

    The message says what is wrong and what to do; our frames, and the error that ours was made of, say nothing more to
    who has to mend a query. A bug of Sash itself shows all of them.
    """
    if isinstance(face, FunctionType):
        return _shortened(face)
    for name, member in list(vars(face).items()):
        if isinstance(member, FunctionType) and (not name.startswith("_") or name == "__init__"):
            setattr(face, name, _shortened(member))
    return face


def _shortened(function: Any) -> Any:
    @wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except SashError as error:
            if _is_to_be_shortened(error):
                error.__traceback__ = error.__cause__ = None
                error.__suppress_context__ = True
                setattr(error, _IS_SHORT, True)
            # With nothing behind it: that does not put this frame back.
            raise

    return call


def _is_to_be_shortened(error: SashError) -> bool:
    """Where code that is not ours has called. A function of the user's that we called, and that called us, shows its
    own line: there the error was made short, and is left as it is further out.
    """
    wrapper = inspect.currentframe()
    caller = wrapper and wrapper.f_back and wrapper.f_back.f_back
    is_called_by_us = caller is not None and _is_ours(caller)
    is_bug = isinstance(error, InternalError) or os.environ.get(FULL_TRACEBACKS) == "full"
    return not (is_called_by_us or is_bug or hasattr(error, _IS_SHORT))


def calling_frame() -> FrameType | None:
    """The innermost frame that is not Sash's own."""
    frame = inspect.currentframe()
    while frame is not None and _is_ours(frame):
        frame = frame.f_back
    return frame


def warn_caller(note: str) -> None:
    """A warning that names the line which called Sash."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and _is_ours(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(note, SashWarning, stacklevel=level)


def _is_ours(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__")).partition(".")[0] == "sash"
