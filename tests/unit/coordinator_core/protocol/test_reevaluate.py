"""Reactions to changed settings or topic metadata, to a load, and to operators' requests.

Source: protocol.md sections 13 and 18.
"""

from collections.abc import Mapping

import pytest

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, RemovalReason, Trigger
from coordinator_core.protocol.requests import DeadlineKind, ForceRebalance, Reevaluate, RemoveMember, Request, Resume
from coordinator_core.protocol.settings import Context, GroupSettings, Now, TopicMetadata
from coordinator_core.protocol.states import COMPLETING, EMPTY, STABLE, GroupState
from tests.unit.coordinator_core.protocol.groups import (
    BORN_MS,
    GENERATION,
    HELD,
    NOW,
    TOKEN,
    USUAL,
    A,
    B,
    completing,
    dead,
    decided,
    delayed,
    empty,
    expire,
    join,
    leave,
    member,
    preparing,
    recorded,
    replies_of,
    stable,
    summary_of,
    sync,
    timed,
    unknown_group,
)

SETTINGS_CHANGED = Reevaluate(is_rebalance_timeout_changed=True)


def triggers(decision: Decision) -> list[Trigger]:
    """Return why the decision began a rebalance, if it did."""
    return [record.trigger for record in decision.records if isinstance(record, RebalanceStarted)]


# -- timeouts that change -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind"),
    [(preparing(), "join"), (completing(), "sync"), (stable(late=["b"]), "sync")],
    ids=["Preparing", "Completing", "Stable"],
)
@pytest.mark.parametrize(("timeout_ms", "left_ms"), [(5_000, 4_000), (1_000, 0), (500, 0)])
def test_a_changed_rebalance_timeout_is_counted_from_the_start_of_the_phase(
    group: Group, kind: str, timeout_ms: int, left_ms: int
) -> None:
    """The phase began a second ago."""
    decision = decided(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=timeout_ms))
    assert timed(decision) == {kind: left_ms}


@pytest.mark.parametrize("group", [empty(), delayed(A), stable(), unknown_group()])
def test_changed_rebalance_timeout_does_not_affect_a_group_without_awaited_members(group: Group) -> None:
    assert decided(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000)).group is group


def test_unrelated_settings_do_not_move_the_limit() -> None:
    """The limit is what it was when the phase began: DJ-09."""
    group = preparing(new_members=[member("n", rebalance_ms=900_000)])
    assert decided(group, SETTINGS_CHANGED).group is group


def test_reset_timeout_restores_those_of_members() -> None:
    settings = GroupSettings(rebalance_timeout_ms=5_000)
    group = decided(preparing(), SETTINGS_CHANGED, settings).group
    assert timed(decided(group, SETTINGS_CHANGED)) == {"join": 59_000}


def test_changed_timeout_counts_from_the_restart_of_a_wait() -> None:
    """Only absent static members remained at the limit."""
    group = decided(preparing(member("s", "S")), expire(DeadlineKind.JOIN)).group
    later = Now(NOW.node_ms + 3_000, NOW.wall_ms + 3_000)
    assert timed(decided(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000), later)) == {"join": 2_000}


@pytest.mark.parametrize(("timeout_ms", "left_ms"), [(None, 57_000), (5_000, 2_000), (9_000, None)])
def test_phase_is_timed_from_its_start_by_the_timeout_of_that_time(timeout_ms: int | None, left_ms: int | None) -> None:
    """Here it began by a timeout of nine seconds, three seconds ago."""
    began = decided(stable(), leave("b"), GroupSettings(rebalance_timeout_ms=9_000))
    later = Now(NOW.node_ms + 3_000, NOW.wall_ms + 3_000)
    changed = decided(began.group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=timeout_ms), later)
    assert timed(changed) == ({} if left_ms is None else {"join": left_ms})


# -- partitions that change -----------------------------------------------------------------------------------


def reevaluate(group: Group, **versions: int) -> Decision:
    """Reevaluate a group at version 1 with topic metadata whose topics last changed at these versions."""
    topic_metadata: Mapping[str, TopicMetadata] = {t: TopicMetadata(9, version) for t, version in versions.items()}
    return decide(group, Reevaluate(), NOW, Context(GroupSettings(), topic_metadata, topics_version=9))


def test_changed_partitions_of_a_topic_that_it_reads_rebalance_a_stable_group() -> None:
    decision = reevaluate(stable(), orders=2)
    assert triggers(decision) == [Trigger.PARTITIONS_CHANGED]
    assert decision.group.must_rebalance


@pytest.mark.parametrize("group", [empty(), preparing(), completing(), delayed(A), stable(A, protocol_type="connect")])
def test_changed_partitions_do_not_affect_groups_of_other_types(group: Group) -> None:
    assert reevaluate(group, orders=2).group is group


def after_deletion(group: Group, topic: str = "orders", version: int = 2, request: Request | None = None) -> Decision:
    """Decide a request of a group at version 1 after a topic was deleted at a version."""
    context = Context(GroupSettings(), {}, topics_version=9, deleted_topics={topic: version})
    return decide(group, request or Reevaluate(), NOW, context)


def test_deleted_topic_rebalances_the_groups_that_subscribe() -> None:
    assert triggers(after_deletion(stable())) == [Trigger.PARTITIONS_CHANGED]
    assert triggers(after_deletion(stable(), version=1)) == [], "it was deleted before the leader assigned"


def test_topic_that_was_deleted_before_the_load_rebalances() -> None:
    for state in (STABLE, COMPLETING):
        assert triggers(after_deletion(loaded(state, *USUAL), request=Resume())) == [Trigger.PARTITIONS_CHANGED]


def test_deleted_topic_restarts_the_rebalance_before_the_leader_assigns() -> None:
    decision = after_deletion(completing(synced=["b"]))
    assert triggers(decision) == [Trigger.PARTITIONS_CHANGED]
    assert decision.group.must_rebalance
    assert replies_of(decision) == ["b.sync REBALANCE_IN_PROGRESS"]
    assert replies_of(decided(decision.group, sync("a", ("a", HELD["a"])))) == ["REBALANCE_IN_PROGRESS"]


@pytest.mark.parametrize(
    "group",
    [
        empty(),
        preparing(),
        delayed(A),
        completing(A, protocol_type="connect"),
        stable(A, protocol_type="connect"),
    ],
)
def test_deleted_topic_does_not_affect_groups_of_other_types(group: Group) -> None:
    assert after_deletion(group).group is group


def test_deleted_topic_does_not_affect_groups_that_do_not_subscribe() -> None:
    for group in (completing(), stable()):
        assert after_deletion(group, "sales").group is group


def test_known_or_unsubscribed_topics_do_not_rebalance_a_stable_group() -> None:
    group = stable()
    assert reevaluate(group, orders=1, sales=2).group is group


def test_generation_has_the_topic_metadata_version_of_its_join_phase() -> None:
    context = Context(GroupSettings(), {}, topics_version=9)
    group = decide(preparing(joined=["a"]), expire(DeadlineKind.JOIN), NOW, context).group
    assert group.topics_version == 9


# -- loading --------------------------------------------------------------------------------------------------


def loaded(state: GroupState, *members: Member, trigger: Trigger | None = None, must_rebalance: bool = False) -> Group:
    """Return a group as it comes from the store."""
    settled = {one.member_id: one for one in (stable(*members) if members else empty()).members.values()}
    return Group.loaded(
        "g",
        created_at_ms=BORN_MS,
        state=state,
        state_since_ms=BORN_MS,
        generation=GENERATION,
        protocol_type="consumer",
        protocol_name="range" if members else None,
        leader_id=members[0].member_id if members else None,
        subscribed_topics=frozenset({"orders"}),
        topics_version=1,
        must_rebalance=must_rebalance,
        trigger=trigger,
        members=settled.values(),
    )


def test_loaded_group_restarts_every_session() -> None:
    decision = decided(loaded(STABLE, *USUAL), Resume())
    assert summary_of(decision) == "Stable 7; no reply; nothing; session:a=10000 session:b=10000 session:s=10000"
    assert {one.member_id: one.assignment for one in decision.group.members.values()} == HELD


def test_loaded_completing_group_waits_for_all_syncs_for_the_whole_limit() -> None:
    decision = decided(loaded(COMPLETING, *USUAL), Resume())
    assert timed(decision) == {"session:a": 10_000, "session:b": 10_000, "session:s": 10_000, "sync": 60_000}
    assert set(decision.group.pending_syncs) == {"a", "b", "s"}


def test_a_changed_timeout_is_counted_from_the_load_where_the_phase_began_elsewhere() -> None:
    group = decided(loaded(COMPLETING, *USUAL), Resume()).group
    later = Now(NOW.node_ms + 2_000, NOW.wall_ms + 2_000)
    decision = decided(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000), later)
    assert timed(decision) == {"sync": 3_000}


def test_loaded_group_applies_changed_settings_once() -> None:
    settings = GroupSettings(rebalance_timeout_ms=5_000)
    decision = decided(loaded(COMPLETING, *USUAL), Resume(), settings)
    assert timed(decision)["sync"] == 5_000
    assert decided(decision.group, SETTINGS_CHANGED, settings).group is decision.group


def test_must_rebalance_starts_a_rebalance_at_load_with_its_trigger() -> None:
    due = loaded(STABLE, *USUAL, must_rebalance=True, trigger=Trigger.MEMBER_LEFT)
    assert triggers(decided(due, Resume())) == [Trigger.MEMBER_LEFT]
    unexplained = loaded(STABLE, *USUAL, must_rebalance=True)
    assert triggers(decided(unexplained, Resume())) == [Trigger.ADMIN]


def test_loaded_group_without_members_is_emptied() -> None:
    decision = decided(loaded(STABLE, must_rebalance=True, trigger=Trigger.MEMBER_LEFT), Resume())
    assert recorded(decision) == ["RebalanceStarted", "GroupEmptied"]


def test_a_loaded_group_beyond_its_size_rebalances() -> None:
    assert triggers(decided(loaded(STABLE, A, B), Resume(), GroupSettings(group_max_size=1))) == [Trigger.OVER_CAPACITY]


def test_a_loaded_group_whose_partitions_changed_meanwhile_rebalances() -> None:
    context = Context(GroupSettings(), {"orders": TopicMetadata(9, 2)})
    assert triggers(decide(loaded(STABLE, A, B), Resume(), NOW, context)) == [Trigger.PARTITIONS_CHANGED]


def test_loaded_empty_group_starts_no_timer() -> None:
    group = loaded(EMPTY)
    assert decided(group, Resume()).group is group


# -- operators ------------------------------------------------------------------------------------------------

FORCE = ForceRebalance(TOKEN, "because")


def test_forced_rebalance_survives_the_loss_of_the_node() -> None:
    decision = decided(completing(synced=["b"]), FORCE)
    assert replies_of(decision) == ["b.sync REBALANCE_IN_PROGRESS", "EmptyResponse"]
    assert triggers(decision) == [Trigger.ADMIN]
    assert decision.group.must_rebalance


def test_forced_rebalance_does_nothing_while_one_is_under_way() -> None:
    group = preparing()
    decision = decided(group, FORCE)
    assert (replies_of(decision), decision.group) == (["EmptyResponse"], group)


def test_removed_member_is_treated_as_leaving() -> None:
    decision = decided(stable(), RemoveMember(TOKEN, "b", "because"))
    removed = decision.records[0]
    assert isinstance(removed, MemberRemoved)
    assert (removed.removal_reason, removed.client_reason) == (RemovalReason.ADMIN, "because")
    assert triggers(decision) == [Trigger.ADMIN]
    assert summary_of(decided(stable(), RemoveMember(TOKEN, "b", ""))) == summary_of(
        decided(stable(), leave("b"))
    ).replace("LeaveGroupResponse", "EmptyResponse")


@pytest.mark.parametrize(
    ("group", "request_", "code"),
    [
        (unknown_group(), FORCE, "GROUP_ID_NOT_FOUND"),
        (dead(), FORCE, "GROUP_ID_NOT_FOUND"),
        (empty(), FORCE, "INVALID_REQUEST"),
        (unknown_group(), RemoveMember(TOKEN, "b", ""), "GROUP_ID_NOT_FOUND"),
        (dead(), RemoveMember(TOKEN, "b", ""), "GROUP_ID_NOT_FOUND"),
        (empty(), RemoveMember(TOKEN, "b", ""), "INVALID_REQUEST"),
        (stable(pending=["h"]), RemoveMember(TOKEN, "h", ""), "INVALID_REQUEST"),
    ],
)
def test_impossible_admin_request_is_rejected(group: Group, request_: Request, code: str) -> None:
    decision = decided(group, request_)
    assert (replies_of(decision), decision.group) == ([code], group)


def test_new_member_may_join_during_an_operators_rebalance() -> None:
    group = decided(stable(pending=["h"]), FORCE).group
    assert recorded(decided(group, join("h"))) == ["PendingMemberRemoved", "MemberJoined", "JoinParked"]
