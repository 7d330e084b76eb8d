"""What was measured of the operators of a plan, and how EXPLAIN ANALYZE words it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sash.cost.choose_join import JoinChoice
from sash.cost.join_cost import JoinLoad, JoinMethod, JoinWork, total_work
from sash.index.multiway_index import MultiwayCounts
from sash.operators.operator_tree import Work
from sash.plan.explain.describe_join import count_text, method_name
from sash.plan.explain.describe_multiway import orders_text

Fact = tuple[str, str]


@dataclass(frozen=True, slots=True)
class JoinMeasure:
    """What a join has counted from its beginning."""

    work: JoinWork
    method: JoinMethod
    """The last one."""
    n_replans: int
    span_s: float
    """The seconds of stream that it has seen."""


@dataclass(frozen=True, slots=True)
class MultiwayMeasure:
    """What a join of many has counted from its beginning."""

    names: tuple[str, ...]
    counts: MultiwayCounts
    orders: list[list[int]] | None
    """The last probe order of each input; None if the algorithm has none."""
    algorithm: str
    """The last one."""
    n_replans: int


@dataclass(slots=True)
class Measure:
    """What an operator has done, all steps together."""

    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    most_held: int = 0
    join: JoinMeasure | MultiwayMeasure | None = None

    def add(self, work: Work, n_held: int) -> None:
        self.rows_in += work.rows_in
        self.rows_out += work.rows_out
        self.seconds += work.seconds
        self.most_held = max(self.most_held, n_held)


def measure_text(measure: Measure) -> str:
    """The end of an operator's line in the short EXPLAIN ANALYZE."""
    return f"{measure.rows_in:,} rows in, {measure.rows_out:,} out, {1000 * measure.seconds:,.1f} ms"


def measure_facts(measure: Measure, choice: JoinChoice | None) -> list[Fact]:
    """The lines of EXPLAIN ANALYZE about an operator, if verbose."""
    speed = f"{measure.rows_in / measure.seconds:,.0f} rows/s" if measure.seconds else "0 rows/s"
    held = f"; at most {measure.most_held:,} rows in state" if measure.most_held else ""
    facts = [
        ("measured", f"{measure.rows_in:,} rows in, {measure.rows_out:,} out{held}; {measure.seconds:.1f} s, {speed}")
    ]
    if isinstance(measure.join, JoinMeasure):
        facts += _join_facts(measure.join, choice)
    if isinstance(measure.join, MultiwayMeasure):
        facts += _multiway_facts(measure.join)
    return facts


def work_of_run(method: JoinMethod, load: JoinLoad, seconds: float) -> JoinWork:
    """What the model expects of a run of so many seconds that begins with empty windows.

    A window of T seconds fills for the first T, so that over a run it is as full as one of T (1 - T / 2S), or S / 2 if
    the run is shorter; and nothing leaves it before it is full.
    """
    means = [length * (1 - length / (2 * seconds)) if length < seconds else seconds / 2 for length in load.windows_s]
    work = total_work(method, replace(load, windows_s=(means[0], means[1]))).times(seconds)
    left = [rate * max(0.0, seconds - length) for rate, length in zip(load.rates, load.windows_s)]
    return replace(work, invalidations=sum(left), checks=work.checks - work.invalidations + sum(left))


def _join_facts(join: JoinMeasure, choice: JoinChoice | None) -> list[Fact]:
    expected = None
    if choice is not None and choice.load is not None and join.span_s > 0:
        expected = work_of_run(choice.method, choice.load, join.span_s)
    counts = [_count(each.name, join.work, expected) for each in fields(JoinWork)]
    replans = f"{join.n_replans} times; {method_name(join.method)} at the end" if join.n_replans else "never"
    return [("work", "; ".join(counts)), ("replanned", replans)]


def _multiway_facts(join: MultiwayMeasure) -> list[Fact]:
    counts = [f"{count_text(count)} {name}" for name, count in join.counts._asdict().items()]
    orders = f"{orders_text(join.names, join.orders)}, at the end" if join.orders else ""
    replans = f"{join.n_replans} times; {join.algorithm} at the end" if join.n_replans else ""
    return [("work", "; ".join(counts)), ("probed", orders), ("replanned", replans)]


def _count(name: str, seen: JoinWork, expected: JoinWork | None) -> str:
    estimate = "" if expected is None else f" (estimate {count_text(round(getattr(expected, name)))})"
    return f"{count_text(getattr(seen, name))} {name}{estimate}"
