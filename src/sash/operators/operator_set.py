"""Operators by name, and all that can be done to the state of all of them at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from sash.operators.operator import Stateful, export_live, import_live
from sash.operators.operator_names import EntryName, OperatorName
from sash.store.block_log import BlockLog
from sash.store.vector import Arena


class OperatorSet(ABC):
    """Whatever runs operators. Their names are stable: state is found by them."""

    @abstractmethod
    def operators(self) -> Iterator[tuple[OperatorName, Stateful]]:
        """The operators by name."""

    def reset(self, arena: Arena) -> None:
        """Starts afresh, with everything that is kept from now on in `arena`."""
        for _, operator in self.operators():
            operator.reset(arena)

    def export_live(self) -> dict[Any, Any]:
        """All that the operators keep from step to step, by their names."""
        return {name: export_live(operator) for name, operator in self.operators()}

    def import_live(self, state: Mapping[Any, Any]) -> None:
        """Goes on with what `export_live` gave, of this set or of another one of the same plan."""
        for name, operator in self.operators():
            import_live(operator, state[name])

    def logs(self) -> dict[OperatorName, list[BlockLog]]:
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
                puts.update((EntryName(name, log_name, key).encode(), value) for key, value in added.items())
                deletes.extend(EntryName(name, log_name, key).encode() for key in gone)
        return puts, deletes

    def entries(self) -> Mapping[str, bytes]:
        """All logs, as entries that `restore` understands; made as they are asked for, until the next step."""
        found: dict[str, tuple[Mapping[str, bytes], str]] = {}
        for name, operator in self.operators():
            for log_name, log in operator.logs().items():
                entries = log.entries()
                found.update((EntryName(name, log_name, key).encode(), (entries, key)) for key in entries)
        return _AllEntries(found)

    def registers(self) -> dict[str, Any]:
        """What has to survive beside the logs, by the names of operators as text; it can be written as JSON."""
        return {name.encode(): dict(operator.registers()) for name, operator in self.operators()}

    def restore(self, entries: Mapping[str, bytes], registers: Mapping[str, Any]) -> None:
        """Becomes the set whose state these are."""
        stored = StoredEntries(entries)
        for name, operator in self.operators():
            restore_operator(name, operator, stored, registers[name.encode()])


class StoredEntries:
    """Entries of a store, found by operator and log; a value is read only when it is asked for."""

    def __init__(self, entries: Mapping[str, bytes]):
        self._entries = entries
        self.names = {text: EntryName.decode(text) for text in entries}
        """By text, all that are there."""
        self._texts: dict[tuple[OperatorName, str], dict[str, str]] = {}
        for text, name in self.names.items():
            self._texts.setdefault((name.operator, name.log), {})[name.key] = text

    def of_log(self, operator: OperatorName, log: str) -> Mapping[str, bytes]:
        """The entries of one log, by their keys there."""
        return _EntriesOfLog(self._entries, self._texts.get((operator, log), {}))


def restore_operator(
    name: OperatorName, operator: Stateful, stored: StoredEntries, registers: Mapping[str, Any]
) -> None:
    """Lets one operator become what it was."""
    operator.restore({log: stored.of_log(name, log) for log in operator.logs()}, registers)


class _AllEntries(Mapping[str, bytes]):
    """Those of many logs: by text, where an entry is, and its key there."""

    def __init__(self, found: Mapping[str, tuple[Mapping[str, bytes], str]]):
        self._found = found

    def __getitem__(self, text: str) -> bytes:
        entries, key = self._found[text]
        return entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


class _EntriesOfLog(Mapping[str, bytes]):
    def __init__(self, entries: Mapping[str, bytes], texts: Mapping[str, str]):
        self._entries = entries
        self._texts = texts

    def __getitem__(self, key: str) -> bytes:
        return self._entries[self._texts[key]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)
