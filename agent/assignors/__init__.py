"""The leader's side of a rebalance: pure functions from subscriptions and partition counts to an assignment.

A group's members offer assignors by name, the coordinator chooses one that all of them offer, and the leader runs it.
An `Assignor` of your own can be handed to the agent beside the names in `BUILT_IN`; every member needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from agent.assignors.by_range import assign_by_range
from agent.assignors.claims import generation_data, remembered_data
from agent.assignors.cooperative_sticky import assign_cooperative_sticky
from agent.assignors.model import Assignment, Assignor, Member
from agent.assignors.round_robin import assign_round_robin
from agent.assignors.sticky import assign_sticky

__all__ = ["BUILT_IN", "Assignment", "Assignor", "Member", "chosen"]

BUILT_IN: Final[Mapping[str, Assignor]] = {
    each.name: each
    for each in (
        Assignor("range", assign_by_range),
        Assignor("roundrobin", assign_round_robin),
        Assignor("sticky", assign_sticky, user_data=remembered_data),
        Assignor("cooperative-sticky", assign_cooperative_sticky, is_cooperative=True, user_data=generation_data),
    )
}


def chosen(assignors: Sequence[str | Assignor]) -> tuple[Assignor, ...]:
    """Return the assignors in order of preference, names looked up in BUILT_IN.

    Raises:
        ValueError: when there is none, one is unknown, or two have one name.
    """
    if isinstance(assignors, str) or not assignors:
        raise ValueError("assignors is a non-empty list of names or Assignor values, the preferred one first")
    unknown = [each for each in assignors if isinstance(each, str) and each not in BUILT_IN]
    if unknown:
        raise ValueError(f"no assignor is called {unknown[0]!r}; there are {', '.join(BUILT_IN)}")
    found = tuple(BUILT_IN[each] if isinstance(each, str) else each for each in assignors)
    if len({each.name for each in found}) < len(found):
        raise ValueError("two assignors have the same name")
    return found
