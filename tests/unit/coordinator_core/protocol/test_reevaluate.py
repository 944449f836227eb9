"""What a group does when settings or the catalogue change around it, when it is loaded, and when an operator steps in.

Source: protocol.md sections 13 and 18.
"""

from collections.abc import Mapping

import pytest

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, Removal, Trigger
from coordinator_core.protocol.requests import DeadlineKind, ForceRebalance, Reconsider, RemoveMember, Request, Resume
from coordinator_core.protocol.settings import CataloguedTopic, Context, GroupSettings, Now
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
    ask,
    completing,
    dead,
    empty,
    expire,
    join,
    leave,
    member,
    nobody_saw,
    preparing,
    recorded,
    stable,
    sync,
    tell,
    timed,
    told,
    window,
)

SETTINGS_CHANGED = Reconsider(is_rebalance_timeout_changed=True)


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
    decision = ask(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=timeout_ms))
    assert timed(decision) == {kind: left_ms}


@pytest.mark.parametrize("group", [empty(), window(A), stable(), nobody_saw()])
def test_a_changed_rebalance_timeout_is_nothing_to_a_group_that_waits_for_nobody(group: Group) -> None:
    assert ask(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000)).group is group


def test_other_settings_do_not_move_the_limit_whoever_has_joined_since() -> None:
    """The limit is what it was when the phase began: DJ-09."""
    group = preparing(newcomers=[member("n", rebalance_ms=900_000)])
    assert ask(group, SETTINGS_CHANGED).group is group


def test_a_timeout_that_is_taken_back_leaves_members_their_own() -> None:
    settings = GroupSettings(rebalance_timeout_ms=5_000)
    group = ask(preparing(), SETTINGS_CHANGED, settings).group
    assert timed(ask(group, SETTINGS_CHANGED)) == {"join": 59_000}


def test_a_wait_that_began_again_is_counted_from_then() -> None:
    """Only silent static members were there at the limit."""
    group = ask(preparing(member("s", "S")), expire(DeadlineKind.JOIN)).group
    later = Now(NOW.node_ms + 3_000, NOW.wall_ms + 3_000)
    assert timed(ask(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000), later)) == {"join": 2_000}


@pytest.mark.parametrize(("timeout_ms", "left_ms"), [(None, 57_000), (5_000, 2_000), (9_000, None)])
def test_a_phase_is_timed_from_when_it_began_by_what_was_in_force_then(
    timeout_ms: int | None, left_ms: int | None
) -> None:
    """Here it began by a timeout of nine seconds, three seconds ago."""
    began = ask(stable(), leave("b"), GroupSettings(rebalance_timeout_ms=9_000))
    later = Now(NOW.node_ms + 3_000, NOW.wall_ms + 3_000)
    changed = ask(began.group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=timeout_ms), later)
    assert timed(changed) == ({} if left_ms is None else {"join": left_ms})


# -- partitions that change -----------------------------------------------------------------------------------


def reconsider(group: Group, **versions: int) -> Decision:
    """Let a group look at a catalogue whose topics last changed at these versions; it has seen version 1."""
    catalogue: Mapping[str, CataloguedTopic] = {t: CataloguedTopic(9, version) for t, version in versions.items()}
    return decide(group, Reconsider(), NOW, Context(GroupSettings(), catalogue, topics_version=9))


def test_changed_partitions_of_a_topic_that_it_reads_rebalance_a_stable_group() -> None:
    decision = reconsider(stable(), orders=2)
    assert triggers(decision) == [Trigger.PARTITIONS_CHANGED]
    assert decision.group.must_rebalance


@pytest.mark.parametrize("group", [empty(), preparing(), completing(), window(A), stable(A, protocol_type="connect")])
def test_changed_partitions_are_nothing_to_any_other_group(group: Group) -> None:
    assert reconsider(group, orders=2).group is group


TOPIC_GONE = Reconsider(gone_topics=frozenset({"orders"}))


def test_a_topic_that_is_gone_voids_what_the_leader_is_about_to_assign() -> None:
    decision = ask(completing(synced=["b"]), TOPIC_GONE)
    assert triggers(decision) == [Trigger.PARTITIONS_CHANGED]
    assert decision.group.must_rebalance
    assert told(decision) == ["b.sync REBALANCE_IN_PROGRESS"]
    assert told(ask(decision.group, sync("a", ("a", HELD["a"])))) == ["REBALANCE_IN_PROGRESS"]


@pytest.mark.parametrize(
    "group",
    [empty(), preparing(), window(A), completing(A, protocol_type="connect"), stable(A, protocol_type="connect")],
)
def test_a_topic_that_is_gone_is_nothing_to_any_other_group(group: Group) -> None:
    assert ask(group, TOPIC_GONE).group is group


def test_a_topic_that_is_gone_is_nothing_to_groups_that_do_not_read_it() -> None:
    for group in (completing(), stable()):
        assert ask(group, Reconsider(gone_topics=frozenset({"sales"}))).group is group


def test_what_a_stable_group_knows_or_does_not_read_does_not_rebalance_it() -> None:
    group = stable()
    assert reconsider(group, orders=1, sales=2).group is group


def test_a_generation_has_seen_the_catalogue_as_of_its_join_phase() -> None:
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


def test_a_loaded_group_goes_on_with_every_session_afresh() -> None:
    decision = ask(loaded(STABLE, *USUAL), Resume())
    assert tell(decision) == "Stable 7; nobody; nothing; member:a=10000 member:b=10000 member:s=10000"
    assert {one.member_id: one.assignment for one in decision.group.members.values()} == HELD


def test_a_loaded_group_whose_leader_was_to_assign_awaits_everybody_for_the_whole_limit() -> None:
    decision = ask(loaded(COMPLETING, *USUAL), Resume())
    assert timed(decision) == {"member:a": 10_000, "member:b": 10_000, "member:s": 10_000, "sync": 60_000}
    assert decision.group.pending_syncs == {"a", "b", "s"}


def test_a_changed_timeout_is_counted_from_the_load_where_the_phase_began_elsewhere() -> None:
    group = ask(loaded(COMPLETING, *USUAL), Resume()).group
    later = Now(NOW.node_ms + 2_000, NOW.wall_ms + 2_000)
    decision = ask(group, SETTINGS_CHANGED, GroupSettings(rebalance_timeout_ms=5_000), later)
    assert timed(decision) == {"sync": 3_000}


def test_a_loaded_group_that_settings_changed_for_meanwhile_is_timed_by_the_new_ones_once() -> None:
    settings = GroupSettings(rebalance_timeout_ms=5_000)
    decision = ask(loaded(COMPLETING, *USUAL), Resume(), settings)
    assert timed(decision)["sync"] == 5_000
    assert ask(decision.group, SETTINGS_CHANGED, settings).group is decision.group


def test_a_rebalance_that_is_owed_starts_at_load_for_the_reason_it_had() -> None:
    owed = loaded(STABLE, *USUAL, must_rebalance=True, trigger=Trigger.MEMBER_LEFT)
    assert triggers(ask(owed, Resume())) == [Trigger.MEMBER_LEFT]
    unexplained = loaded(STABLE, *USUAL, must_rebalance=True)
    assert triggers(ask(unexplained, Resume())) == [Trigger.ADMIN]


def test_a_loaded_group_whose_members_have_all_gone_is_emptied() -> None:
    decision = ask(loaded(STABLE, must_rebalance=True, trigger=Trigger.MEMBER_LEFT), Resume())
    assert recorded(decision) == ["RebalanceStarted", "GroupEmptied"]


def test_a_loaded_group_beyond_its_size_rebalances() -> None:
    assert triggers(ask(loaded(STABLE, A, B), Resume(), GroupSettings(group_max_size=1))) == [Trigger.OVER_CAPACITY]


def test_a_loaded_group_whose_partitions_changed_meanwhile_rebalances() -> None:
    context = Context(GroupSettings(), {"orders": CataloguedTopic(9, 2)})
    assert triggers(decide(loaded(STABLE, A, B), Resume(), NOW, context)) == [Trigger.PARTITIONS_CHANGED]


def test_a_loaded_group_that_is_empty_has_nothing_to_do() -> None:
    group = loaded(EMPTY)
    assert ask(group, Resume()).group is group


# -- operators ------------------------------------------------------------------------------------------------

FORCE = ForceRebalance(TOKEN, "because")


def test_an_operator_s_rebalance_is_owed_even_if_the_node_is_lost() -> None:
    decision = ask(completing(synced=["b"]), FORCE)
    assert told(decision) == ["b.sync REBALANCE_IN_PROGRESS", "Done"]
    assert triggers(decision) == [Trigger.ADMIN]
    assert decision.group.must_rebalance


def test_an_operator_s_rebalance_is_under_way_already() -> None:
    group = preparing()
    decision = ask(group, FORCE)
    assert (told(decision), decision.group) == (["Done"], group)


def test_a_member_that_is_put_out_goes_as_if_it_had_left() -> None:
    decision = ask(stable(), RemoveMember(TOKEN, "b", "because"))
    removed = decision.records[0]
    assert isinstance(removed, MemberRemoved)
    assert (removed.removal, removed.client_reason) == (Removal.ADMIN, "because")
    assert triggers(decision) == [Trigger.ADMIN]
    assert tell(ask(stable(), RemoveMember(TOKEN, "b", ""))) == tell(ask(stable(), leave("b"))).replace("Left", "Done")


@pytest.mark.parametrize(
    ("group", "request_", "code"),
    [
        (nobody_saw(), FORCE, "GROUP_ID_NOT_FOUND"),
        (dead(), FORCE, "GROUP_ID_NOT_FOUND"),
        (empty(), FORCE, "INVALID_REQUEST"),
        (nobody_saw(), RemoveMember(TOKEN, "b", ""), "GROUP_ID_NOT_FOUND"),
        (dead(), RemoveMember(TOKEN, "b", ""), "GROUP_ID_NOT_FOUND"),
        (empty(), RemoveMember(TOKEN, "b", ""), "INVALID_REQUEST"),
        (stable(pending=["h"]), RemoveMember(TOKEN, "h", ""), "INVALID_REQUEST"),
    ],
)
def test_an_operator_s_wish_that_makes_no_sense_is_refused(group: Group, request_: Request, code: str) -> None:
    decision = ask(group, request_)
    assert (told(decision), decision.group) == ([code], group)


def test_a_newcomer_may_come_while_an_operator_s_rebalance_is_under_way() -> None:
    group = ask(stable(pending=["h"]), FORCE).group
    assert recorded(ask(group, join("h"))) == ["MemberIdDropped", "MemberJoined", "JoinParked"]
