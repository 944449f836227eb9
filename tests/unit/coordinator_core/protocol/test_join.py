"""Joins of dynamic members, beyond the table: the order of checks, sizes, protocols, and responses.

Source: protocol.md section 5.
"""

import pytest

from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import MemberRemoved, RebalanceStarted, RemovalReason, Trigger
from coordinator_core.protocol.requests import Request, SupportedProtocol
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    GENERATION,
    A,
    B,
    answer,
    completing,
    decided,
    delayed,
    empty,
    heartbeat,
    join,
    leave,
    member,
    offers,
    preparing,
    recorded,
    replies_of,
    reply,
    stable,
    summary_of,
    sync,
    timed,
    unknown_group,
)

CHANGED = offers("range", topics=("orders", "sales"))


def refusal(decision: Decision) -> str:
    """Return the error code of a decision without records."""
    found = reply(decision).answer
    assert isinstance(found, CoordinatorError)
    assert not decision.records
    return found.code


def trigger(decision: Decision) -> Trigger:
    """Return why the decision began a rebalance."""
    (started,) = [record for record in decision.records if isinstance(record, RebalanceStarted)]
    return started.trigger


# -- checks, in their order -------------------------------------------------------------------------------


@pytest.mark.parametrize("request_", [join(), sync("a"), heartbeat("a"), leave("a")])
def test_the_empty_group_id_is_refused_before_anything_else(request_: Request) -> None:
    assert refusal(decided(Group(""), request_)) == "INVALID_GROUP_ID"


@pytest.mark.parametrize(
    ("asked_ms", "code"),
    [
        (5_999, "INVALID_SESSION_TIMEOUT"),
        (6_000, "MEMBER_ID_REQUIRED"),
        (1_800_000, "MEMBER_ID_REQUIRED"),
        (1_800_001, "INVALID_SESSION_TIMEOUT"),
    ],
)
def test_session_timeout_bounds_are_included(asked_ms: int, code: str) -> None:
    assert replies_of(decided(unknown_group(), join(session_ms=asked_ms))) == [code]


def test_a_session_timeout_is_checked_before_the_group_is_looked_up() -> None:
    assert refusal(decided(unknown_group(), join("x", session_ms=1))) == "INVALID_SESSION_TIMEOUT"


def test_unknown_member_id_creates_no_group() -> None:
    assert not decided(unknown_group(), join("x")).group.exists


def test_group_existence_is_checked_before_protocols() -> None:
    assert refusal(decided(unknown_group(), join("x", protocols=()))) == "UNKNOWN_MEMBER_ID"


def test_protocols_are_checked_before_the_member() -> None:
    assert refusal(decided(stable(), join("x", protocols=offers("sticky")))) == "INCONSISTENT_GROUP_PROTOCOL"
    assert refusal(decided(empty(), join("x", protocols=()))) == "INCONSISTENT_GROUP_PROTOCOL"


def test_join_without_protocols_creates_no_group() -> None:
    assert not decided(unknown_group(), join(protocols=())).group.exists
    assert refusal(decided(unknown_group(), join(protocol_type=""))) == "INCONSISTENT_GROUP_PROTOCOL"


def test_the_size_is_checked_before_the_protocols() -> None:
    decision = decided(stable(A, B), join(protocols=offers("sticky")), GroupSettings(group_max_size=2))
    assert refusal(decision) == "GROUP_MAX_SIZE_REACHED"


# -- member ids -------------------------------------------------------------------------------------------


def test_client_that_requires_no_member_id_is_added_at_once() -> None:
    decision = decided(empty(), join(is_old_client=True))
    assert list(decision.group.members) == ["n"]
    assert not decision.group.pending_member_ids


def test_each_join_without_an_id_gets_a_new_id_for_the_requested_session() -> None:
    first = decided(empty(), join(fresh_id="n1", session_ms=8_000))
    second = decided(first.group, join(fresh_id="n2", session_ms=9_000))
    assert second.group.pending_member_ids == {"n1", "n2"}
    assert (timed(first), timed(second)) == ({"pending_member_id:n1": 8_000}, {"pending_member_id:n2": 9_000})


@pytest.mark.parametrize("effective_ms", [6_000, 60_000])
def test_pending_member_id_expires_after_the_requested_session_timeout(effective_ms: int) -> None:
    decision = decided(empty(), join(session_ms=9_000), GroupSettings(session_timeout_ms=effective_ms))
    assert timed(decision) == {"pending_member_id:n": 9_000}


def test_pending_member_id_is_returned_with_its_error() -> None:
    assert reply(decided(empty(), join())).member_id == "n"


def test_pending_member_id_cannot_take_an_instance() -> None:
    assert refusal(decided(stable(pending=["h"]), join("h", "N"))) == "INVALID_REQUEST"


@pytest.mark.parametrize(
    ("request_", "member_id"),
    [(join("x"), "x"), (join("x", session_ms=1), "x"), (join(protocols=offers("sticky")), "")],
)
def test_rejected_join_returns_the_given_id(request_: Request, member_id: str) -> None:
    assert reply(decided(stable(), request_)).member_id == member_id


# -- sizes ------------------------------------------------------------------------------------------------

TWO = GroupSettings(group_max_size=2)


@pytest.mark.parametrize("group", [completing(A, B), stable(A, B)], ids=["Completing", "Stable"])
def test_full_group_accepts_only_its_members(group: Group) -> None:
    assert refusal(decided(group, join(), TWO)) == "GROUP_MAX_SIZE_REACHED"
    assert reply(decided(group, join("b"), TWO)).member_id == "b"
    assert replies_of(decided(group, join("b"), TWO)) == ["JoinGroupResponse"]


def test_pending_member_ids_do_not_count_towards_the_limit() -> None:
    assert replies_of(decided(stable(A, pending=["h1", "h2", "h3"]), join(), TWO)) == ["MEMBER_ID_REQUIRED"]


def test_empty_group_always_accepts_a_member() -> None:
    assert recorded(decided(empty(pending=["h"]), join("h"), GroupSettings(group_max_size=1)))[1] == "MemberJoined"


def test_pending_member_id_beyond_the_size_limit_is_removed() -> None:
    decision = decided(stable(A, B, pending=["h"]), join("h"), TWO)
    assert summary_of(decision) == "Stable 7; GROUP_MAX_SIZE_REACHED; PendingMemberRemoved; pending_member_id:h=off"
    assert reply(decision).member_id == ""


def test_parked_joins_count_for_the_size_in_a_join_phase() -> None:
    """After the limit was cut, the last to join again are out. As in Kafka: JOIN-17."""
    group = preparing(A, B, member("n"), joined=["a", "b"])
    assert replies_of(decided(group, join("a"), TWO)) == ["a.join REBALANCE_IN_PROGRESS"]
    half = preparing(A, B, member("n"), joined=["a"])
    assert decided(half, join("b"), TWO).group.parked_joins.keys() == {"a", "b"}
    decision = decided(group, join("n"), TWO)
    assert replies_of(decision) == ["GROUP_MAX_SIZE_REACHED", "a.join JoinGroupResponse", "b.join JoinGroupResponse"]
    removed = [record for record in decision.records if isinstance(record, MemberRemoved)]
    assert [(record.member_id, record.removal_reason) for record in removed] == [("n", RemovalReason.ADMIN)]
    assert decision.group.generation == GENERATION + 1


def test_excess_pending_member_id_does_not_block() -> None:
    decision = decided(preparing(A, B, joined=["a", "b"], pending=["h"]), join("h"), TWO)
    assert replies_of(decision) == ["GROUP_MAX_SIZE_REACHED", "a.join JoinGroupResponse", "b.join JoinGroupResponse"]


def sized(size: int) -> tuple[SupportedProtocol, ...]:
    """Return two protocols with so many bytes of metadata together."""
    return (SupportedProtocol("range", b"r" * (size - size // 2)), SupportedProtocol("sticky", b"s" * (size // 2)))


LIMITED = GroupSettings(member_metadata_max_bytes=100, group_metadata_max_bytes=250)
LARGE = [member(each, protocols=sized(80)) for each in ("a", "b")]


@pytest.mark.parametrize("group", [unknown_group(), empty(), stable(*LARGE), preparing(*LARGE, joined=["a"])])
def test_metadata_of_a_member_is_limited_over_all_its_protocols(group: Group) -> None:
    assert refusal(decided(group, join(protocols=sized(101)), LIMITED)) == "INVALID_REQUEST"
    assert replies_of(decided(group, join(protocols=sized(90)), LIMITED)) == ["MEMBER_ID_REQUIRED"]


def test_metadata_of_all_members_is_limited() -> None:
    group = stable(*LARGE)
    assert refusal(decided(group, join(protocols=sized(91)), LIMITED)) == "GROUP_MAX_SIZE_REACHED"
    assert replies_of(decided(group, join("a", protocols=sized(100)), LIMITED)) == []
    assert refusal(decided(group, join("a", protocols=sized(101)), LIMITED)) == "INVALID_REQUEST"


def test_lowered_metadata_limits_keep_members_whose_metadata_does_not_grow() -> None:
    lowered = GroupSettings(member_metadata_max_bytes=10, group_metadata_max_bytes=20)
    static = stable(*LARGE, member("s", "S", protocols=sized(80)))
    assert replies_of(decided(static, join("b", protocols=sized(80)), lowered)) == ["JoinGroupResponse"]
    assert replies_of(decided(static, join(instance_id="S", protocols=sized(80)), lowered)) == ["JoinGroupResponse"]
    assert refusal(decided(static, join(instance_id="S", protocols=sized(81)), lowered)) == "INVALID_REQUEST"


def test_metadata_of_members_that_left_does_not_count() -> None:
    group = decided(stable(*LARGE), leave("a")).group
    assert group.metadata_bytes == 80
    assert replies_of(decided(group, join(protocols=sized(100)), LIMITED)) == ["MEMBER_ID_REQUIRED"]


def test_pending_member_ids_are_limited() -> None:
    limited = GroupSettings(group_max_pending_members=2)
    assert replies_of(decided(stable(A, pending=["h1"]), join(), limited)) == ["MEMBER_ID_REQUIRED"]
    assert refusal(decided(stable(A, pending=["h1", "h2"]), join(), limited)) == "GROUP_MAX_SIZE_REACHED"
    assert decided(stable(A, pending=["n", "h2"]), join("n"), limited).group.members.keys() == {"a", "n"}


# -- protocols --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (join(protocols=offers("sticky", "range")), "MEMBER_ID_REQUIRED"),
        (join(protocols=offers("sticky")), "INCONSISTENT_GROUP_PROTOCOL"),
        (join(protocols=()), "INCONSISTENT_GROUP_PROTOCOL"),
        (join(protocol_type="connect"), "INCONSISTENT_GROUP_PROTOCOL"),
        (join(protocol_type=""), "INCONSISTENT_GROUP_PROTOCOL"),
    ],
)
def test_join_requires_a_protocol_that_every_member_supports(request_: Request, code: str) -> None:
    assert replies_of(decided(stable(), request_)) == [code]


def test_only_member_cannot_replace_all_its_protocols() -> None:
    """Its own old offers count. As in Kafka: JOIN-28."""
    assert refusal(decided(stable(A), join("a", protocols=offers("sticky")))) == "INCONSISTENT_GROUP_PROTOCOL"


def test_emptied_group_accepts_another_protocol_type() -> None:
    """As in Kafka: JOIN-29."""
    group = decided(
        empty(pending=["h"]), join("h", protocol_type="connect", protocols=(SupportedProtocol("x", b"?"),))
    ).group
    assert group.protocol_type == "connect"


def test_order_of_protocols_is_part_of_the_subscription() -> None:
    """As in Kafka: JOIN-30."""
    both = offers("range", "sticky")
    group = stable(member("a", protocols=both), member("b", protocols=both))
    assert replies_of(decided(group, join("b", protocols=both))) == ["JoinGroupResponse"]
    assert trigger(decided(group, join("b", protocols=both[::-1]))) is Trigger.SUBSCRIPTION_CHANGED


# -- joining again ------------------------------------------------------------------------------------------


def test_rejoining_leader_starts_a_rebalance_with_its_own_trigger() -> None:
    assert trigger(decided(stable(), join("a"))) is Trigger.LEADER_REJOINED
    assert trigger(decided(stable(), join("a", protocols=CHANGED))) is Trigger.SUBSCRIPTION_CHANGED


def test_new_timeouts_of_an_unchanged_follower_are_ignored() -> None:
    """As in Kafka: JOIN-32."""
    group = stable()
    assert decided(group, join("b", session_ms=20_000, rebalance_ms=1)).group is group


def test_new_timeouts_and_protocols_of_a_parked_join_are_stored() -> None:
    decision = decided(preparing(), join("b", protocols=CHANGED, session_ms=20_000, rebalance_ms=1))
    taken = decision.group.members["b"]
    assert (taken.session_timeout_ms, taken.rebalance_timeout_ms, taken.protocols) == (20_000, 1, CHANGED)


def test_repeated_join_replaces_the_parked_one() -> None:
    decision = decided(preparing(joined=["b"]), join("b"))
    assert replies_of(decision) == ["b.join REBALANCE_IN_PROGRESS"]
    assert dict(decision.group.parked_joins) == {"b": 1}


def test_last_missing_member_ends_the_join_phase() -> None:
    decision = decided(preparing(joined=["a", "s"]), join("b"))
    assert summary_of(decision) == (
        "CompletingRebalance 8; a.join JoinGroupResponse, JoinGroupResponse, s.join JoinGroupResponse; "
        "MemberUpdated JoinParked GenerationStarted; "
        "join=off sync=60000 session:a=10000 session:b=10000 session:s=10000"
    )


def test_pending_member_keeps_the_join_phase_open() -> None:
    assert recorded(decided(preparing(joined=["a", "s"], pending=["h"]), join("b"))) == [
        "MemberUpdated",
        "JoinParked",
    ]


def test_the_only_member_s_rebalance_ends_as_it_starts() -> None:
    decision = decided(stable(A), join("a"))
    assert recorded(decision) == ["MemberUpdated", "JoinParked", "RebalanceStarted", "GenerationStarted"]
    assert replies_of(decision) == ["JoinGroupResponse"]


def test_new_members_only_wait_during_the_initial_delay() -> None:
    decision = decided(delayed(A, pending=["h"]), join("h"))
    assert decision.group.has_new_members
    assert replies_of(decision) == []


# -- responses ---------------------------------------------------------------------------------------------


def joined(decision: Decision, token: int = 1) -> JoinGroupResponse:
    found = answer(decision, token)
    assert isinstance(found, JoinGroupResponse)
    return found


def times(found: JoinGroupResponse) -> tuple[int, int, int]:
    return found.session_timeout_ms, found.heartbeat_interval_ms, found.rebalance_timeout_ms


def test_only_the_leader_gets_the_members_with_their_metadata() -> None:
    both = (SupportedProtocol("range", b"as range"), SupportedProtocol("sticky", b"as sticky"))
    group = completing(member("a", protocols=both), member("b", protocols=both))
    leader, follower = (
        joined(decided(group, join("a", protocols=both))),
        joined(decided(group, join("b", protocols=both))),
    )
    assert [(one.member_id, one.metadata) for one in leader.members] == [("a", b"as range"), ("b", b"as range")]
    assert follower.members == ()
    assert leader.leader_id == follower.leader_id == "a"


def test_join_response_has_generation_protocol_and_effective_timeouts() -> None:
    found = joined(decided(stable(), join("b")))
    assert (found.generation, found.protocol_type, found.protocol_name) == (GENERATION, "consumer", "range")
    assert times(found) == (10_000, 3_000, 60_000)
    assert not found.skip_assignment


def test_response_includes_effective_timeouts() -> None:
    settings = GroupSettings(session_timeout_ms=6_000, heartbeat_interval_ms=500, rebalance_timeout_ms=9_000)
    found = joined(decided(stable(), join("b"), settings))
    assert times(found) == (6_000, 500, 9_000)


def test_topics_are_read_from_the_chosen_protocol_of_every_member() -> None:
    group = preparing(A, B, joined=["b"])
    decision = decided(group, join("a", protocols=CHANGED))
    assert decision.group.subscribed_topics == frozenset({"orders", "sales"})


def test_topics_are_unchanged_until_the_join_phase_ends() -> None:
    decision = decided(stable(), join("b", protocols=CHANGED))
    assert decision.group.subscribed_topics == frozenset({"orders"})


def test_topics_are_unknown_if_one_member_s_cannot_be_read() -> None:
    decision = decided(preparing(A, B, joined=["b"]), join("a", protocols=(SupportedProtocol("range", b"?"),)))
    assert decision.group.subscribed_topics is None


def test_topics_are_unknown_for_other_protocol_types() -> None:
    decision = decided(preparing(of=stable(A, protocol_type="connect")), join("a", protocol_type="connect"))
    assert recorded(decision)[-1] == "GenerationStarted"
    assert decision.group.subscribed_topics is None
