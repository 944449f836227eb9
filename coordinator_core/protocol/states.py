"""Group states and the table of legal transitions between them.

The diagram in ARCHITECTURE.md is printed from `TRANSITIONS`, and a test compares the two.

Source: protocol.md section 2; Kafka's ``ClassicGroupState``.
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD

TRANSITIONS: dict[GroupState, dict[GroupState, str]] = {
    EMPTY: {
        PREPARING: "first member added",
        DEAD: "last offset removed, deleted, or unloaded",
    },
    PREPARING: {
        COMPLETING: "join phase ends with members",
        EMPTY: "join phase ends without members",
        DEAD: "unloaded",
    },
    COMPLETING: {
        STABLE: "leader's assignment accepted",
        PREPARING: "member added, changed, replaced or removed, topic deleted",
        DEAD: "unloaded",
    },
    STABLE: {
        PREPARING: "member added, changed or removed, leader rejoined, partitions changed",
        DEAD: "unloaded",
    },
    DEAD: {},
}
"""from → to → cause; every other transition is illegal."""

MAY_REBALANCE = frozenset({EMPTY, COMPLETING, STABLE})


def is_legal(source: GroupState, target: GroupState) -> bool:
    """Return whether the table has a transition from `source` to `target`."""
    return target in TRANSITIONS[source]


def mermaid() -> str:
    """Return the table as the body of a Mermaid state diagram, one arrow a line, in table order."""
    arrows = [
        f"    {source} --> {target}: {cause}"
        for source, targets in TRANSITIONS.items()
        for target, cause in targets.items()
    ]
    return "\n".join(["stateDiagram-v2", "    [*] --> Empty: first join or simple commit", *arrows, "    Dead --> [*]"])
