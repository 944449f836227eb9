"""An offset is given up when its group has no more use for it, and this module is the whole rule.

Rules:

* What the group is decides whether its offset can expire at all, and from when its retention runs:
  an Empty group's from when it became Empty (a later administrative commit does not prolong it), a simple
  group's and an unsubscribed topic's from the offset's own commit.
* An offset with an expiry of its own goes by that *instead of* the retention test, in the same cases.
* Whatever else is true of a group (it rebalances, its subscription is unknown, it is not a "consumer" group
  and has members), its offsets stay.
* A retention below zero is for ever. An own expiry still counts then, because it replaces the retention test.
* An Empty group that has no offset left is given up too.

The coordinator judges a candidate by this rule when a proposal is applied. `spark_jobs.rules.retention` says the
same in Spark's column expressions, and a property test holds the two equal.

Source: protocol.md section 10.4; KIP-211, KIP-496; Kafka's ``ClassicGroup.offsetExpirationCondition``.
"""

from dataclasses import dataclass
from enum import StrEnum

from coordinator_core.protocol.states import EMPTY, STABLE, GroupState

CONSUMER = "consumer"
"""The protocol type whose subscriptions the coordinator reads."""

FOR_EVER = -1
"""The retention that never ends; any number below zero means the same."""

MINUTE_MS = 60_000


class ExpiryReason(StrEnum):
    """Why an offset may go; the values are what proposals and archives carry."""

    GROUP_EMPTY = "group_empty"
    SIMPLE_GROUP = "simple_group"
    TOPIC_UNSUBSCRIBED = "topic_unsubscribed"
    OWN_EXPIRY = "own_expiry"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """What the rule asks about a group.

    `state_since_ms` is wall time, None when it was never stored. `subscribed_topics` is None when unknown.
    """

    state: GroupState
    protocol_type: str | None
    state_since_ms: int | None
    subscribed_topics: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class OffsetFacts:
    """What the rule asks about an offset; instants are wall time, and `expires_at_ms` is its own or None."""

    topic: str
    committed_at_ms: int
    expires_at_ms: int | None = None


NO_GROUP = GroupFacts(EMPTY, None, None, frozenset())
"""An offset whose group has no row belongs to a simple group: storage that nobody joined."""


def is_expired(group: GroupFacts, offset: OffsetFacts, retention_ms: int, now_ms: int) -> ExpiryReason | None:
    """Tell why the offset is past its time at `now_ms`, or None when it stays."""
    due = due_at(group, offset, retention_ms)
    if due is None or now_ms < due[0]:
        return None
    return due[1]


def due_at(group: GroupFacts, offset: OffsetFacts, retention_ms: int) -> tuple[int, ExpiryReason] | None:
    """Tell when the offset's time ends and why, if the group stays as it is.

    Returns:
        (wall time in ms, reason), or None when it never ends.
    """
    ground = _ground(group, offset)
    if ground is None:
        return None
    if offset.expires_at_ms is not None:
        return offset.expires_at_ms, ExpiryReason.OWN_EXPIRY
    if retention_ms < 0:
        return None
    since_ms, reason = ground
    return since_ms + retention_ms, reason


def is_of_no_use(state: GroupState, *, has_offsets: bool) -> bool:
    """Tell whether a group has nothing left to be kept for, however young it is."""
    return state is EMPTY and not has_offsets


def retention_ms_from_minutes(minutes: int) -> int:
    """Turn the setting `offsets_retention_minutes` into milliseconds; below zero stays for ever."""
    return FOR_EVER if minutes < 0 else minutes * MINUTE_MS


def _ground(group: GroupFacts, offset: OffsetFacts) -> tuple[int, ExpiryReason] | None:
    """Tell since when the offset has been of no use and why, or None while it is of use."""
    if group.state is EMPTY and group.protocol_type is None:
        return offset.committed_at_ms, ExpiryReason.SIMPLE_GROUP
    if group.state is EMPTY:
        since_ms = group.state_since_ms
        return (offset.committed_at_ms if since_ms is None else since_ms), ExpiryReason.GROUP_EMPTY
    if _has_left_topic(group, offset.topic):
        return offset.committed_at_ms, ExpiryReason.TOPIC_UNSUBSCRIBED
    return None


def _has_left_topic(group: GroupFacts, topic: str) -> bool:
    if group.state is not STABLE or group.protocol_type != CONSUMER:
        return False
    return group.subscribed_topics is not None and topic not in group.subscribed_topics
