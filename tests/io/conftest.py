"""A file system that fails on demand, and random tables, for the tests of sources and sinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.fs
import pytest
from pyarrow.fs import FileSelector, FileSystem, FileSystemHandler, LocalFileSystem, PyFileSystem


@dataclass
class FaultyHandler(FileSystemHandler):
    """The local file system, where `fail(operation, path)` may raise before each operation."""

    fail: Callable[[str, str], None]
    below: FileSystem = field(default_factory=LocalFileSystem)

    def _do(self, operation: str, path: str, *rest):
        self.fail(operation, path)
        return getattr(self.below, operation)(path, *rest)

    def get_type_name(self):
        return "faulty"

    def normalize_path(self, path):
        return path

    def get_file_info(self, paths):
        return [self._do("get_file_info", path) for path in paths]

    def get_file_info_selector(self, selector: FileSelector):
        self.fail("list", selector.base_dir)
        return self.below.get_file_info(selector)

    def create_dir(self, path, recursive):
        self._do("create_dir", path)

    def delete_dir(self, path):
        self._do("delete_dir", path)

    def delete_dir_contents(self, path, missing_dir_ok=False):
        self._do("delete_dir_contents", path)

    def delete_root_dir_contents(self):
        raise NotImplementedError

    def delete_file(self, path):
        self._do("delete_file", path)

    def move(self, src, dest):
        self._do("move", src, dest)

    def copy_file(self, src, dest):
        self._do("copy_file", src, dest)

    def open_input_stream(self, path):
        return pa.PythonFile(FaultyReader(self._do("open_input_file", path), path, self.fail), "r")

    def open_input_file(self, path):
        return pa.PythonFile(FaultyReader(self._do("open_input_file", path), path, self.fail), "r")

    def open_output_stream(self, path, metadata):
        return self._do("open_output_stream", path)

    def open_append_stream(self, path, metadata):
        return self._do("open_append_stream", path)


class FaultyReader:
    """An open file where `fail("read", path)` may raise before each read."""

    def __init__(self, file: pa.NativeFile, path: str, fail: Callable[[str, str], None]):
        self._file, self._path, self._fail = file, path, fail

    def read(self, size=-1):
        self._fail("read", self._path)
        return self._file.read(size if size >= 0 else None)

    def read_buffer(self, size):
        self._fail("read", self._path)
        return self._file.read_buffer(size)

    def __getattr__(self, name):
        return getattr(self._file, name)


@pytest.fixture
def faulty() -> Callable[[Callable[[str, str], None]], FileSystem]:
    """Makes a file system out of a function that raises where an operation on a path shall fail."""
    return lambda fail: PyFileSystem(FaultyHandler(fail))
