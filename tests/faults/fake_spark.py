"""What Spark does with a checkpoint, in a few lines: it trusts its logs, and runs a batch again that is not done.

Each file of the input is a batch, and its one value the answer of every query. Its state is the batches that it has
been through: what a snapshot has, and each change log after it. Outputs and checkpoint are Sash's own.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa

from sash.io.output_dir import CHANGES
from sash.runtime.job import Job
from sash.spark.checkpoint import Checkpoint

SCHEMA = pa.schema([("v", pa.int64())])


class FakeSpark:
    """One streaming query: a control stream, and one of files."""

    def __init__(self, job: Job, directory: Path):
        self._run = job
        self._input = directory
        self._checkpoint = Checkpoint(job.checkpoint)
        self._spark = self._checkpoint.spark
        self.uploads: Collection[int] = ()
        """Versions of the state of which a snapshot is written while the run goes on."""

    def run(self, n_batches: int | None = None, die_before_commit: bool = False) -> None:
        """Answers for the files that are there, or for some of them; refuses what the checkpoint refuses."""
        ledgers = self._checkpoint.open(self._run, 4)
        if not (self._spark / "metadata").exists():
            self._write("metadata", '{"id": "5"}')
        batch = self._checkpoint.log.newest_done + 1
        while (n_batches is None or n_batches > 0) and self._plan(batch):
            assert self._state(batch) == [*range(batch)], "Spark goes on from another state"
            values = [int(path.read_text()) for path in self._files(batch)]
            for each in self._run.members:
                part = f"part-{each.identity}-00000-{batch}-1"
                staged = each.sink.write_part(batch, part, pa.table({"v": values}, schema=SCHEMA))
                ledgers[each.name].publish(batch, {CHANGES: [staged]}, self._checkpoint.log.input_of(batch))
            self._write(f"state/0/0/{batch + 1}.changelog", f"{batch}")
            self._checkpoint.seal()
            if die_before_commit and n_batches == 1:
                return
            self._write(f"commits/{batch}", "v1\n{}")
            if batch + 1 in self.uploads:
                self.upload(batch + 1)
            batch, n_batches = batch + 1, None if n_batches is None else n_batches - 1
        self._checkpoint.seal()

    def upload(self, version: int) -> None:
        """What a thread of Spark's does when it likes: it writes a snapshot of the state."""
        self._write(f"state/0/0/{version}.zip", json.dumps(self._state(version)))

    def _state(self, version: int) -> list[int]:
        """Of a version, as Spark loads it: from the newest snapshot that is not newer, whatever that holds."""
        store = self._spark / "state" / "0" / "0"
        snapshots = [int(path.stem) for path in store.glob("*.zip")]
        newest = max((each for each in snapshots if each <= version), default=0)
        state = json.loads((store / f"{newest}.zip").read_text()) if newest else []
        return state + [int((store / f"{each}.changelog").read_text()) for each in range(newest + 1, version + 1)]

    def _plan(self, batch: int) -> bool:
        """Notes which file is next; False if there is none. What was noted before stays."""
        if (self._spark / "offsets" / str(batch)).exists():
            return True
        seen = self._seen()
        new = [path.name for path in sorted(self._input.iterdir()) if path.name not in seen]
        logged = [int(path.name) for path in (self._spark / "sources" / "1").glob("[0-9]*")]
        if not new and max(logged, default=-1) < batch:
            return False
        if max(logged, default=-1) < batch:
            self._write(f"sources/1/{batch}", "v1\n" + json.dumps({"path": new[0], "batchId": batch}))
        offset = json.dumps({"logOffset": batch})
        self._write(f"offsets/{batch}", f'v1\n{{"batchTimestampMs":{hash(tuple(new)) % 997}}}\n-\n{offset}')
        return True

    def _files(self, batch: int) -> list[Path]:
        entry = self._spark / "sources" / "1" / str(batch)
        return [self._input / _named_in(entry)]

    def _seen(self) -> set[str]:
        log = (self._spark / "sources" / "1").glob("[0-9]*")
        return {_named_in(path) for path in log}

    def _write(self, name: str, text: str) -> None:
        path = self._spark / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def _named_in(entry: Path) -> str:
    _version, line = entry.read_text().splitlines()
    return json.loads(line)["path"]
