"""What a row of a stream means against a table that changes, in EXPLAIN: one of three meanings, and its laws."""

from __future__ import annotations

from sash.plan.query_plan import Lookup

FIXED = "fixed: the rows of when the query first ran; how input is cut into batches does not matter"
AS_OF_TIME = (
    "as of a time: fixed rows, of which those count that were valid then; how input is cut into batches does not matter"
)
AS_OF_ARRIVAL = (
    "as of arrival: the version that the batch of a tuple has met, which is recorded before the batch runs; a restart "
    "meets it again, but other batches would meet other versions"
)

VERSIONS_KEPT = "the version that the batch has met, and what tuples of batches before it may still ask for"
VERSIONS_WRITTEN = "a new version writes the segments whose rows have changed"
ON_SPARK = "on Spark, in the memory of every worker"
HINT_ON_SPARK = "without effect: a table as of arrival is in the memory of every worker there"


def relation_meaning(lookup: Lookup) -> str:
    """Which rows of a table count."""
    if lookup.source.is_arrival:
        return AS_OF_ARRIVAL
    return FIXED if lookup.source.as_of is None else AS_OF_TIME


def relation_state(lookup: Lookup) -> str:
    """What is kept of it."""
    if lookup.source.is_arrival:
        return f"{VERSIONS_KEPT}, in memory"
    return "the whole relation, in memory"
