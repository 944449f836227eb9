"""Offsets are taken away by an operator's word, with their group, or by maintenance that is judged again.

Source: protocol.md sections 10.3, 10.4 and 11.
"""

from dataclasses import replace

import pytest

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import GroupCreated, GroupDied, OffsetRemoved
from coordinator_core.protocol.replies import OffsetsDeleted, OffsetsExpired
from coordinator_core.protocol.requests import (
    DeleteGroup,
    DeleteOffsets,
    ExpireOffsets,
    ExpiryCandidate,
    GroupSeen,
    Request,
    RetireGroup,
    StoredOffset,
)
from coordinator_core.protocol.settings import CataloguedTopic, Context, GroupSettings
from tests.unit.coordinator_core.protocol.groups import (
    BORN_MS,
    NOW,
    TOKEN,
    A,
    answer,
    ask,
    completing,
    dead,
    empty,
    fresh,
    join,
    nobody_saw,
    preparing,
    stable,
    stored_offset,
    tell,
    told,
    window,
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
    assert isinstance(found, OffsetsDeleted)
    return ["NONE" if one.error is None else one.error.code for one in found.offsets]


def test_a_live_group_keeps_the_offsets_of_topics_it_reads() -> None:
    decision = ask(stable(), delete("orders", "sales"))
    assert results(decision) == ["GROUP_SUBSCRIBED_TO_TOPIC", "NONE"]
    assert removed(decision) == [("sales", "deleted", "change")]


def test_an_offset_that_is_not_there_is_deleted_already() -> None:
    decision = ask(empty(), delete("orders", "sales", stored=(SALES,)))
    assert results(decision) == ["NONE", "NONE"]
    assert removed(decision) == [("sales", "deleted", "change")]


def test_a_partition_that_is_not_there_is_refused_as_such_but_one_that_was_committed_before_can_go() -> None:
    context = Context(GroupSettings(), {"orders": CataloguedTopic(2, 1)})
    partitions = (("orders", 2), ("orders", 3), ("orders", 1))
    beyond = DeleteOffsets(TOKEN, partitions, (stored_offset("orders", 3),), "change")
    asked = [decide(group, beyond, NOW, context) for group in (empty(), stable())]
    assert results(asked[0]) == ["UNKNOWN_TOPIC_OR_PARTITION", "NONE", "NONE"]
    assert results(asked[1]) == ["UNKNOWN_TOPIC_OR_PARTITION", *["GROUP_SUBSCRIBED_TO_TOPIC"] * 2]


def test_a_partition_named_twice_goes_to_the_archive_once() -> None:
    decision = ask(empty(), delete("orders", "orders"))
    assert results(decision) == ["NONE", "NONE"]
    assert removed(decision) == [("orders", "deleted", "change")]


def test_who_reads_what_is_unknown_until_the_first_join_phase_ends() -> None:
    """Unknown counts as everything: nobody's offsets are taken while it joins."""
    assert results(ask(window(A), delete("orders", "sales"))) == ["GROUP_SUBSCRIBED_TO_TOPIC"] * 2


@pytest.mark.parametrize(("was", "code"), [("consumer", "NONE"), ("connect", "GROUP_SUBSCRIBED_TO_TOPIC")])
def test_of_an_empty_group_it_is_known_that_nobody_reads_only_if_it_was_of_consumers(was: str, code: str) -> None:
    group = ask(empty(protocol_type=was), join(instance_id="S")).group
    assert results(ask(group, delete("orders"))) == [code]


def test_a_group_of_another_type_keeps_everything_while_it_has_members() -> None:
    assert told(ask(stable(A, protocol_type="connect"), delete("sales"))) == ["NON_EMPTY_GROUP"]
    assert results(ask(empty(protocol_type="connect"), delete("sales"))) == ["NONE"]


@pytest.mark.parametrize("group", [stable(), empty(), nobody_saw()], ids=["live", "empty", "offsets without a group"])
def test_a_dry_run_of_a_deletion_is_answered_like_the_deletion_and_changes_nothing(group: Group) -> None:
    request = delete("orders", "sales")
    told_before = ask(group, replace(request, is_dry_run=True))
    assert (told_before.records, told_before.group) == ((), group)
    assert results(told_before) == results(ask(group, request))


def test_a_dry_run_of_a_deletion_is_refused_where_the_deletion_is() -> None:
    request = replace(delete("sales", stored=()), is_dry_run=True)
    assert told(ask(nobody_saw(), request)) == ["GROUP_ID_NOT_FOUND"]
    assert told(ask(stable(A, protocol_type="connect"), request)) == ["NON_EMPTY_GROUP"]


def test_a_deletion_is_refused_as_a_whole_only_where_every_partition_is() -> None:
    asked = [delete("orders"), delete("orders", "sales"), delete("sales"), delete()]
    answers = [answer(ask(stable(), request)) for request in asked]
    assert [isinstance(one, OffsetsDeleted) and one.is_refused for one in answers] == [True, False, False, False]


def test_the_empty_group_id_has_no_offsets_to_delete() -> None:
    assert told(ask(Group(""), delete("orders"))) == ["INVALID_GROUP_ID"]


def test_a_deleted_group_s_offsets_go_with_it_and_its_death_comes_last() -> None:
    decision = ask(empty(), DeleteGroup(TOKEN, (ORDERS, SALES), "change"))
    assert removed(decision) == [("orders", "group_deleted", "change"), ("sales", "group_deleted", "change")]
    assert decision.records[-1] == GroupDied(NOW.wall_ms, "deleted")


def test_the_empty_group_id_may_be_deleted() -> None:
    group = Group("").fold([GroupCreated(BORN_MS)])
    assert told(ask(group, DeleteGroup(TOKEN, (), "change"))) == ["Done"]


# -- what a maintenance run proposed ---------------------------------------------------------------------------

RETENTION = GroupSettings(offsets_retention_minutes=1)
OLD = stored_offset("orders", committed_at_ms=NOW.wall_ms - 60_000, version=4)
YOUNG = stored_offset("orders", committed_at_ms=NOW.wall_ms - 59_999, version=4)


def outcomes(group: Group, *stored: StoredOffset, version: int = 4) -> list[str]:
    """Return what becomes of the candidate orders 0, as of a commit version."""
    request = ExpireOffsets(TOKEN, (ExpiryCandidate("orders", 0, version),), stored, "change")
    found = answer(ask(group, request, RETENTION))
    assert isinstance(found, OffsetsExpired)
    return [one.outcome for one in found.outcomes]


def test_a_candidate_goes_if_it_is_due_as_things_stand_now() -> None:
    assert outcomes(fresh(), OLD) == ["expired"]
    assert outcomes(fresh(), YOUNG) == ["not_due"]


def test_a_candidate_that_was_committed_since_stays() -> None:
    assert outcomes(fresh(), OLD, version=3) == ["committed_since"]


def test_a_candidate_that_is_gone_is_gone() -> None:
    assert outcomes(fresh()) == ["already_gone"]


def test_offsets_without_a_group_are_a_simple_group_s() -> None:
    assert outcomes(nobody_saw(), OLD) == ["expired"]


@pytest.mark.parametrize("group", [preparing(), completing(), stable(), stable(A, protocol_type="connect")])
def test_what_a_live_group_reads_or_may_read_stays(group: Group) -> None:
    assert outcomes(group, OLD) == ["not_due"]


def test_an_expired_offset_goes_to_the_archive_under_the_run_s_change() -> None:
    request = ExpireOffsets(TOKEN, (ExpiryCandidate("orders", 0, 4),), (OLD,), "change")
    assert removed(ask(fresh(), request, RETENTION)) == [("orders", "expired", "change")]


@pytest.mark.parametrize(
    ("group", "request_", "follows"),
    [
        (empty(), RetireGroup(TOKEN, has_offsets=False), "Dead 7; OffsetsExpired; GroupDied; no timer"),
        (empty(), RetireGroup(TOKEN, has_offsets=True), "Empty 7; OffsetsExpired; nothing; no timer"),
        (fresh(["h"]), RetireGroup(TOKEN, has_offsets=False), "Dead 0; OffsetsExpired; GroupDied; handshake:h=off"),
        (stable(), RetireGroup(TOKEN, has_offsets=False), "Stable 7; OffsetsExpired; nothing; no timer"),
        (dead(), RetireGroup(TOKEN, has_offsets=False), "Dead 7; OffsetsExpired; nothing; no timer"),
    ],
)
def test_a_group_is_retired_only_if_it_is_empty_and_has_no_offset_left(
    group: Group, request_: Request, follows: str
) -> None:
    """However young it is, and even if a handshake id is out: RT-07, RT-11."""
    assert tell(ask(group, request_)) == follows


@pytest.mark.parametrize(
    ("group", "seen", "becomes"),
    [
        (empty(), GroupSeen(7, empty().state_since_ms), "retired"),
        (empty(), GroupSeen(6, empty().state_since_ms), "woke_since"),
        (empty(), GroupSeen(7, empty().state_since_ms - 1), "woke_since"),
        (stable(), GroupSeen(7, stable().state_since_ms), "not_empty"),
        (fresh(["h"]), GroupSeen(0, fresh(["h"]).state_since_ms), "being_joined"),
        (nobody_saw(), GroupSeen(7, 0), "already_gone"),
    ],
)
def test_a_group_that_was_proposed_is_retired_only_as_it_was_seen(group: Group, seen: GroupSeen, becomes: str) -> None:
    found = answer(ask(group, RetireGroup(TOKEN, has_offsets=False, seen=seen)))
    assert isinstance(found, OffsetsExpired)
    assert [one.outcome for one in found.outcomes] == [becomes]


def test_a_group_that_has_offsets_again_stays() -> None:
    seen = GroupSeen(7, empty().state_since_ms)
    assert tell(ask(empty(), RetireGroup(TOKEN, has_offsets=True, seen=seen))).startswith("Empty 7")
