"""The operations that outputs, their manifests and checkpoints are made of. All that change a disk pass through here.

So it can be shown what holds after any of them: a test has `Disk.before` raise or kill the process at the nth.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

import pyarrow as pa
import pyarrow.fs

from sash.errors import describe_os_error


@contextmanager
def telling_of(path: str) -> Iterator[None]:
    """Tells of a disk that is full, or of rights that are missing, as an error of Sash's."""
    try:
        yield
    except OSError as error:
        raise describe_os_error(error, path) from error


def _go_on(operation: str, path: str) -> None:
    """What nobody listens to."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A file system, local by default."""

    system: pyarrow.fs.FileSystem = field(default_factory=pyarrow.fs.LocalFileSystem)
    before: ClassVar[Callable[[str, str], None]] = staticmethod(_go_on)
    """Called before every operation that changes something, and in the middle of writing, with its name and path."""

    def make_directory(self, path: str) -> None:
        """With all directories above it; one that is there is left as it is."""
        if not self.exists(path):
            Disk.before("mkdir", path)
            self.system.create_dir(path)

    def write(self, path: str, content: bytes | pa.Buffer) -> None:
        """A whole file; a crash may leave any beginning of it."""
        Disk.before("open", path)
        with self.system.open_output_stream(path, compression=None) as stream:
            self._write_halves(stream, path, content)
        self.sync(path)

    def append(self, path: str, content: bytes) -> None:
        """At the end of a file that is there; a crash may leave any beginning of it."""
        Disk.before("open", path)
        with self.system.open_append_stream(path, compression=None) as stream:
            self._write_halves(stream, path, content)
        self.sync(path)

    def _write_halves(self, stream: pa.NativeFile, path: str, content: bytes | pa.Buffer) -> None:
        Disk.before("write", path)
        view = memoryview(content)
        stream.write(view[: len(view) // 2])
        Disk.before("write", path)
        stream.write(view[len(view) // 2 :])

    def replace(self, path: str, content: bytes, staging: str) -> None:
        """A whole file at once, in place of what is there; a crash leaves the old or the new one.

        It is first written to `staging`, a directory on the same device that is there.
        """
        new = f"{staging}/{os.path.basename(path)}.new"
        self.write(new, content)
        self.rename(new, path)
        self.sync(os.path.dirname(path))

    def rename(self, path: str, target: str) -> None:
        """A file or a directory, with all that is in it, at once. Durable once the directories have been synced."""
        Disk.before("rename", target)
        self.system.move(path, target)

    def remove_file(self, path: str) -> None:
        Disk.before("unlink", path)
        self.system.delete_file(path)

    def remove_tree(self, path: str) -> None:
        """A directory and what is in it; a crash may leave any of it."""
        for info in self.entries(path):
            if info.type == pyarrow.fs.FileType.Directory and not os.path.islink(info.path):
                self.remove_tree(info.path)
            else:
                self.remove_file(info.path)
        Disk.before("rmdir", path)
        self.system.delete_dir(path)

    def sync(self, path: str) -> None:
        """Waits until a file or a directory's entries are on the disk; other file systems do so when they close."""
        if self.system.type_name == "local":
            Disk.before("fsync", path)
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def entries(self, path: str) -> list[pyarrow.fs.FileInfo]:
        """What is in a directory, by name; nothing if there is none."""
        found = self.system.get_file_info(pyarrow.fs.FileSelector(path, allow_not_found=True))
        return sorted(found, key=lambda info: info.path)

    def exists(self, path: str) -> bool:
        return self.system.get_file_info(path).type != pyarrow.fs.FileType.NotFound

    def read(self, path: str) -> bytes | None:
        """What a file holds; None if there is none."""
        if not self.exists(path):
            return None
        with self.system.open_input_stream(path, compression=None) as stream:
            return stream.read()
