"""The join of many streams in one operator, with a window for every pair: W-join (§3, §5).

    Law:  tuples t_1 … t_n, one of each input, join  iff  they have equal keys, satisfy all conditions, and for every
          pair of inputs  t_j.ts - t_i.ts <= reach[i][j].  They do so from max(ts) to min(expires).

    A   ----a---------------          the last of them to come finds the others: a and b in their buffers,
    B   --------b-----------          b within reach of c, a within reach of both
    C   -------------c------
    A⋈B⋈C            |---->

A combination is found once, by its last tuple in order of time. No intermediate result is kept. State: of each input
the tuples that a tuple still to come can reach.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Condition:
    """SQL over the columns of some inputs, by their numbers."""

    sql: str
    inputs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MultiwayJoinSpec:
    """Inputs are told apart by their number."""

    names: tuple[str, ...]
    """Of the inputs, for people: an alias, or several with `+` if an input is itself a join."""
    keys: tuple[tuple[tuple[str, ...], ...], ...]
    """For each key, the columns of each input that must be equal to those of all others that have some; () if an input
    has none. The columns of a key have equal types in all inputs.
    """
    reach_us: tuple[tuple[int, ...], ...]
    """`reach_us[i][j]`: how much newer than a tuple of input i one of input j may be, at most."""
    conditions: tuple[Condition, ...] = ()
    """What else must hold."""
    algorithm: str = field(default="probe", repr=False)
    """How combinations are found. It is no part of what tells plans apart: state does not depend on it."""
