"""Group states and the table of legal transitions between them, which every change of a group's state is looked up in.

The diagram in ARCHITECTURE.md is printed from `TRANSITIONS`, and a test compares the two.

Requests of one group are decided sequentially. A transition is effective at once; replies are sent when it is stored.
No decision unloads a group: an unloaded shard discards its groups, and its next owner loads them.

Source: protocol.md section 13 (loading); Kafka's ``ClassicGroupState``.
"""

from enum import StrEnum


class GroupState(StrEnum):
    """The state of a group; the values are Kafka's names."""

    EMPTY = "Empty"
    """No members. The group exists, with or without offsets, from a join without a member id, a commit with generation
    -1, or an operator's request on (`GroupCreated`).

    * a member joins (not a pending one) → PreparingRebalance (`RebalanceStarted`)
    * deleted, or retired with its last offset → Dead (`GroupDied`)
    """

    PREPARING_REBALANCE = "PreparingRebalance"
    """The join phase: members rejoin, and wait for the others. No trigger starts another one.

    * all members have joined, or the phase timed out → CompletingRebalance (`GenerationStarted`)
    * no member is left → Empty (`GroupEmptied`)
    """

    COMPLETING_REBALANCE = "CompletingRebalance"
    """A generation without an assignment: followers' syncs wait for the leader's.

    * the leader syncs → Stable (`AssignmentAccepted`)
    * a trigger (`records.Trigger`; of `partitions_changed` only a deleted topic) → PreparingRebalance
    """

    STABLE = "Stable"
    """Every member has its assignment.

    * a trigger, among them `leader_rejoined` in this state only → PreparingRebalance
    """

    DEAD = "Dead"
    """The group does not exist, any more or yet; what `decide` answers then differs from an Empty group."""


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
