"""Whether what `STATE` names is all that an operator keeps from step to step.

    group 0   s0 ── step ── s0' ·························· s0' ── step ── s0''
    group 1   ············· s1 ── step ── s1' ── step ── s1'' ·················

On Spark one operator serves many groups in turn: what it keeps of one is taken out after a step, and put back before
its next one. Law: each group gets, step by step, what it would get from an operator of its own; and nothing of the
operator has changed but what was taken out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, cycle
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from sash.operators.operator import export_live, import_live
from sash.operators.operator_set import OperatorSet
from sash.store.vector import Memory
from support.fingerprints import Fingerprint, differences, fingerprint_of, members_of

Script: TypeAlias = Callable[[Any], Iterator[Any]]
"""Lets an operator, or a set of operators, do one step after the other; gives what came of each."""

LAYERS = ("operators", "index", "papers", "store", "kernels", "cost")
"""Whose modules operators are made of."""
NO_STATE = {
    "sash.operators.evaluator._local": "DuckDB's connection of each thread; tables are there during a call only",
}
"""Variables of modules that change, and why that does no harm."""


def take_out(served: Any) -> Any:
    """All that an operator, or a set of operators, keeps from step to step."""
    return served.export_live() if isinstance(served, OperatorSet) else export_live(served)


def put_in(served: Any, state: Any) -> None:
    """Lets it go on with what was taken out."""
    if isinstance(served, OperatorSet):
        served.import_live(state)
    else:
        import_live(served, state)


def check_live_state(make: Callable[[], Any], scripts: Sequence[Script], turns: Sequence[int]) -> None:
    """Raises an AssertionError if groups see each other, or something changes that is not taken out.

    `turns` says whose step is next, as long as there are steps; then the groups come one after the other.
    """
    in_turns = serve_in_turns(make, scripts, turns)
    alone = [list(script(make())) for script in scripts]
    for number, (own, shared) in enumerate(zip(alone, in_turns, strict=True)):
        assert len(own) == len(shared), f"group {number} has {len(own)} steps alone, and {len(shared)} in turns"
        for step, (one, other) in enumerate(zip(own, shared)):
            assert repr(one) == repr(other), f"step {step} of group {number} is not what it is alone"


def serve_in_turns(make: Callable[[], Any], scripts: Sequence[Script], turns: Sequence[int]) -> list[list[Any]]:
    """What came of each step of each group, of one operator, or set of operators, that serves all of them."""
    served, states, answers = make(), [], [[] for _ in scripts]
    rest = _rest_of(served)
    for _ in scripts:
        served.reset(Memory())
        rest = _check_rest(served, rest, "a reset")
        states.append(take_out(served))
    running = [script(served) for script in scripts]
    waiting = set(range(len(scripts)))
    for group in chain(turns, cycle(range(len(scripts)))):
        if not waiting:
            break
        put_in(served, states[group])
        try:
            answers[group].append(next(running[group]))
        except StopIteration:
            waiting.discard(group)
        rest = _check_rest(served, rest, f"step {len(answers[group])} of group {group}")
        states[group] = take_out(served)
    return answers


@contextmanager
def modules_unchanged() -> Iterator[None]:
    """Raises an AssertionError if a variable of a module that operators are made of is not what it was before."""
    names = _variables()
    before = _globals(names)
    yield
    changed = differences(before, _globals(names))
    assert not changed, f"variables of modules that keep something between steps: {', '.join(changed)}"


def _check_rest(served: Any, before: Fingerprint, what: str) -> Fingerprint:
    after = _rest_of(served)
    changed = differences(before, after)
    assert not changed, f"{what} changes what `STATE` does not name: {', '.join(changed)}"
    return after


def _rest_of(served: Any) -> Fingerprint:
    """All of an operator, or of a set of operators, that is not taken out: its other attributes, those of its class
    included.
    """
    named = served.operators() if isinstance(served, OperatorSet) else [("", served)]
    rest = {}
    for prefix, operator in named:
        of_class = {
            name: value
            for each in reversed(type(operator).__mro__)
            for name, value in vars(each).items()
            if not _is_code(value) and not name.startswith("__") and name != "_abc_impl"
        }
        own = {name: value for name, value in members_of(operator).items() if name not in operator.STATE}
        where = f"{prefix or type(operator).__name__}."
        rest |= {where + name: value for name, value in (of_class | own).items()}
    return fingerprint_of(rest)


def _globals(names: list[tuple[str, str]]) -> Fingerprint:
    return fingerprint_of({f"{module}.{name}": getattr(sys.modules[module], name) for module, name in names})


def _variables() -> list[tuple[str, str]]:
    """The names of variables, with the modules of operators and of what they are made of."""
    return [
        (module, name)
        for module in sys.modules
        if module.startswith(tuple(f"sash.{layer}." for layer in LAYERS))
        for name, value in vars(sys.modules[module]).items()
        if not name.startswith("__") and f"{module}.{name}" not in NO_STATE
        if not isinstance(value, ModuleType | TypeVar) and not _is_code(value)
    ]


def _is_code(value: Any) -> bool:
    """Classes and functions. Of those with a cache, answers follow from the arguments alone."""
    return callable(value) or isinstance(value, property | classmethod | staticmethod)
