"""The retention rule as Spark column expressions.

Arguments and results are columns of rows that join an offset with its group. Instants are `timestamp` arguments and
millisecond results, truncated as in the coordinator.

Source: coordinator_core/protocol/retention.py, to which a property test compares this module.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from coordinator_core.protocol.consumer_protocol import CONSUMER
from coordinator_core.protocol.retention import MINUTE_MS, NO_EXPIRY, ExpiryReason
from coordinator_core.protocol.states import EMPTY, STABLE


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """The rule's input columns; `state` is NULL if the offset's group has no row (a simple group)."""

    state: Column
    protocol_type: Column
    state_since: Column
    subscribed_topics: Column
    topic: Column
    committed_at: Column
    expires_at: Column


def due_at_ms(facts: RetentionFacts, retention_ms: Column) -> Column:
    """Return when the offset expires if its group does not change; NULL for never."""
    by_retention = sf.when(retention_ms >= 0, _unused_since_ms(facts) + retention_ms)
    by_own_expiry = sf.unix_millis(facts.expires_at)
    return sf.when(_ground(facts).isNotNull(), sf.coalesce(by_own_expiry, by_retention))


def expiry_reason(facts: RetentionFacts) -> Column:
    """Return the reason for an offset's expiry; undefined for one that never expires."""
    return sf.when(facts.expires_at.isNotNull(), ExpiryReason.OWN_EXPIRY.value).otherwise(_ground(facts))


def is_unused(state: Column, has_offsets: Column) -> Column:
    """Return whether a group is Empty and has no offsets."""
    return (state == EMPTY.value) & ~has_offsets


def retention_ms_from_setting(value: Column) -> Column:
    """Convert the text of `offsets_retention_minutes` to milliseconds; NULL if it is not set.

    A value that is not a number keeps offsets forever, so that a typing error expires nothing.
    """
    minutes = value.try_cast("int").cast("long")
    for_ever = sf.lit(NO_EXPIRY).cast("long")
    return sf.when(value.isNotNull(), sf.when(minutes >= 0, minutes * sf.lit(MINUTE_MS)).otherwise(for_ever))


def _ground(facts: RetentionFacts) -> Column:
    """Return the case by which an offset may expire; NULL if none applies."""
    is_empty = facts.state == EMPTY.value
    has_type = facts.protocol_type.isNotNull()
    return (
        sf.when(facts.state.isNull() | (is_empty & ~has_type), ExpiryReason.SIMPLE_GROUP.value)
        .when(is_empty, ExpiryReason.GROUP_EMPTY.value)
        .when(_has_left_topic(facts), ExpiryReason.TOPIC_UNSUBSCRIBED.value)
    )


def _has_left_topic(facts: RetentionFacts) -> Column:
    # An unknown subscription makes the condition NULL, which `when` treats as false.
    is_unread = ~sf.array_contains(facts.subscribed_topics, facts.topic)
    return (facts.state == STABLE.value) & (facts.protocol_type == CONSUMER) & is_unread


def _unused_since_ms(facts: RetentionFacts) -> Column:
    since = sf.when(_ground(facts) == ExpiryReason.GROUP_EMPTY.value, facts.state_since)
    return sf.unix_millis(sf.coalesce(since, facts.committed_at))
