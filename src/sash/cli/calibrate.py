"""`sash calibrate`: what joins cost on this machine, and its disk."""

from __future__ import annotations

from typing import Annotated

import typer

from sash import __version__


def calibrate(
    as_json: Annotated[bool, typer.Option("--json", help="Print the costs as JSON, and no progress.")] = False,
) -> None:
    """Measure what joins and the disk cost on this machine, and keep it for the planner. Takes some seconds."""
    from sash.cli.show import CountedProgress, show_costs_path, show_disk, show_fits, show_multiway_prices
    from sash.cost.prices import save_prices
    from sash.embedded.calibration import calibrate as measure
    from sash.embedded.calibration import fit_facts, fitted_prices
    from sash.embedded.disk_calibration import measure_disk
    from sash.embedded.multiway_calibration import calibrate_multiway
    from sash.runtime.memory_settings import configured

    spill = configured().spill_directory
    with CountedProgress("measurements done", is_quiet=as_json) as progress:
        fits = measure(progress.report)
        multiway = calibrate_multiway(progress.report)
        disk = measure_disk(spill)
    facts = {"sash": __version__, **fit_facts(fits)}
    path = save_prices(fitted_prices(fits, disk, multiway), facts)
    if as_json:
        print(path.read_text(encoding="utf-8"), end="")
    else:
        show_fits(fits)
        show_multiway_prices(multiway)
        show_disk(disk, spill)
        show_costs_path(path)
