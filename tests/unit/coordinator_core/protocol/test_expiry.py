"""Deadlines of members, handshake ids and the sync phase.

Source: protocol.md sections 9.4, 9.5 and 18.
"""

import pytest

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, Removal, Trigger
from coordinator_core.protocol.requests import DeadlineKind
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    A,
    B,
    ask,
    completing,
    empty,
    expire,
    fresh,
    join,
    member,
    nobody_saw,
    preparing,
    reply,
    stable,
    tell,
    timed,
    told,
    window,
)

SYNC_LIMIT = expire(DeadlineKind.SYNC)


# -- sessions ---------------------------------------------------------------------------------------------


def test_silence_is_expelled_and_rebalances() -> None:
    decision = ask(stable(), expire(DeadlineKind.MEMBER, "b"))
    removed, started = decision.records
    assert isinstance(removed, MemberRemoved)
    assert isinstance(started, RebalanceStarted)
    assert (removed.member_id, removed.removal) == ("b", Removal.SESSION_EXPIRED)
    assert (started.trigger, started.member_id) == (Trigger.SESSION_EXPIRED, "b")


def test_a_static_member_s_silence_is_expelled_too() -> None:
    assert ask(stable(), expire(DeadlineKind.MEMBER, "s")).group.static_members == {}


def test_silence_while_the_leader_assigns_sends_the_waiting_back() -> None:
    decision = ask(completing(synced=["b"]), expire(DeadlineKind.MEMBER, "s"))
    assert told(decision) == ["b.sync REBALANCE_IN_PROGRESS"]


@pytest.mark.parametrize("group", [preparing(joined=["b"]), completing(synced=["b"])], ids=["join", "sync"])
def test_a_member_that_waits_is_not_silent(group: Group) -> None:
    assert ask(group, expire(DeadlineKind.MEMBER, "b")).group is group


def test_a_newcomer_that_has_waited_for_too_long_goes() -> None:
    decision = ask(preparing(newcomers=[member("n")]), expire(DeadlineKind.MEMBER, "n"))
    assert told(decision) == ["n.join UNKNOWN_MEMBER_ID"]
    assert reply(decision, 14).member_id == ""


def test_a_newcomer_s_time_is_the_new_member_timeout_in_force() -> None:
    settings = GroupSettings(group_new_member_join_timeout_ms=9_000)
    assert timed(ask(empty(pending=["h"]), join("h"), settings))["member:h"] == 9_000


def test_silence_in_a_join_phase_may_end_it() -> None:
    assert told(ask(preparing(joined=["a", "s"]), expire(DeadlineKind.MEMBER, "b"))) == [
        "a.join Joined",
        "s.join Joined",
    ]


def test_when_the_only_member_falls_silent_the_group_is_empty_at_once() -> None:
    decision = ask(stable(A), expire(DeadlineKind.MEMBER, "a"))
    assert tell(decision) == (
        "Empty 8; nobody; MemberRemoved RebalanceStarted GroupEmptied; member:a=off sync=off join=off"
    )


# -- handshake ids ------------------------------------------------------------------------------------------


def test_an_unused_handshake_id_is_dropped() -> None:
    assert tell(ask(fresh(["h"]), expire(DeadlineKind.HANDSHAKE, "h"))) == "Empty 0; nobody; MemberIdDropped; no timer"


def test_a_handshake_id_that_runs_out_may_end_the_join_phase() -> None:
    decision = ask(preparing(A, B, joined=["a", "b"], pending=["h"]), expire(DeadlineKind.HANDSHAKE, "h"))
    assert told(decision) == ["a.join Joined", "b.join Joined"]


# -- the sync limit ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [completing(synced=["a"]), stable(late=["b", "s"])], ids=["Completing", "Stable"])
def test_at_the_sync_limit_all_who_have_not_synced_go_static_ones_too(group: Group) -> None:
    decision = ask(group, SYNC_LIMIT)
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert [(record.member_id, record.removal) for record in removed] == [
        ("b", Removal.SYNC_TIMEOUT),
        ("s", Removal.SYNC_TIMEOUT),
    ]
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    assert (started.trigger, started.member_id) == (Trigger.SYNC_TIMEOUT, "b")


def test_the_sync_limit_can_be_told_to_spare_static_members() -> None:
    """Setting `group_sync_timeout_scope`: SEED-08s."""
    settings = GroupSettings(group_sync_timeout_scope="dynamic")
    assert list(ask(stable(late=["b", "s"]), SYNC_LIMIT, settings).group.members) == ["a", "s"]
    group = stable(late=["s"])
    assert ask(group, SYNC_LIMIT, settings).group is group


@pytest.mark.parametrize(("rebalance_ms", "again_ms"), [(60_000, 60_000), (0, 1_000)])
def test_whoever_the_sync_limit_spares_is_looked_at_again(rebalance_ms: int, again_ms: int) -> None:
    """The setting may have been taken back by then."""
    group = stable(A, member("s", "S", rebalance_ms=rebalance_ms), late=["s"])
    settings = GroupSettings(rebalance_timeout_ms=rebalance_ms, group_sync_timeout_scope="dynamic")
    spared = ask(group, SYNC_LIMIT, settings)
    assert timed(spared) == {"sync": again_ms}
    assert list(ask(spared.group, SYNC_LIMIT).group.members) == ["a"]


@pytest.mark.parametrize("group", [stable(), preparing(), empty()], ids=lambda group: str(group.state))
def test_the_sync_limit_means_nothing_where_no_sync_is_awaited(group: Group) -> None:
    assert ask(group, SYNC_LIMIT).group is group


# -- deadlines that come too late ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [DeadlineKind.SYNC, DeadlineKind.MEMBER, DeadlineKind.HANDSHAKE])
@pytest.mark.parametrize("group", [nobody_saw(), empty(), window(A)], ids=["no group", "Empty", "window"])
def test_a_deadline_of_somebody_who_is_gone_changes_nothing(group: Group, kind: DeadlineKind) -> None:
    decision = ask(group, expire(kind, "x"))
    assert decision.group is group
    assert (decision.records, decision.replies) == ((), ())
