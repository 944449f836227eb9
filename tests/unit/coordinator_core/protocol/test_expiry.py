"""Deadlines of members, pending members and the sync phase.

Source: protocol.md sections 9.4, 9.5 and 18.
"""

import pytest

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, RemovalReason, Trigger
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    A,
    B,
    completing,
    decided,
    delayed,
    empty,
    expire,
    fresh,
    join,
    member,
    preparing,
    replies_of,
    reply,
    stable,
    summary_of,
    timed,
    unknown_group,
)

SYNC_LIMIT = expire(DeadlineKind.SYNC)


# -- sessions ---------------------------------------------------------------------------------------------


def test_expired_session_evicts_the_member_and_starts_a_rebalance() -> None:
    decision = decided(stable(), expire(DeadlineKind.SESSION, "b"))
    removed, started = decision.records
    assert isinstance(removed, MemberRemoved)
    assert isinstance(started, RebalanceStarted)
    assert (removed.member_id, removed.removal_reason) == ("b", RemovalReason.SESSION_EXPIRED)
    assert (started.trigger, started.member_id) == (Trigger.SESSION_EXPIRED, "b")


def test_expired_session_of_a_static_member_evicts_it() -> None:
    assert decided(stable(), expire(DeadlineKind.SESSION, "s")).group.static_members == {}


def test_session_expiry_in_the_sync_phase_answers_parked_syncs() -> None:
    decision = decided(completing(synced=["b"]), expire(DeadlineKind.SESSION, "s"))
    assert replies_of(decision) == ["b.sync REBALANCE_IN_PROGRESS"]


@pytest.mark.parametrize("group", [preparing(joined=["b"]), completing(synced=["b"])], ids=["join", "sync"])
def test_session_of_a_member_with_a_parked_request_does_not_expire(group: Group) -> None:
    assert decided(group, expire(DeadlineKind.SESSION, "b")).group is group


def test_new_member_that_waits_too_long_is_removed() -> None:
    decision = decided(preparing(new_members=[member("n")]), expire(DeadlineKind.SESSION, "n"))
    assert replies_of(decision) == ["n.join UNKNOWN_MEMBER_ID"]
    assert reply(decision, 14).member_id == ""
    (removed,) = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert removed.removal_reason is RemovalReason.NEW_MEMBER_TIMEOUT
    assert removed.removal_reason.trigger is Trigger.SESSION_EXPIRED


def test_new_member_timeout_is_the_effective_one() -> None:
    settings = GroupSettings(group_new_member_join_timeout_ms=9_000)
    assert timed(decided(empty(pending=["h"]), join("h"), settings))["session:h"] == 9_000


def test_expiry_in_a_join_phase_may_end_it() -> None:
    assert replies_of(decided(preparing(joined=["a", "s"]), expire(DeadlineKind.SESSION, "b"))) == [
        "a.join JoinGroupResponse",
        "s.join JoinGroupResponse",
    ]


def test_group_is_empty_at_once_when_its_only_member_expires() -> None:
    decision = decided(stable(A), expire(DeadlineKind.SESSION, "a"))
    assert summary_of(decision) == (
        "Empty 8; no reply; MemberRemoved RebalanceStarted GroupEmptied; session:a=off sync=off join=off"
    )


# -- pending member ids ------------------------------------------------------------------------------------------


def test_an_unused_pending_member_id_is_dropped() -> None:
    assert (
        summary_of(decided(fresh(["h"]), expire(DeadlineKind.PENDING_MEMBER, "h")))
        == "Empty 0; no reply; PendingMemberRemoved; no timer"
    )


def test_expired_pending_member_id_may_end_the_join_phase() -> None:
    decision = decided(preparing(A, B, joined=["a", "b"], pending=["h"]), expire(DeadlineKind.PENDING_MEMBER, "h"))
    assert replies_of(decision) == ["a.join JoinGroupResponse", "b.join JoinGroupResponse"]


# -- the sync limit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [completing(synced=["a"]), stable(late=["b", "s"])], ids=["Completing", "Stable"])
def test_sync_timeout_evicts_static_members_too(group: Group) -> None:
    decision = decided(group, SYNC_LIMIT)
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert [(record.member_id, record.removal_reason) for record in removed] == [
        ("b", RemovalReason.SYNC_TIMEOUT),
        ("s", RemovalReason.SYNC_TIMEOUT),
    ]
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert (started.trigger, started.member_id) == (Trigger.SYNC_TIMEOUT, "b")


def test_sync_timeout_can_exclude_static_members() -> None:
    """Setting `group_sync_timeout_scope`: SEED-08s."""
    settings = GroupSettings(group_sync_timeout_scope="dynamic")
    assert list(decided(stable(late=["b", "s"]), SYNC_LIMIT, settings).group.members) == ["a", "s"]
    group = stable(late=["s"])
    assert decided(group, SYNC_LIMIT, settings).group is group


@pytest.mark.parametrize(("rebalance_ms", "again_ms"), [(60_000, 60_000), (0, 1_000)])
def test_members_excluded_from_the_sync_timeout_are_checked_again(rebalance_ms: int, again_ms: int) -> None:
    """The setting may have been taken back by then."""
    group = stable(A, member("s", "S", rebalance_ms=rebalance_ms), late=["s"])
    settings = GroupSettings(rebalance_timeout_ms=rebalance_ms, group_sync_timeout_scope="dynamic")
    spared = decided(group, SYNC_LIMIT, settings)
    assert timed(spared) == {"sync": again_ms}
    assert list(decided(spared.group, SYNC_LIMIT).group.members) == ["a"]


@pytest.mark.parametrize("group", [stable(), preparing(), empty()], ids=lambda group: str(group.state))
def test_sync_timer_is_ignored_without_pending_syncs(group: Group) -> None:
    assert decided(group, SYNC_LIMIT).group is group


# -- deadlines that come too late ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DeadlineKind.SYNC, DeadlineKind.SESSION, DeadlineKind.PENDING_MEMBER])
@pytest.mark.parametrize("group", [unknown_group(), empty(), delayed(A)], ids=["no group", "Empty", "window"])
def test_timer_of_a_removed_member_changes_nothing(group: Group, kind: DeadlineKind) -> None:
    decision = decided(group, expire(kind, "x"))
    assert decision.group is group
    assert (decision.records, decision.replies) == ((), ())
