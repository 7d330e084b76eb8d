"""NLW-join, the nested-loop window join (W-join §3.1.1, Fig. 4 and 5)."""

from __future__ import annotations

from sash.papers.wjoin.window_pipeline import WindowPipeline


class NlwJoin(WindowPipeline):
    """A left-deep pipeline of binary nested-loop joins.

    Each tuple and each m_tuple goes through the whole opposite buffer of its node. What is out there is removed: what
    is further away than the window from the newest tuple of every stream on the scanning side, so that no stream that
    lags behind loses a partner (Fig. 3). Of the rest, those in the period are tested for the predicate.
    """
