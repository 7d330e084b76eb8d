"""The matrix by which MQT chooses: how many queries a tuple can serve per time (Shared §3.3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def throughput_matrix(windows_us: Sequence[int] | np.ndarray, n_queries: Sequence[int]) -> np.ndarray:
    """MaxQT(PW(i, j)), in queries per microsecond: the most that a tuple serves which has scanned i windows, if it
    scans on to any of the windows up to the j-th. Zero where j is not above i: it must not overtake.

        w = 2, 3, 6   →   i=0:  1/2  2/3  2/3
                          i=1:        1    1
                          i=2:            1/3
    """
    ends = np.concatenate([[0], np.asarray(windows_us, np.float64)])
    served = np.concatenate([[0], np.cumsum(n_queries)])
    n_levels = len(ends)
    matrix = np.zeros((n_levels - 1, n_levels))
    for level in range(n_levels - 1):
        ratios = (served[level + 1 :] - served[level]) / (ends[level + 1 :] - ends[level])
        matrix[level, level + 1 :] = np.maximum.accumulate(ratios)
    return matrix
