from collections.abc import Callable, Mapping, Sequence
from typing import IO, Any, NamedTuple

from _typeshed import StrPath
from pyarrow import Buffer, DataType, NativeFile, Schema, Table

class InvalidRow(NamedTuple):
    expected_columns: int
    actual_columns: int
    number: int | None
    text: str

class ReadOptions:
    def __init__(
        self,
        *,
        use_threads: bool | None = None,
        block_size: int | None = None,
        skip_rows: int | None = None,
        column_names: Sequence[str] | None = None,
        autogenerate_column_names: bool | None = None,
        encoding: str = "utf8",
    ) -> None: ...

class ParseOptions:
    def __init__(
        self,
        *,
        delimiter: str | None = None,
        quote_char: str | bool | None = None,
        double_quote: bool | None = None,
        escape_char: str | bool | None = None,
        newlines_in_values: bool | None = None,
        ignore_empty_lines: bool | None = None,
        invalid_row_handler: Callable[[InvalidRow], str] | None = None,
    ) -> None: ...

class ConvertOptions:
    def __init__(
        self,
        *,
        check_utf8: bool | None = None,
        column_types: Schema | Mapping[str, DataType] | None = None,
        null_values: Sequence[str] | None = None,
        strings_can_be_null: bool | None = None,
        quoted_strings_can_be_null: bool | None = None,
        include_columns: Sequence[str] | None = None,
    ) -> None: ...

def read_csv(
    input_file: StrPath | IO[Any] | NativeFile | Buffer,
    read_options: ReadOptions | None = None,
    parse_options: ParseOptions | None = None,
    convert_options: ConvertOptions | None = None,
) -> Table: ...
def write_csv(data: Table, output_file: StrPath | IO[Any] | NativeFile) -> None: ...
