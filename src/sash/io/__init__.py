"""Where tuples come from and where results go: files of CSV, JSON and Parquet."""

from sash.io.files import FileSource, StreamFile, list_files, read_file
from sash.io.records import REJECT_SCHEMA, Records
from sash.io.sink import FileSink, read_sink

__all__ = ["REJECT_SCHEMA", "FileSink", "FileSource", "Records", "StreamFile", "list_files", "read_file", "read_sink"]
