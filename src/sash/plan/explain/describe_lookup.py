"""What EXPLAIN says of how a relation is looked up in: the method, why this one, and what others would cost."""

from __future__ import annotations

from sash.cost.lookup_cost import REPLICATED, USUAL_STEP_ROWS, LookupChoice, LookupEstimate
from sash.operators.lookup_join import LookupJoinSpec
from sash.plan.explain.describe_join import count_text
from sash.plan.explain.description import Fact
from sash.plan.explain.table_meaning import ON_SPARK, VERSIONS_KEPT, VERSIONS_WRITTEN
from sash.plan.lookup_forecast import LookupForecast
from sash.plan.query_plan import LOOKUP_METHODS
from sash.store.byte_sizes import format_bytes, format_traffic


def place_facts(spec: LookupJoinSpec, forecast: LookupForecast) -> list[Fact]:
    """Under a limit on memory, of a relation."""
    choice = forecast.choice
    if not spec.keys:
        return [("memory", "all of it, as there is no key to look it up by")]
    if choice is None:
        return [] if spec.is_hinted else [("memory", _unknown(forecast))]
    told = [("memory", _size(choice))]
    if choice.fits and not choice.is_hinted:
        return told
    if not choice.is_hinted:
        told.append(("algorithm", f"{LOOKUP_METHODS[choice.method]}, by cost"))
    return [*told, ("chosen", _why(choice)), ("others", _others(choice))]


def relation_facts(forecast: LookupForecast) -> list[Fact]:
    """Under a limit on memory, where a relation is."""
    if not forecast.file_bytes:
        return []
    if forecast.is_arrival:
        return [("state", f"{VERSIONS_KEPT}, in a file, in order of keys; {VERSIONS_WRITTEN}; {ON_SPARK}")]
    return [("state", "the whole relation, in a file, in order of keys")]


def relations_text(lookups: list[LookupForecast]) -> str:
    """Which relations are in files, for the line about memory; empty if none is."""
    found = {each.table: each for each in lookups if each.file_bytes and each.choice}
    told = [f"`{name}` ({format_bytes(each.file_bytes)})" for name, each in sorted(found.items())]
    return f"{', '.join(told)} looked up in files" if told else ""


def _unknown(forecast: LookupForecast) -> str:
    return (
        f"up to {format_bytes(forecast.room)} of the relation; a larger one is cut into segments in a file, and looked "
        "up by the cheapest method; its size is known when it is read"
    )


def _size(choice: LookupChoice) -> str:
    whole, room = format_bytes(choice.load.whole_bytes), format_bytes(choice.room or 0)
    if choice.fits:
        return f"about {whole} as a whole, of {room} for a relation: it fits"
    if choice.method == REPLICATED:
        return f"about {whole} as a whole, beyond the {room} for a relation"
    return f"about {whole} as a whole, which does not fit the {room} for a relation: {room} of segments"


def _why(choice: LookupChoice) -> str:
    rows = choice.load.step_rows
    step = f"steps of {count_text(USUAL_STEP_ROWS if rows is None else rows)} tuples"
    if rows is None:
        step += ", as nobody knows how many come at once"
    own = next((each for each in choice.estimates if each.method == choice.method), None)
    cost = f": {_cost(own)} for each" if own else ""
    return f"{choice.method}, {'by hint' if choice.is_hinted else 'by cost'}; {step}{cost}{_cached(choice)}"


def _cached(choice: LookupChoice) -> str:
    part = choice.load.cached_part
    if not part:
        return ""
    return f"; the system is likely to have {'all' if part == 1 else f'{part:.0%}'} of the file in its own cache"


def _others(choice: LookupChoice) -> str:
    told = [f"{each.method} {_cost(each)}" for each in choice.estimates if each.method != choice.method]
    if not choice.fits and choice.method != REPLICATED:
        told.append(f"{REPLICATED} does not fit")
    return "; ".join(told)


def _cost(estimate: LookupEstimate) -> str:
    return f"{count_text(1e3 * estimate.seconds)} ms, {format_traffic(estimate.bytes_read)} read"
