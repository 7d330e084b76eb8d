"""`sash calibrate`: what joins cost on this machine."""

from __future__ import annotations

from typing import Annotated

import typer

from sash import __version__


def calibrate(
    as_json: Annotated[bool, typer.Option("--json", help="Print the costs as JSON, and no progress.")] = False,
) -> None:
    """Measure what joins cost on this machine, and keep it for the planner. Takes some seconds."""
    from sash.cli.show import CalibrateProgress, show_fits
    from sash.cost.prices import save_prices
    from sash.embedded.calibration import calibrate as measure
    from sash.embedded.calibration import fit_facts, fitted_prices

    with CalibrateProgress(is_quiet=as_json) as progress:
        fits = measure(progress.report)
    facts = {"sash": __version__, **fit_facts(fits)}
    path = save_prices(fitted_prices(fits), facts)
    if as_json:
        print(path.read_text(encoding="utf-8"), end="")
    else:
        show_fits(fits, path)
