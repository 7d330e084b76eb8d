"""On which Spark the tests run: SASH_MASTER names its master, such as local-cluster[2,1,1024]."""

from __future__ import annotations

import os

MASTER = os.environ.get("SASH_MASTER", "local[2]")
