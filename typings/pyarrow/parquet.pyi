from collections.abc import Iterator, Sequence
from typing import IO, Any

from _typeshed import StrPath
from pyarrow import NativeFile, RecordBatch, Schema, Table

class FileMetaData:
    @property
    def num_rows(self) -> int: ...

class ParquetFile:
    def __init__(
        self,
        source: StrPath | NativeFile | IO[Any],
        *,
        coerce_int96_timestamp_unit: str | None = None,
        page_checksum_verification: bool = False,
    ) -> None: ...
    @property
    def metadata(self) -> FileMetaData: ...
    @property
    def schema_arrow(self) -> Schema: ...
    def iter_batches(
        self, batch_size: int = 65536, *, columns: Sequence[str] | None = None, use_threads: bool = True
    ) -> Iterator[RecordBatch]: ...
    def read(self, columns: Sequence[str] | None = None, use_threads: bool = True) -> Table: ...

def read_metadata(where: StrPath | NativeFile | IO[Any]) -> FileMetaData: ...
def read_table(
    source: StrPath | NativeFile | IO[Any],
    *,
    columns: Sequence[str] | None = None,
    partitioning: str | None = "hive",
) -> Table: ...
def write_table(
    table: Table,
    where: StrPath | NativeFile | IO[Any],
    row_group_size: int | None = None,
    *,
    use_dictionary: bool | Sequence[str] = True,
    compression: str = "snappy",
    write_page_checksum: bool = False,
    **options: Any,
) -> None: ...
