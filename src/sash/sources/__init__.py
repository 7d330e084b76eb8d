"""Where tuples come from and where results go: files of CSV, JSON and Parquet."""

from sash.sources.files import FileSource, StreamFile, list_files, read_file
from sash.sources.records import REJECT_SCHEMA, Records
from sash.sources.sink import FileSink, read_sink

__all__ = ["REJECT_SCHEMA", "FileSink", "FileSource", "Records", "StreamFile", "list_files", "read_file", "read_sink"]
