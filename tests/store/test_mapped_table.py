"""A table that comes part by part is in memory, or in a file that nobody sees."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.errors import ResourceError, SourceError
from sash.store.mapped_table import MappedGather

SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.string())])
PARTS = [pa.table([[number], [str(number)]], schema=SCHEMA) for number in range(9)]


@pytest.mark.parametrize("most_bytes", [0, 40, 1 << 20])
@pytest.mark.parametrize("parts", [PARTS, []])
def test_it_is_all_parts(most_bytes, parts, tmp_path):
    whole = pa.concat_tables([SCHEMA.empty_table(), *parts])
    before = pa.total_allocated_bytes()
    found = MappedGather(tmp_path / "spill", most_bytes)(SCHEMA, iter(parts))
    assert found.equals(whole)
    assert pa.total_allocated_bytes() - before < 1000
    assert not list(tmp_path.rglob("sash-*"))


def test_what_goes_wrong_in_the_middle_leaves_nothing(tmp_path):
    def parts():
        yield PARTS[0]
        raise SourceError("lost")

    with pytest.raises(SourceError, match="lost"):
        MappedGather(tmp_path, 0)(SCHEMA, parts())
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_read_is_not_said_to_have_no_room(tmp_path):
    """Arrow tells of a file that is gone as the operating system does of a full disk."""

    def parts():
        yield PARTS[0]
        raise FileNotFoundError("part-1.parquet")

    with pytest.raises(FileNotFoundError, match="part-1"):
        MappedGather(tmp_path, 0)(SCHEMA, parts())


def test_a_process_that_is_killed_meanwhile_leaves_nothing(tmp_path):
    """There is no name that anybody would have to remove."""

    def parts():
        for part in PARTS:
            assert not list(tmp_path.iterdir())
            yield part

    assert MappedGather(tmp_path, 0)(SCHEMA, parts()).num_rows == len(PARTS)


def test_a_directory_that_cannot_be(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ResourceError, match="cannot be written to"):
        MappedGather(tmp_path / "file", 0)(SCHEMA, PARTS)
