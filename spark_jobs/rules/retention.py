"""The retention rule as Spark column expressions: row by row the same answer as the pure function's.

Every argument and result is a column over one row that joins an offset with what is known of its group. Instants are
`timestamp` columns in and milliseconds out, cut down as the coordinator cuts them.

Source: coordinator_core/protocol/retention.py, to which a property test compares this module.
"""

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as sf

from coordinator_core.protocol.retention import CONSUMER, FOR_EVER, MINUTE_MS, ExpiryReason
from coordinator_core.protocol.states import EMPTY, STABLE


@dataclass(frozen=True, slots=True)
class RetentionFacts:
    """The columns that the rule asks for; `state` is NULL when the offset's group has no row (a simple group)."""

    state: Column
    protocol_type: Column
    state_since: Column
    subscribed_topics: Column
    topic: Column
    committed_at: Column
    expires_at: Column


def due_at_ms(facts: RetentionFacts, retention_ms: Column) -> Column:
    """Say when the offset's time ends if the group stays as it is, NULL when it never ends."""
    by_retention = sf.when(retention_ms >= 0, _unused_since_ms(facts) + retention_ms)
    by_own_expiry = sf.unix_millis(facts.expires_at)
    return sf.when(_ground(facts).isNotNull(), sf.coalesce(by_own_expiry, by_retention))


def expiry_reason(facts: RetentionFacts) -> Column:
    """Say why an offset whose time ends is given up then; of one whose time never ends this says nothing."""
    return sf.when(facts.expires_at.isNotNull(), ExpiryReason.OWN_EXPIRY.value).otherwise(_ground(facts))


def is_of_no_use(state: Column, has_offsets: Column) -> Column:
    """Say whether a group has nothing left to be kept for, however young it is."""
    return (state == EMPTY.value) & ~has_offsets


def retention_ms_from_setting(value: Column) -> Column:
    """Turn the text of `offsets_retention_minutes` into milliseconds, NULL where it is not set.

    What cannot be read as a number keeps offsets for ever: a typing error must not expire anything.
    """
    minutes = value.try_cast("int").cast("long")
    for_ever = sf.lit(FOR_EVER).cast("long")
    return sf.when(value.isNotNull(), sf.when(minutes >= 0, minutes * sf.lit(MINUTE_MS)).otherwise(for_ever))


def _ground(facts: RetentionFacts) -> Column:
    """Name the case in which the offset is of no use to its group, NULL while it is of use."""
    is_empty = facts.state == EMPTY.value
    has_type = facts.protocol_type.isNotNull()
    return (
        sf.when(facts.state.isNull() | (is_empty & ~has_type), ExpiryReason.SIMPLE_GROUP.value)
        .when(is_empty, ExpiryReason.GROUP_EMPTY.value)
        .when(_has_left_topic(facts), ExpiryReason.TOPIC_UNSUBSCRIBED.value)
    )


def _has_left_topic(facts: RetentionFacts) -> Column:
    # An unknown subscription is NULL, and so is whatever is asked of it; `when` takes NULL for no.
    is_unread = ~sf.array_contains(facts.subscribed_topics, facts.topic)
    return (facts.state == STABLE.value) & (facts.protocol_type == CONSUMER) & is_unread


def _unused_since_ms(facts: RetentionFacts) -> Column:
    since = sf.when(_ground(facts) == ExpiryReason.GROUP_EMPTY.value, facts.state_since)
    return sf.unix_millis(sf.coalesce(since, facts.committed_at))
