"""Operators by name, and all that can be done to the state of all of them at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from sash.operators.operator import Operator, hand_to, held_by
from sash.store.block_log import BlockLog
from sash.store.vector import Home


class OperatorSet(ABC):
    """Whatever runs operators. Their names are stable: state is found by them."""

    @abstractmethod
    def operators(self) -> Iterator[tuple[str, Operator]]:
        """The operators by name."""

    def reset(self, home: Home) -> None:
        """Starts afresh, with everything that is kept from now on in `home`."""
        for _, operator in self.operators():
            operator.reset(home)

    def held(self) -> dict[str, dict[str, Any]]:
        """All that the operators keep from step to step, by their names."""
        return {name: held_by(operator) for name, operator in self.operators()}

    def hand(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Goes on with what `held` gave, of this set or of another one of the same plan."""
        for name, operator in self.operators():
            hand_to(operator, state[name])

    def logs(self) -> dict[str, list[BlockLog]]:
        """The logs of each operator, by its name."""
        return {name: list(operator.logs().values()) for name, operator in self.operators()}

    @property
    def n_rows(self) -> int:
        """Rows held in state."""
        return sum(log.n_rows for logs in self.logs().values() for log in logs)

    @property
    def n_bytes(self) -> int:
        """Bytes held in state."""
        return sum(log.n_bytes for logs in self.logs().values() for log in logs)

    def take_changes(self) -> tuple[dict[str, bytes], list[str]]:
        """What a key-value store must put and delete to hold the logs, since the last call."""
        puts: dict[str, bytes] = {}
        deletes: list[str] = []
        for name, operator in self.operators():
            for log_name, log in operator.logs().items():
                added, gone = log.take_changes()
                puts.update((f"{name}/{log_name}/{key}", value) for key, value in added.items())
                deletes.extend(f"{name}/{log_name}/{key}" for key in gone)
        return puts, deletes

    def entries(self) -> dict[str, bytes]:
        """All logs, as entries that `restore` understands."""
        held: dict[str, bytes] = {}
        for name, operator in self.operators():
            for log_name, log in operator.logs().items():
                held.update((f"{name}/{log_name}/{key}", value) for key, value in log.entries().items())
        return held

    def registers(self) -> dict[str, dict[str, Any]]:
        """What has to survive beside the logs, by operator; it can be written as JSON."""
        return {name: dict(operator.registers()) for name, operator in self.operators()}

    def restore(self, entries: Mapping[str, bytes], registers: Mapping[str, Mapping[str, Any]]) -> None:
        """Becomes the set whose state these are."""
        for name, operator in self.operators():
            restore_operator(name, operator, entries, registers[name])


def restore_operator(name: str, operator: Operator, entries: Mapping[str, bytes], registers: Mapping[str, Any]) -> None:
    """Lets one operator become what it was; the entries are those of all."""
    by_log = {log_name: _Below(entries, f"{name}/{log_name}/") for log_name in operator.logs()}
    operator.restore(by_log, registers)


class _Below(Mapping[str, bytes]):
    """The entries whose keys start with a prefix, without it; each value is read when it is asked for."""

    def __init__(self, entries: Mapping[str, bytes], prefix: str):
        self._entries = entries
        self._prefix = prefix
        self._keys = [key.removeprefix(prefix) for key in entries if key.startswith(prefix)]

    def __getitem__(self, key: str) -> bytes:
        return self._entries[self._prefix + key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
