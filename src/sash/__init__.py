"""Sash answers continuous SQL queries over sliding windows of data streams, exactly, here or on Spark."""

from __future__ import annotations

from sash.api import answer, complete, configure, explain, query, spark_session, sql
from sash.embedded.query import Query
from sash.errors import (
    BindError,
    InternalError,
    ParseError,
    PlanError,
    ResourceError,
    SashError,
    SashWarning,
    SourceError,
)
from sash.frames import relation, stream
from sash.oracle.verification import Verification, verify
from sash.runtime.notebook import show_in_notebooks
from sash.session import Session

__version__ = "0.1.0"

show_in_notebooks()

__all__ = [
    "BindError",
    "InternalError",
    "ParseError",
    "PlanError",
    "Query",
    "ResourceError",
    "SashError",
    "SashWarning",
    "Session",
    "SourceError",
    "Verification",
    "answer",
    "complete",
    "configure",
    "explain",
    "query",
    "relation",
    "spark_session",
    "sql",
    "stream",
    "verify",
]
