"""The retention rule: when a committed offset expires, and when a group can be retired.

Rules:

* The group decides whether its offsets can expire, and from when the retention counts: an Empty group's from when it
  became Empty (a later administrative commit does not extend it), a simple group's and an unsubscribed topic's from
  the offset's own commit.
* An offset with an expiry of its own expires then *instead*, in the same cases.
* In every other case (the group rebalances, its subscription is unknown, it has members of another type than
  "consumer") offsets are kept.
* A negative retention is unlimited. An own expiry still applies, because it replaces the retention.
* An Empty group without offsets can be retired.

The coordinator applies the rule to each candidate of a proposal. `spark_jobs.rules.retention` has the same rule as
Spark column expressions, and a property test compares the two.

Source: protocol.md section 10.4; KIP-211, KIP-496; Kafka's ``ClassicGroup.offsetExpirationCondition``.
"""

from dataclasses import dataclass
from enum import StrEnum

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.states import EMPTY, STABLE, GroupState

NO_EXPIRY = -1
"""Unlimited retention; every negative number means the same."""

MINUTE_MS = 60_000


class ExpiryReason(StrEnum):
    """Why an offset may expire; the values appear in proposals."""

    GROUP_EMPTY = "group_empty"
    SIMPLE_GROUP = "simple_group"
    TOPIC_UNSUBSCRIBED = "topic_unsubscribed"
    OWN_EXPIRY = "own_expiry"


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """The rule's inputs about a group.

    `state_since_ms` is wall time, None if it was never stored. `subscribed_topics` is None if unknown.
    """

    state: GroupState
    protocol_type: str | None
    state_since_ms: int | None
    subscribed_topics: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class OffsetFacts:
    """The rule's inputs about an offset; instants are wall time, and `expires_at_ms` is its own expiry or None."""

    topic: str
    committed_at_ms: int
    expires_at_ms: int | None = None


NO_GROUP = GroupFacts(EMPTY, None, None, frozenset())
"""Offsets without a group row belong to a simple group, which only stores offsets."""


def is_expired(group: GroupFacts, offset: OffsetFacts, retention_ms: int, now_ms: int) -> ExpiryReason | None:
    """Return why the offset has expired at `now_ms`, or None if it has not."""
    due = due_at(group, offset, retention_ms)
    if due is None or now_ms < due[0]:
        return None
    return due[1]


def due_at(group: GroupFacts, offset: OffsetFacts, retention_ms: int) -> tuple[int, ExpiryReason] | None:
    """Return when the offset expires and why, if the group stays as it is.

    Returns:
        (wall time in ms, reason), or None if it never does.
    """
    basis = _expiry_basis(group, offset)
    if basis is None:
        return None
    if offset.expires_at_ms is not None:
        return offset.expires_at_ms, ExpiryReason.OWN_EXPIRY
    if retention_ms < 0:
        return None
    since_ms, reason = basis
    return since_ms + retention_ms, reason


def is_unused(state: GroupState, *, has_offsets: bool) -> bool:
    """Return whether the group can be retired, whatever its age."""
    return state is EMPTY and not has_offsets


def retention_ms_from_minutes(minutes: int) -> int:
    """Return the setting `offsets_retention_minutes` in milliseconds; a negative value stays unlimited."""
    return NO_EXPIRY if minutes < 0 else minutes * MINUTE_MS


def _expiry_basis(group: GroupFacts, offset: OffsetFacts) -> tuple[int, ExpiryReason] | None:
    """Return since when the offset is unused and why, or None if it is in use."""
    if group.state is EMPTY and group.protocol_type is None:
        return offset.committed_at_ms, ExpiryReason.SIMPLE_GROUP
    if group.state is EMPTY:
        since_ms = group.state_since_ms
        return (offset.committed_at_ms if since_ms is None else since_ms), ExpiryReason.GROUP_EMPTY
    if _is_unsubscribed(group, offset.topic):
        return offset.committed_at_ms, ExpiryReason.TOPIC_UNSUBSCRIBED
    return None


def _is_unsubscribed(group: GroupFacts, topic: str) -> bool:
    if group.state is not STABLE or group.protocol_type != CONSUMER:
        return False
    return group.subscribed_topics is not None and topic not in group.subscribed_topics
