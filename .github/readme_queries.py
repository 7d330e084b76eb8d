"""Runs the README's first query with the Sash that is installed, and in `spark` the one over Spark frames as well.

python readme_queries.py README.md bare|spark
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from pathlib import Path

readme, part = Path(sys.argv[1]).read_text(), sys.argv[2]
blocks = re.findall(r"^```(python|text)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)
(_, first), (_, expected), (_, on_spark) = blocks[:3]
names: dict[str, object] = {}
with contextlib.redirect_stdout(io.StringIO()) as printed:
    exec(first, names)
assert printed.getvalue().split() == expected.split(), printed.getvalue()
if part == "spark":
    exec(on_spark + "\nassert spark.table('hot_and_humid').count() == 2\n", names)
print(f"README: right, {part}")
