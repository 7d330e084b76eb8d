"""The report as one HTML page that needs nothing beside it: pictures are in it."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import groupby
from string import Template
from typing import Any

_PAGE = Template("""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Experiments</title>
<style>
:root { color-scheme: light; --ink: #1d2330; --faint: #667085; --line: #e4e7ec; --good: #067647; --bad: #b42318; }
body { margin: 0 auto; padding: 2.5rem 1.5rem 5rem; max-width: 68rem; color: var(--ink); background: #fcfcfd;
       font: 16px/1.55 system-ui, sans-serif; }
h1 { font-size: 2rem; margin: 0; }
h2 { margin: 3rem 0 0; padding-top: 1.5rem; border-top: 2px solid var(--ink); font-size: 1.5rem; }
h3 { margin: 2.5rem 0 0.25rem; font-size: 1.15rem; }
p.note { margin: 0.25rem 0 1rem; color: var(--faint); }
img { display: block; width: 100%; border: 1px solid var(--line); border-radius: 6px; background: #fff; }
table { width: 100%; margin-top: 1rem; border-collapse: collapse; font-size: 0.92rem; }
th { text-align: left; font-weight: 600; color: var(--faint); }
th, td { padding: 0.5rem 0.9rem 0.5rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td:first-child { width: 38%; }
td.verdict { width: 24%; }
.good, .bad { font-weight: 600; white-space: nowrap; }
.good { color: var(--good); }
.bad { color: var(--bad); }
nav ul { padding-left: 1.2rem; }
a { color: inherit; }
</style>
</head>
<body>
<h1>Experiments</h1>
<p class="note">$summary</p>
<nav><ul>
$contents
</ul></nav>
$papers
</body>
</html>
""")


def html_page(outcomes: Sequence[Mapping[str, Any]], pictures: Mapping[str, bytes]) -> str:
    """A page on what was found; `pictures` are PNG files by the name of the experiment."""
    papers = [(paper, list(found)) for paper, found in groupby(outcomes, _paper_of)]
    return _PAGE.substitute(
        summary=escape(_count([claim for facts in outcomes for claim in facts["claims"]])),
        contents="\n".join(_entry(facts) for facts in outcomes),
        papers="\n".join(line for paper, found in papers for line in _section(paper, found, pictures)),
    )


def _paper_of(facts: Mapping[str, Any]) -> str:
    return facts["paper"].partition(",")[0]


def _entry(facts: Mapping[str, Any]) -> str:
    shown = escape(f"{facts['paper']}: {facts['title']}")
    return f'<li><a href="#{escape(facts["experiment"])}">{shown}</a>, {escape(_count(facts["claims"]))}</li>'


def _section(paper: str, found: Sequence[Mapping[str, Any]], pictures: Mapping[str, bytes]) -> Iterator[str]:
    yield f"<h2>{escape(paper)}</h2>"
    for facts in found:
        name, title = facts["experiment"], escape(f"{facts['paper']}: {facts['title']}")
        yield f'<h3 id="{escape(name)}">{title}</h3>'
        yield f'<p class="note">Scale: {escape(facts["scale"])}. {escape(_count(facts["claims"]))}</p>'
        if name in pictures:
            yield f'<img alt="{title}" src="data:image/png;base64,{b64encode(pictures[name]).decode()}">'
        yield "<table><thead><tr><th>The paper says</th><th>Measured</th><th></th></tr></thead><tbody>"
        yield from map(_claim, facts["claims"])
        yield "</tbody></table>"


def _claim(claim: Mapping[str, Any]) -> str:
    verdict = '<span class="good">holds</span>' if claim["holds"] else '<span class="bad">does not hold</span>'
    reason = f"<br>{escape(claim['reason'])}" if claim["reason"] and not claim["holds"] else ""
    cells = f"<td>{escape(claim['text'])}</td><td>{escape(claim['measured'])}</td>"
    return f'<tr>{cells}<td class="verdict">{verdict}{reason}</td></tr>'


def _count(claims: Sequence[Mapping[str, Any]]) -> str:
    return f"{sum(claim['holds'] for claim in claims)} of {len(claims)} claims hold."
