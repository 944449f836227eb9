"""Minimum number of partitions that must move until an assignment is as good as subscriptions allow.

Rules:

* What a member owned and may still own is *kept* as far as it gets as many of the topic again: partitions of one topic
  are interchangeable, so it would get the same ones.
* What is not kept has moved. Partitions without a former owner do not count as moved.
* Among all best assignments (see `best_loads`), the one that keeps most is reached from any of them by *exchanges*:
  cycles in which every member passes one partition on and gets another, or chains between two members whose loads
  differ by one, which swap. If no single exchange keeps more, no combination of exchanges does.

Source: Klein's cycle-cancelling algorithm for flows of least cost; costs are convex, so single steps suffice.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from coordinator_core.analytics.best_loads import AssignmentProblem, Shares, Spread, best_spread

ARCS_MAX: Final = 20_000
"""Groups with more pairs of member and topic get a weaker lower bound, as the search would take too long."""


def fewest_moves(wanted: AssignmentProblem, held: Shares) -> int:
    """Return how many of the owned partitions must move at least; those of former members do not count.

    Args:
        wanted: The partitions and their subscribers.
        held: What each member owned and may still own.
    """
    held_count = sum(sum(share.values()) for share in held)
    if wanted.is_uniform():
        return held_count - _kept_where_all_are_alike(wanted, held)
    if sum(len(takers) for takers in wanted.takers.values()) > ARCS_MAX:
        return 0
    spread = best_spread(wanted, held)
    while exchange := _exchange(wanted, spread, held):
        for giver, topic, taker in exchange:
            spread.move(giver, topic, taker)
    return held_count - sum(
        min(count, share.get(topic, 0))
        for own, share in zip(held, spread.shares, strict=True)
        for topic, count in own.items()
    )


def _kept_where_all_are_alike(wanted: AssignmentProblem, held: Shares) -> int:
    """Return how many stay if every member may own everything: a full share each, a larger one while there are any."""
    small, larger_count = divmod(sum(wanted.counts.values()), wanted.member_count)
    sizes = [sum(share.values()) for share in held]
    return sum(min(size, small) for size in sizes) + min(larger_count, sum(size > small for size in sizes))


# -- the search for an exchange ---------------------------------------------------------------------------------

Node = tuple[str, int | str]
"""A member, a topic, or a load whose members may swap with those of the next larger load."""


class Arc(NamedTuple):
    """A step of an exchange with its cost: 1 if a kept partition moves away, -1 if one moves back."""

    tail: Node
    head: Node
    cost: int


def _exchange(wanted: AssignmentProblem, spread: Spread, held: Shares) -> list[tuple[int, str, int]]:
    """Return the moves of an exchange after which more is kept; empty if there is none."""
    arcs = list(chain(_topic_arcs(wanted, spread, held), _load_arcs(spread)))
    cycle = _negative_cycle(arcs)
    # A cycle may begin anywhere: turned until a member gives, each topic in it stands between giver and taker.
    steps = [node for node in cycle if node[0] != "load"]
    start = next((place for place, node in enumerate(steps) if node[0] == "topic"), 0) - 1
    turned = [*steps[start:], *steps[:start]] if steps else []
    return [
        (int(turned[place - 1][1]), str(node[1]), int(turned[(place + 1) % len(turned)][1]))
        for place, node in enumerate(turned)
        if node[0] == "topic"
    ]


def _topic_arcs(wanted: AssignmentProblem, spread: Spread, held: Shares) -> Iterator[Arc]:
    for topic, takers in wanted.takers.items():
        for member in takers:
            has, had = spread.shares[member].get(topic, 0), held[member].get(topic, 0)
            if has:
                yield Arc(("member", member), ("topic", topic), int(has <= had))
            yield Arc(("topic", topic), ("member", member), -int(has < had))


def _load_arcs(spread: Spread) -> Iterator[Arc]:
    """Yield arcs that swap a chain's last member, which has one less, with its first."""
    for member, load in enumerate(spread.loads):
        yield Arc(("member", member), ("load", load), 0)
        yield Arc(("load", load - 1), ("member", member), 0)


def _negative_cycle(arcs: list[Arc]) -> list[Node]:
    """Return the nodes of a cycle of negative cost, in order; empty if there is none (Bellman and Ford)."""
    distances: dict[Node, int] = {}
    before: dict[Node, Node] = {}
    has_changed = True
    while has_changed:
        has_changed = False
        for tail, head, cost in arcs:
            distance = distances.get(tail, 0) + cost
            if distance < distances.get(head, 0):
                distances[head], before[head] = distance, tail
                has_changed = True
        if has_changed and (cycle := _cycle_in(before)):
            return cycle
    return []


def _cycle_in(before: dict[Node, Node]) -> list[Node]:
    """Return a cycle among the predecessors of the nodes; such a cycle has negative cost."""
    seen: set[Node] = set()
    for start in before:
        path: dict[Node, None] = {}
        node: Node | None = start
        while node is not None and node not in seen:
            seen.add(node)
            path[node] = None
            node = before.get(node)
        if node is not None and node in path:
            nodes = list(path)
            return nodes[nodes.index(node) :][::-1]
    return []
