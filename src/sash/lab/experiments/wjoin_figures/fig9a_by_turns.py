"""W-join, Figure 9(a) by turns: nested loops and hash tables take one tuple of each stream, whatever its time.

    A   |||||||||                        after nine turns B, the slower stream, is far ahead in time. Its tuples wait in
    B   |   |   |   |   |   |   |   |    a buffer, outside of every window, and each tuple of A goes through all of them

The paper takes streams by turns (§3.1). A slow stream is ever further ahead then, until it has ended. So what NLW-join
takes is a matter of how long the run is, and there is a result for each length. MW-join aligns streams by time itself:
it is measured in order of time, over the same tuples, and so are the others beside their turns. Means are those of the
whole run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from sash.lab.bench.measure import Note
from sash.lab.experiments.experiment import Claim, Experiment, Outcome, Row, values_of
from sash.lab.experiments.wjoin_figures.fig9a_rates import JOINS, kept_claim, order_claim, variable_load, variable_rates
from sash.lab.experiments.wjoin_figures.wjoin_claims import MEASURES, best_claim
from sash.lab.experiments.wjoin_figures.wjoin_picture import draw_steps
from sash.lab.experiments.wjoin_figures.wjoin_service import (
    PAPER,
    STEP_TUPLES,
    Load,
    ServiceCase,
    TimedStream,
    WJoinScale,
    measure,
)

BY_TIME, BY_TURNS = "time", "turns"
PIPELINES = tuple(join for join in JOINS if join != "mw")


def run(scale: WJoinScale, note: Note) -> Outcome:
    """The three joins over the same streams, for each length of the run and each window."""
    cases = (
        case
        for run_s in scale.turns_s
        for window_s in scale.windows_s
        for n_streams in scale.n_streams
        for case in _cases(n_streams, run_s, window_s)
    )
    rows = _with_merge_by_turns(measure(cases, scale.n_repeats, note))
    return Outcome(rows, [claim for run_s in scale.turns_s for claim in _claims(rows, run_s)])


def whole_steps(load: Load) -> Load:
    """Without the last tuples that make no step, so that all tuples are taken in any order."""
    numbers = np.repeat(np.arange(len(load.streams)), [len(stream.ts) for stream in load.streams])
    in_order = numbers[np.argsort(np.concatenate([stream.ts for stream in load.streams]), kind="stable")]
    taken = in_order[: len(in_order) // STEP_TUPLES * STEP_TUPLES]
    counts = np.bincount(taken, minlength=len(load.streams)).tolist()
    streams = [TimedStream(stream.ts[:count], stream.keys[:count]) for stream, count in zip(load.streams, counts)]
    return Load(streams, load.reach)


def _cases(n_streams: int, run_s: float, window_s: float) -> list[ServiceCase]:
    load = whole_steps(variable_load(n_streams, round(run_s * sum(variable_rates(n_streams))), window_s))
    labels = {"run_s": run_s, "window_s": window_s, "n_streams": n_streams}
    return [
        ServiceCase({"order": BY_TIME, **labels}, load, JOINS, is_whole=True),
        ServiceCase({"order": BY_TURNS, **labels}, load, PIPELINES, takes_turns=True, is_whole=True),
    ]


def _with_merge_by_turns(rows: Sequence[Row]) -> list[Row]:
    """MW-join is the same join wherever streams take turns."""
    return [*rows, *({**row, "order": BY_TURNS} for row in rows if row["join"] == "mw")]


_DRIFT = (
    "how many tuples of streams that are ahead NLW-join goes through is a matter of how long the run is, and not of "
    "windows, which are all that MW-join goes through"
)
_FALLS_ONCE = "with the longest windows the gain falls from two streams to three; from there on it is kept"
_IN_BUCKETS = (
    "tuples of streams that are ahead are in buckets as well; the shorter windows are, the fewer values there are, "
    "and the more of these tuples have the same one; MW-join has none of them"
)


def _claims(rows: Sequence[Row], run_s: float) -> list[Claim]:
    here = [row for row in rows if (row["order"], row["run_s"]) == (BY_TURNS, run_s)]
    where = f"at variable rates, by turns for {run_s:g} s"
    return [
        *(order_claim(here, each, where, _DRIFT) for each in MEASURES),
        *(kept_claim(here, each, f", by turns for {run_s:g} s", _FALLS_ONCE) for each in MEASURES),
        *(
            best_claim(here, "hw", ("window_s", "n_streams"), each, _IN_BUCKETS, f", by turns for {run_s:g} s")
            for each in MEASURES
        ),
    ]


def _draw(rows: Sequence[Row], path: Path) -> None:
    """The longest run with the longest window, by turns and, dashed, in order of time."""
    run_s, window_s = max(values_of(rows, "run_s")), max(values_of(rows, "window_s"))
    chosen = [row for row in rows if (row["run_s"], row["window_s"]) == (run_s, window_s)]
    title = f"{{}} streams for {run_s:g} s, windows of {window_s:g} s"
    draw_steps(chosen, path, "n_streams", title, dashed=("order", BY_TIME), is_log=True)


EXPERIMENT = Experiment("9a-turns", "joins by the number of streams, at variable rates, by turns", PAPER, run, _draw)
