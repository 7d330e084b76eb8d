"""`python -m support.generated`: checks many generated cases, in as many processes as there are cores, and reports."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from support.generated.features import EXPECTED
from support.generated.volume import Tally, check_all

CHUNK = 50


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0, help="the first of the seeds, one for each case")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    tally, started = Tally(), time.monotonic()
    starts = range(asked.seed, asked.seed + asked.cases, CHUNK)
    chunks = [range(start, min(start + CHUNK, asked.seed + asked.cases)) for start in starts]
    with ProcessPoolExecutor(asked.processes) as pool:
        for number, part in enumerate(pool.map(check_all, chunks), 1):
            tally.add(part)
            for problem in part.problems:
                print(f"\n{problem}\n", flush=True)
            if sys.stderr.isatty() or number % 20 == 0:
                print(f"{tally.n_cases:,} cases, {tally.n_wrong} wrong", file=sys.stderr, flush=True)
    report(tally, asked.seed, time.monotonic() - started)
    return 1 if tally.n_wrong else 0


def report(tally: Tally, seed: int, seconds: float) -> None:
    n_compared = tally.n_right + tally.n_wrong
    print(f"seeds {seed} to {seed + tally.n_cases - 1}: {tally.n_cases:,} cases in {seconds:,.0f} s")
    print(f"{n_compared:,} compared, {tally.n_wrong} wrong; {tally.refused.total():,} refused\n")
    for name in EXPECTED:
        print(f"{name:36} {100 * tally.features[name] / max(1, n_compared):5.1f} %")
    print(f"{'pairs of types that met as keys':36} {len(tally.key_types):5}")
    print("\nrefused:")
    for reason, n_cases in tally.refused.most_common(15):
        print(f"{n_cases:6}  {reason}")


if __name__ == "__main__":
    sys.exit(main())
