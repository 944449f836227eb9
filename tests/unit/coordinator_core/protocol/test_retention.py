"""The retention rule, one sentence at a time."""

import pytest

from coordinator_core.protocol.retention import (
    NO_EXPIRY,
    NO_GROUP,
    ExpiryReason,
    GroupFacts,
    OffsetFacts,
    due_at,
    is_expired,
    retention_ms_from_minutes,
)
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState

RETENTION_MS = 60_000
NOW_MS = 10_000_000
LONG_AGO_MS = NOW_MS - 50 * RETENTION_MS
JUST_NOW_MS = NOW_MS - 1
DUE_MS = NOW_MS - RETENTION_MS


def group(
    state: GroupState = EMPTY,
    protocol_type: str | None = "consumer",
    state_since_ms: int | None = LONG_AGO_MS,
    subscribed_topics: frozenset[str] | None = frozenset(),
) -> GroupFacts:
    return GroupFacts(state, protocol_type, state_since_ms, subscribed_topics)


def offset(committed_at_ms: int = LONG_AGO_MS, expires_at_ms: int | None = None) -> OffsetFacts:
    return OffsetFacts("orders", committed_at_ms, expires_at_ms)


def judge(facts: GroupFacts, of: OffsetFacts, retention_ms: int = RETENTION_MS) -> ExpiryReason | None:
    return is_expired(facts, of, retention_ms, NOW_MS)


def test_offsets_of_a_group_empty_for_the_retention_expire() -> None:
    assert judge(group(state_since_ms=DUE_MS), offset()) is ExpiryReason.GROUP_EMPTY
    assert judge(group(state_since_ms=DUE_MS + 1), offset()) is None


def test_a_commit_to_an_empty_group_does_not_prolong_its_offsets() -> None:
    """As in Kafka: RT-09."""
    assert judge(group(), offset(committed_at_ms=JUST_NOW_MS)) is ExpiryReason.GROUP_EMPTY


def test_an_empty_group_of_another_protocol_type_expires_alike() -> None:
    assert judge(group(protocol_type="connect"), offset()) is ExpiryReason.GROUP_EMPTY


def test_retention_of_an_empty_group_without_a_stored_time_counts_from_the_commit() -> None:
    unknown_since = group(state_since_ms=None)
    assert judge(unknown_since, offset(committed_at_ms=DUE_MS)) is ExpiryReason.GROUP_EMPTY
    assert judge(unknown_since, offset(committed_at_ms=DUE_MS + 1)) is None


@pytest.mark.parametrize("simple", [group(protocol_type=None), NO_GROUP], ids=["group", "no group row"])
def test_retention_of_a_simple_group_counts_from_the_commit(simple: GroupFacts) -> None:
    """As in Kafka: RT-10."""
    assert judge(simple, offset(committed_at_ms=DUE_MS)) is ExpiryReason.SIMPLE_GROUP
    assert judge(simple, offset(committed_at_ms=DUE_MS + 1)) is None


def test_stable_group_keeps_subscribed_offsets_of_any_age() -> None:
    assert judge(group(STABLE, subscribed_topics=frozenset({"orders"})), offset()) is None


def test_unsubscribed_offsets_of_a_stable_group_expire() -> None:
    reads_another = group(STABLE, state_since_ms=JUST_NOW_MS, subscribed_topics=frozenset({"payments"}))
    assert judge(reads_another, offset(committed_at_ms=DUE_MS)) is ExpiryReason.TOPIC_UNSUBSCRIBED
    assert judge(reads_another, offset(committed_at_ms=DUE_MS + 1)) is None


@pytest.mark.parametrize(
    "protected",
    [
        group(PREPARING, subscribed_topics=frozenset()),
        group(COMPLETING, subscribed_topics=frozenset()),
        group(PREPARING, protocol_type=None),
        group(DEAD),
        group(STABLE, protocol_type="connect", subscribed_topics=None),
        group(STABLE, protocol_type="connect", subscribed_topics=frozenset()),
        group(STABLE, subscribed_topics=None),
    ],
    ids=["preparing", "completing", "preparing, no type", "dead", "connect", "connect, empty", "unknown subscription"],
)
@pytest.mark.parametrize("own_expiry_ms", [None, LONG_AGO_MS])
def test_offsets_of_protected_groups_never_expire(protected: GroupFacts, own_expiry_ms: int | None) -> None:
    """As in Kafka: RT-04, RT-08, RT-12, RT-13."""
    assert judge(protected, offset(expires_at_ms=own_expiry_ms)) is None


def test_an_own_expiry_replaces_the_retention_test() -> None:
    """As in Kafka: RT-06."""
    assert judge(group(), offset(expires_at_ms=NOW_MS)) is ExpiryReason.OWN_EXPIRY
    assert judge(group(), offset(expires_at_ms=NOW_MS + 1)) is None
    assert judge(NO_GROUP, offset(committed_at_ms=JUST_NOW_MS, expires_at_ms=NOW_MS)) is ExpiryReason.OWN_EXPIRY


def test_an_own_expiry_waits_while_the_topic_is_read() -> None:
    """As in Kafka: RT-06."""
    reads = group(STABLE, subscribed_topics=frozenset({"orders"}))
    leaves = group(STABLE, subscribed_topics=frozenset())
    assert judge(reads, offset(expires_at_ms=LONG_AGO_MS)) is None
    assert judge(leaves, offset(expires_at_ms=LONG_AGO_MS)) is ExpiryReason.OWN_EXPIRY


def test_negative_retention_is_unlimited_except_for_own_expiries() -> None:
    assert judge(group(), offset(), NO_EXPIRY) is None
    assert judge(NO_GROUP, offset(), NO_EXPIRY) is None
    assert judge(group(), offset(expires_at_ms=NOW_MS), NO_EXPIRY) is ExpiryReason.OWN_EXPIRY


def test_expiry_time_is_announced() -> None:
    assert due_at(group(state_since_ms=NOW_MS), offset(), RETENTION_MS) == (
        NOW_MS + RETENTION_MS,
        ExpiryReason.GROUP_EMPTY,
    )
    assert due_at(group(PREPARING), offset(), RETENTION_MS) is None


def test_minutes_become_milliseconds_and_unlimited_is_kept() -> None:
    assert retention_ms_from_minutes(10_080) == 604_800_000
    assert retention_ms_from_minutes(0) == 0
    assert retention_ms_from_minutes(-1) == NO_EXPIRY
