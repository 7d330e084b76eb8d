"""What experiments have found: a JSON file each, and a page that tells which claims hold, as Markdown and as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sash.errors import SourceError
from sash.lab.experiments.experiment import Experiment, Outcome, Scale
from sash.lab.experiments.experiment_registry import EXPERIMENTS
from sash.lab.experiments.html_report import html_page

PAGE = "report.md"
HTML_PAGE = "report.html"


def write_outcome(experiment: Experiment, outcome: Outcome, scale: Scale, directory: Path) -> dict[str, Any]:
    """Writes the JSON and the PNG of an experiment; returns what is in the JSON."""
    facts = {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.source,
        "scale": scale.name,
        **outcome.facts(),
    }
    (directory / f"{experiment.name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    experiment.draw(outcome.rows, directory / f"{experiment.name}.png")
    return facts


def write_report(directory: Path) -> Path:
    """Writes pages on all experiments that have left their JSON in a directory; returns the one in Markdown."""
    page, outcomes = directory / PAGE, read_outcomes(directory)
    page.write_text("\n".join(_lines(outcomes)) + "\n", encoding="utf-8")
    pictures = {name: path.read_bytes() for name in EXPERIMENTS if (path := directory / f"{name}.png").exists()}
    (directory / HTML_PAGE).write_text(html_page(outcomes, pictures), encoding="utf-8")
    return page


def read_outcomes(directory: Path) -> list[dict[str, Any]]:
    """What was found, in the order of the experiments."""
    paths = [directory / f"{name}.json" for name in EXPERIMENTS]
    found = [json.loads(path.read_text()) for path in paths if path.exists()]
    if not found:
        raise SourceError(f"`{directory}` holds no results of experiments; run `sash experiment run all` first")
    return found


def _lines(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    claims = [claim for facts in outcomes for claim in facts["claims"]]
    yield "# Experiments"
    yield ""
    yield f"{sum(claim['holds'] for claim in claims)} of {len(claims)} claims hold."
    for facts in outcomes:
        yield ""
        yield f"## {facts['paper']}: {facts['title']}"
        yield ""
        yield f"Scale: {facts['scale']}. [Figures](./{facts['experiment']}.json)"
        yield ""
        yield f"![{facts['title']}](./{facts['experiment']}.png)"
        yield ""
        yield "| claim | measured | |"
        yield "|---|---|---|"
        yield from (f"| {claim['text']} | {claim['measured']} | {verdict(claim)} |" for claim in facts["claims"])


def verdict(claim: Mapping[str, Any]) -> str:
    """Whether a claim holds, and why not."""
    if claim["holds"]:
        return "holds"
    return f"does not hold: {claim['reason']}" if claim["reason"] else "does not hold"
