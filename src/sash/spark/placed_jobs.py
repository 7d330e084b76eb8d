"""A job as workers can run it: with an identity of its own, and one name for each directory."""

from __future__ import annotations

from dataclasses import replace

from sash.io.places import absolute_path, real_place
from sash.io.sink import FileSink
from sash.runtime.job import Job, QueryRun, new_identity


def placed(job: Job) -> Job:
    """Workers have working directories of their own, so that no path may be relative to one."""
    return replace(job, members=tuple(map(_placed_query, job.members)), checkpoint=real_place(job.checkpoint))


def _placed_query(run: QueryRun) -> QueryRun:
    streams = {name: replace(source, path=absolute_path(source.path)) for name, source in run.streams.items()}
    sink = FileSink(real_place(run.sink.path), run.sink.format)
    return replace(run, streams=streams, sink=sink, identity=new_identity())
