"""Assignors: pure functions with which a group's leader assigns partitions to members.

Members offer assignors by name, the coordinator chooses one that all of them offer, and the leader runs it. A custom
`Assignor` can be passed to the agent beside the names in `BUILT_IN`; every member needs it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from agent.assignors.built_in import BUILT_IN
from agent.assignors.model import Assignment, Assignor, Member

__all__ = ["BUILT_IN", "DEFAULT_ASSIGNORS", "Assignment", "Assignor", "Member", "resolve_assignors"]

DEFAULT_ASSIGNORS: Final = ("range", "cooperative-sticky")
"""As in Kafka's clients: range is chosen while every member offers it, and members then rebalance eagerly."""


def resolve_assignors(assignors: object) -> tuple[Assignor, ...]:
    """Return the assignors in order of preference, names looked up in BUILT_IN.

    Raises:
        ValueError: there is none, one is unknown or of another type, or two have the same name.
    """
    listed = assignors if isinstance(assignors, Sequence) and not isinstance(assignors, str) else ()
    if not listed or not all(isinstance(each, str | Assignor) for each in listed):
        raise ValueError("assignors must be a non-empty list of names or Assignor values, the preferred one first")
    unknown = [each for each in listed if isinstance(each, str) and each not in BUILT_IN]
    if unknown:
        raise ValueError(f"unknown assignor {unknown[0]!r}; the built-in ones are {', '.join(BUILT_IN)}")
    found = tuple(BUILT_IN[each] if isinstance(each, str) else each for each in listed)
    if len({each.name for each in found}) < len(found):
        raise ValueError("two assignors have the same name")
    return found
