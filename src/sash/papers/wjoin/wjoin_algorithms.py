"""The algorithms of the W-join paper for joins of many streams, by name."""

from __future__ import annotations

from collections.abc import Callable

from sash.index.multiway_index import MultiwayIndex
from sash.papers.wjoin.gca_join import gca_join
from sash.papers.wjoin.hw_join import HwJoin
from sash.papers.wjoin.lca_join import LcaJoin
from sash.papers.wjoin.nlw_join import NlwJoin
from sash.papers.wjoin.ripple_join import RippleJoin
from sash.papers.wjoin.xjoin import XJoin

GCA = "gca"
ALGORITHMS: dict[str, Callable[..., MultiwayIndex]] = {
    "nlw": NlwJoin,
    "hw": HwJoin,
    "mw": gca_join,  # the plain MW-join where there is one window for all pairs
    GCA: gca_join,
    "lca": LcaJoin,
    "ripple": RippleJoin,
    "xjoin": XJoin,
}
"""Each is made from (windows, has_key, reach): `has_key[window, key]` says which keys the rows of a window have, and
`reach[i, j]` is the most that t_j - t_i may be in a combination.
"""
