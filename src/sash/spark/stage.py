"""The stateful stage: a fragment's partition groups inside Spark's `transformWithState`.

Spark's state store keeps the group's blocks; the pipeline with its indexes stays in the Python worker between batches.
A random token tells whether the worker's pipeline is the one whose state was committed: every attempt writes a fresh
one, so what a failed or rolled-back attempt left behind never matches, and the pipeline is rebuilt from the blocks.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql.streaming import StatefulProcessor

from sash.plan.physical import Plan
from sash.spark.exchange import Message
from sash.spark.group import Group

GROUPS_IN_MEMORY = 256

_groups: OrderedDict[tuple[str, int, int], tuple[str, Group]] = OrderedDict()
"""This worker's groups by plan, fragment and number, with the token of their saved state; oldest use first."""


def _random_token() -> str:
    return uuid.uuid4().hex


class GroupStage(StatefulProcessor):
    """Runs the groups of one fragment. `new_token` must never give the same token twice."""

    def __init__(
        self,
        plan: Plan,
        relations: dict[str, pa.Table],
        fragment: int,
        n_groups: int,
        new_token: Callable[[], str] = _random_token,
    ):
        self._plan = plan
        self._fingerprint = plan.fingerprint
        self._relations = relations
        self._fragment = fragment
        self._n_groups = n_groups
        self._new_token = new_token

    def init(self, handle: Any) -> None:
        self._entries = handle.getMapState("entries", "key string", "value binary")
        self._token = handle.getValueState("token", "token string")

    def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[pd.DataFrame]:
        """What is meant for others passes through; where nothing else comes, there is no group."""
        messages: list[Message] = []
        for frame in rows:
            frame = frame[list(Message._fields)]
            is_own = frame["stage"] == self._fragment
            messages += [Message(*row) for row in frame[is_own].itertuples(index=False)]
            if not is_own.all():
                yield frame[~is_own]
        if messages:
            group = self._load(int(messages[0].grp))
            for answer in group.step(messages):
                yield pd.DataFrame([answer], columns=list(Message._fields))
            self._save(group)

    def close(self) -> None:
        pass

    def _load(self, number: int) -> Group:
        """The group as committed: from memory if the token matches, else from its blocks."""
        token, group = _groups.pop((self._fingerprint, self._fragment, number), (None, None))
        if not self._token.exists():
            return self._new_group(number)
        if group is not None and token == self._token.get()[0]:
            return group
        group = self._new_group(number)
        group.restore({row[0][0]: row[1][0] for row in self._entries.iterator()})
        return group

    def _new_group(self, number: int) -> Group:
        return Group(self._plan, self._relations, self._fragment, number, self._n_groups)

    def _save(self, group: Group) -> None:
        puts, deletes = group.take_changes()
        for name, value in puts.items():
            self._entries.updateValue((name,), (value,))
        for name in deletes:
            self._entries.removeKey((name,))
        token = self._new_token()
        self._token.update((token,))
        _groups[self._fingerprint, self._fragment, group.number] = token, group
        while len(_groups) > GROUPS_IN_MEMORY:
            _groups.popitem(last=False)
