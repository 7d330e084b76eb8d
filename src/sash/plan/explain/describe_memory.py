"""What EXPLAIN says of a limit on memory: what may go to disk, how much, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from sash.cost.spill_cost import SpillEstimate
from sash.operators.lookup_join import LookupJoinSpec
from sash.plan.explain.describe_join import count_text
from sash.plan.explain.describe_lookup import place_facts, relation_facts, relations_text
from sash.plan.explain.description import Fact
from sash.plan.explain.wording import format_duration
from sash.plan.memory_forecast import KeeperForecast, MemoryForecast
from sash.store.byte_sizes import format_bytes, format_traffic

UNKNOWN = "how much is unknown, as rates are"


@dataclass(frozen=True, slots=True)
class SpillMeasure:
    """What a run has had on disk."""

    n_bytes: int
    """The limit."""
    bytes_written: int
    n_files: int
    bytes_read: int
    most_mapped_bytes: int


def memory_line(forecast: MemoryForecast) -> str:
    """The last line of EXPLAIN."""
    tables = relations_text(list(forecast.lookups.values()))
    line = _keepers_line(forecast)
    if not tables:
        return line
    files = "" if f"`{forecast.directory}`" in line else f"; files are in `{forecast.directory}`"
    return f"{line.rstrip().removesuffix(': nothing is written')}; {tables}{files}\n"


def _keepers_line(forecast: MemoryForecast) -> str:
    limit, where = f"Memory: {format_bytes(forecast.n_bytes)}", f"; files are in `{forecast.directory}`\n"
    limit += " of each machine" if forecast.is_of_each_machine else ""
    known = [each for each in forecast.keepers if each.disk_bytes is not None]
    is_all = len(known) == len(forecast.keepers)
    on_disk = sum(each.disk_bytes or 0.0 for each in known)
    if not forecast.keepers:
        return f"{limit}; no operator keeps rows: nothing is written\n"
    if not known:
        return f"{limit}; what does not fit goes to disk, {UNKNOWN}{where}"
    if not on_disk:
        fits = f"{limit}; about {format_bytes(sum(each.keeper.kept_bytes or 0.0 for each in known))} fits"
        more = f"; what others keep may go to disk, {UNKNOWN}{where}"
        return fits + (": nothing is written\n" if is_all else more)
    spills = [each.spill for each in known if each.spill is not None and not each.spill.fits]
    traffic = ""
    if spills:
        read, written = sum(each.bytes_read for each in spills), sum(each.bytes_written for each in spills)
        traffic = f"; {format_traffic(read)} read, {format_traffic(written)} written per second"
    more = "" if is_all else f"; what others keep may go there as well, {UNKNOWN}"
    return f"{limit}; about {format_bytes(on_disk)} on disk{traffic}{more}{where}"


def memory_facts(forecast: MemoryForecast, spec: object) -> list[Fact]:
    """What a verbose EXPLAIN says of an operator that keeps rows; nothing of others."""
    found, looked_up = forecast.of_specs.get(id(spec)), forecast.lookups.get(id(spec))
    if looked_up is not None:
        is_join = isinstance(spec, LookupJoinSpec)
        return place_facts(spec, looked_up) if is_join else relation_facts(looked_up)
    if found is None:
        return []
    return [("memory", _told(found, forecast)), ("disk", _told_of_exact(found))]


def measured_line(measure: SpillMeasure) -> str:
    """The last line of EXPLAIN ANALYZE."""
    limit = f"Memory: {format_bytes(measure.n_bytes)}"
    if not measure.n_files and not measure.most_mapped_bytes:
        return f"{limit}; all has fitted: nothing was written\n"
    segments = (
        f"{format_bytes(measure.bytes_written)} written to {measure.n_files:,} segments, "
        f"{format_bytes(measure.bytes_read)} read of them; "
        if measure.n_files
        else ""
    )
    return f"{limit}; {segments}at most {format_bytes(measure.most_mapped_bytes)} in mapped files\n"


def _told(found: KeeperForecast, forecast: MemoryForecast) -> str:
    keeper, spill = found.keeper, found.spill
    by_key = "; what is kept by key may go to mapped files" if keeper.has_keys else ""
    what = "the oldest rows may go to segments on disk" if keeper.is_tiered else "what is kept may go to mapped files"
    if found.disk_bytes is None or keeper.kept_bytes is None:
        return f"{what}; {UNKNOWN}{by_key}"
    if not found.disk_bytes:
        return f"about {format_bytes(keeper.kept_bytes)}, which fits: nothing is written"
    if spill is None:
        where = "in segments on disk" if keeper.is_tiered else "in mapped files"
        return f"about {format_bytes(found.disk_bytes)} {where}"
    return f"{_told_of_segments(spill)}, {_told_of_time(found, spill, forecast)}{by_key}"


def _told_of_segments(spill: SpillEstimate) -> str:
    n_segments = round(spill.n_segments)
    segments = "1 segment" if n_segments <= 1 else f"{n_segments:,} segments"
    traffic = f"{format_traffic(spill.bytes_read)} read, {format_traffic(spill.bytes_written)} written per second"
    return (
        f"about {format_bytes(spill.memory_bytes)} of the newest rows; about {format_bytes(spill.disk_bytes)} in "
        f"{segments} on disk; {traffic}"
    )


def _told_of_time(found: KeeperForecast, spill: SpillEstimate, forecast: MemoryForecast) -> str:
    join, disk = found.keeper.join, f"{_ms(spill.disk_s(forecast.prices.disk))} of disk"
    if join is None:
        return disk
    step = format_duration(max(1, round(1e6 * join.step_s)))
    return f"{disk} and {_ms(spill.cpu_s)} more of CPU, if a step brings {step}"


def _told_of_exact(found: KeeperForecast) -> str:
    """By the equations of the thesis, of the method's own disk."""
    exact = found.exact
    if exact is None:
        return ""
    traffic = f"{format_traffic(exact.bytes_read)} read, {format_traffic(exact.bytes_written)} written per second"
    expected = f"{count_text(round(exact.expected_results))} results expected of it"
    return (
        f"of the method, by its equations: about {format_bytes(exact.disk_bytes)}; {traffic}, {_ms(exact.disk_s)}; "
        f"{expected}"
    )


def _ms(seconds: float) -> str:
    return f"{count_text(1e3 * seconds)} ms"
