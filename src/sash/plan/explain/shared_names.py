"""What several parts of a plan read stands in EXPLAIN once, with a name, and by its name where it is read again.

└─ WindowJoin  …
   ├─ r0 := Reorder  …
   │  └─ Stream a AS a  …
   └─ Stream b AS b  …
└─ Membership  …
   └─ r0, as above
"""

from __future__ import annotations

from sash.operators.node import Node, count_readers


class SharedNames:
    """The names of the nodes of a plan that have several readers, in the order in which they are told."""

    def __init__(self, root: Node):
        self._n_readers = count_readers(root)
        self._names: dict[Node, str] = {}

    def is_told(self, node: Node) -> bool:
        """Whether it was told before."""
        return node in self._names

    def beginning(self, node: Node) -> str:
        """What leads its title where it is told: a name, if it is read again."""
        if self._n_readers.get(id(node), 0) < 2:
            return ""
        self._names[node] = f"r{len(self._names)}"
        return f"{self._names[node]} := "

    def again(self, node: Node) -> str:
        """What stands in its place where it is read again."""
        return f"{self._names[node]}, as above"
