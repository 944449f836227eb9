"""Deletion of offsets: by operators, with their group or topic, and by retention.

Source: protocol.md sections 10.3, 10.4 and 11.
"""

import pytest
from msgspec.structs import replace

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import GroupCreated, GroupDied, OffsetRemoved
from coordinator_core.protocol.requests import (
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ExpiryCandidate,
    GroupSnapshot,
    Request,
    RetireGroup,
    StoredOffset,
)
from coordinator_core.protocol.responses import DeleteOffsetsResponse, ExpireOffsetsResponse
from coordinator_core.protocol.settings import Context, GroupSettings, TopicMetadata
from tests.unit.coordinator_core.protocol.groups import (
    BORN_MS,
    NOW,
    TOKEN,
    A,
    answer,
    completing,
    dead,
    decided,
    delayed,
    empty,
    fresh,
    join,
    preparing,
    replies_of,
    stable,
    stored_offset,
    summary_of,
    unknown_group,
)

ORDERS, SALES = stored_offset("orders"), stored_offset("sales")


def removed(decision: Decision) -> list[tuple[str, str, str]]:
    """Return (topic, cause, change) of every offset that goes."""
    return [(one.offset.topic, one.cause, one.change_id) for one in decision.records if isinstance(one, OffsetRemoved)]


# -- deletion ---------------------------------------------------------------------------------------------


def delete(*topics: str, stored: tuple[StoredOffset, ...] = (ORDERS, SALES)) -> DeleteOffsets:
    return DeleteOffsets(TOKEN, tuple((topic, 0) for topic in topics), stored, "change")


def results(decision: Decision) -> list[str]:
    found = answer(decision)
    assert isinstance(found, DeleteOffsetsResponse)
    return ["NONE" if one.error is None else one.error.code for one in found.offsets]


def test_group_with_members_keeps_offsets_of_subscribed_topics() -> None:
    decision = decided(stable(), delete("orders", "sales"))
    assert results(decision) == ["GROUP_SUBSCRIBED_TO_TOPIC", "NONE"]
    assert removed(decision) == [("sales", "deleted", "change")]


def test_deletion_of_a_missing_offset_succeeds() -> None:
    decision = decided(empty(), delete("orders", "sales", stored=(SALES,)))
    assert results(decision) == ["NONE", "NONE"]
    assert removed(decision) == [("sales", "deleted", "change")]


def test_unknown_partition_is_rejected_unless_it_has_an_offset() -> None:
    context = Context(GroupSettings(), {"orders": TopicMetadata(2, 1)})
    partitions = (("orders", 2), ("orders", 3), ("orders", 1))
    beyond = DeleteOffsets(TOKEN, partitions, (stored_offset("orders", 3),), "change")
    asked = [decide(group, beyond, NOW, context) for group in (empty(), stable())]
    assert results(asked[0]) == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "NONE"]
    assert results(asked[1]) == ["UNKNOWN_TOPIC_OR_PARTITION", *["GROUP_SUBSCRIBED_TO_TOPIC"] * 2]


def test_partition_named_twice_is_archived_once() -> None:
    decision = decided(empty(), delete("orders", "orders"))
    assert results(decision) == ["NONE", "NONE"]
    assert removed(decision) == [("orders", "deleted", "change")]


def test_subscriptions_are_unknown_until_the_first_join_phase_ends() -> None:
    """An unknown subscription counts as every topic: no offset is deleted."""
    assert results(decided(delayed(A), delete("orders", "sales"))) == ["GROUP_SUBSCRIBED_TO_TOPIC"] * 2


@pytest.mark.parametrize(("was", "code"), [("consumer", "NONE"), ("connect", "GROUP_SUBSCRIBED_TO_TOPIC")])
def test_empty_consumer_group_is_known_to_have_no_subscription(was: str, code: str) -> None:
    group = decided(empty(protocol_type=was), join(instance_id="S")).group
    assert results(decided(group, delete("orders"))) == [code]


def test_a_group_of_another_type_keeps_everything_while_it_has_members() -> None:
    assert replies_of(decided(stable(A, protocol_type="connect"), delete("sales"))) == ["NON_EMPTY_GROUP"]
    assert results(decided(empty(protocol_type="connect"), delete("sales"))) == ["NONE"]


@pytest.mark.parametrize(
    "group", [stable(), empty(), unknown_group()], ids=["live", "empty", "offsets without a group"]
)
def test_a_dry_run_of_a_deletion_is_answered_like_the_deletion_and_changes_nothing(group: Group) -> None:
    request = delete("orders", "sales")
    preview = decided(group, replace(request, is_dry_run=True))
    assert (preview.records, preview.group) == ((), group)
    assert results(preview) == results(decided(group, request))


def test_a_dry_run_of_a_deletion_is_refused_where_the_deletion_is() -> None:
    request = replace(delete("sales", stored=()), is_dry_run=True)
    assert replies_of(decided(unknown_group(), request)) == ["GROUP_ID_NOT_FOUND"]
    assert replies_of(decided(stable(A, protocol_type="connect"), request)) == ["NON_EMPTY_GROUP"]


def test_a_deletion_is_refused_as_a_whole_only_where_every_partition_is() -> None:
    asked = [delete("orders"), delete("orders", "sales"), delete("sales"), delete()]
    answers = [answer(decided(stable(), request)) for request in asked]
    assert [isinstance(one, DeleteOffsetsResponse) and one.is_refused for one in answers] == [True, False, False, False]


def test_the_empty_group_id_has_no_offsets_to_delete() -> None:
    assert replies_of(decided(Group(""), delete("orders"))) == ["INVALID_GROUP_ID"]


def test_deleted_group_archives_its_offsets_before_it_is_dead() -> None:
    decision = decided(empty(), DeleteGroup(TOKEN, (ORDERS, SALES), "change"))
    assert removed(decision) == [("orders", "group_deleted", "change"), ("sales", "group_deleted", "change")]
    assert decision.records[-1] == GroupDied(NOW.wall_ms, "deleted")


def test_the_empty_group_id_may_be_deleted() -> None:
    group = Group("").fold([GroupCreated(BORN_MS)])
    assert replies_of(decided(group, DeleteGroup(TOKEN, (), "change"))) == ["EmptyResponse"]


# -- what a maintenance run proposed ---------------------------------------------------------------------------

RETENTION = GroupSettings(offsets_retention_minutes=1)
OLD = stored_offset("orders", committed_at_ms=NOW.wall_ms - 60_000, version=4)
YOUNG = stored_offset("orders", committed_at_ms=NOW.wall_ms - 59_999, version=4)


def outcomes(group: Group, *stored: StoredOffset, version: int = 4) -> list[str]:
    """Return what becomes of the candidate orders 0, as of a commit version."""
    request = ExpireOffsets(TOKEN, (ExpiryCandidate("orders", 0, version),), stored, "change")
    found = answer(decided(group, request, RETENTION))
    assert isinstance(found, ExpireOffsetsResponse)
    return [one.outcome for one in found.outcomes]


def test_candidate_expires_if_it_is_due_now() -> None:
    assert outcomes(fresh(), OLD) == ["expired"]
    assert outcomes(fresh(), YOUNG) == ["not_due"]


def test_candidate_committed_since_is_kept() -> None:
    assert outcomes(fresh(), OLD, version=3) == ["committed_since"]


def test_candidate_without_an_offset_is_already_gone() -> None:
    assert outcomes(fresh()) == ["already_gone"]


def test_offsets_without_a_group_are_a_simple_group_s() -> None:
    assert outcomes(unknown_group(), OLD) == ["expired"]


@pytest.mark.parametrize("group", [preparing(), completing(), stable(), stable(A, protocol_type="connect")])
def test_topics_with_possible_subscribers_are_kept(group: Group) -> None:
    assert outcomes(group, OLD) == ["not_due"]


def test_expired_offset_is_archived_under_the_change_of_the_run() -> None:
    request = ExpireOffsets(TOKEN, (ExpiryCandidate("orders", 0, 4),), (OLD,), "change")
    assert removed(decided(fresh(), request, RETENTION)) == [("orders", "expired", "change")]


@pytest.mark.parametrize(
    ("group", "request_", "follows"),
    [
        (empty(), RetireGroup(TOKEN, has_offsets=False), "Dead 7; ExpireOffsetsResponse; GroupDied; no timer"),
        (empty(), RetireGroup(TOKEN, has_offsets=True), "Empty 7; ExpireOffsetsResponse; nothing; no timer"),
        (
            fresh(["h"]),
            RetireGroup(TOKEN, has_offsets=False),
            "Dead 0; ExpireOffsetsResponse; GroupDied; pending_member_id:h=off",
        ),
        (stable(), RetireGroup(TOKEN, has_offsets=False), "Stable 7; ExpireOffsetsResponse; nothing; no timer"),
        (dead(), RetireGroup(TOKEN, has_offsets=False), "Dead 7; ExpireOffsetsResponse; nothing; no timer"),
    ],
)
def test_a_group_is_retired_only_if_it_is_empty_and_has_no_offset_left(
    group: Group, request_: Request, follows: str
) -> None:
    """However young it is, and even if a pending member id is out: RT-07, RT-11."""
    assert summary_of(decided(group, request_)) == follows


@pytest.mark.parametrize(
    ("group", "seen", "becomes"),
    [
        (empty(), GroupSnapshot(7, empty().state_since_ms), "retired"),
        (empty(), GroupSnapshot(6, empty().state_since_ms), "woke_since"),
        (empty(), GroupSnapshot(7, empty().state_since_ms - 1), "woke_since"),
        (stable(), GroupSnapshot(7, stable().state_since_ms), "not_empty"),
        (fresh(["h"]), GroupSnapshot(0, fresh(["h"]).state_since_ms), "being_joined"),
        (unknown_group(), GroupSnapshot(7, 0), "already_gone"),
    ],
)
def test_proposed_group_is_retired_only_in_its_recorded_state(group: Group, seen: GroupSnapshot, becomes: str) -> None:
    found = answer(decided(group, RetireGroup(TOKEN, has_offsets=False, seen=seen)))
    assert isinstance(found, ExpireOffsetsResponse)
    assert [one.outcome for one in found.outcomes] == [becomes]


def test_group_with_new_offsets_is_kept() -> None:
    seen = GroupSnapshot(7, empty().state_since_ms)
    assert summary_of(decided(empty(), RetireGroup(TOKEN, has_offsets=True, seen=seen))).startswith("Empty 7")
