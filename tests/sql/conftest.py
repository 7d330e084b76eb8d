"""The streams and relations that the tests of the language bind against."""

from __future__ import annotations

import pyarrow as pa
import pytest

from sash.sql.catalog import Catalog, RelationInfo, StreamInfo, Validity

CATALOG: Catalog = {
    "temperature": StreamInfo(
        pa.schema(
            [
                ("location", pa.string()),
                ("value", pa.float64()),
                ("ts", pa.timestamp("us")),
                ("n", pa.int64()),
                ("ok", pa.bool_()),
                ("tags", pa.list_(pa.string())),
                ("place", pa.struct([("Room", pa.string()), ("floor", pa.struct([("level", pa.int32())]))])),
            ]
        ),
        time="ts",
    ),
    "humidity": StreamInfo(
        pa.schema([("location", pa.string()), ("Value", pa.float64()), ("ts", pa.timestamp("us", tz="UTC"))]), time="ts"
    ),
    "rooms": RelationInfo(pa.schema([("location", pa.string()), ("name", pa.string()), ("built", pa.date32())])),
    "prices": RelationInfo(
        pa.schema([("location", pa.string()), ("since", pa.timestamp("us")), ("until", pa.timestamp("us"))]),
        validity=Validity("since", "until"),
    ),
    "twins": StreamInfo(pa.schema([("a", pa.int32()), ("A", pa.int32()), ("ts", pa.timestamp("us"))]), time="ts"),
    "halves": StreamInfo(pa.schema([("half", pa.float16()), ("ts", pa.timestamp("us"))]), time="ts"),
    "reserved": StreamInfo(pa.schema([("_op", pa.int8()), ("ts", pa.timestamp("us"))]), time="ts"),
}


@pytest.fixture(scope="session")
def catalog() -> Catalog:
    return CATALOG
