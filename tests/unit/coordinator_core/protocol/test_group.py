"""A group is the fold of its records, and folding leaves the original group unchanged."""

from dataclasses import replace

import pytest

from coordinator_core.protocol.decision import Draft
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.records import (
    GroupRecord,
    MemberJoined,
    MemberRemoved,
    PendingMemberAdded,
    RemovalReason,
)
from coordinator_core.protocol.requests import DeadlineKind, Request
from coordinator_core.protocol.settings import Context
from tests.unit.coordinator_core.protocol.groups import (
    BORN_MS,
    GROUP_ID,
    HELD,
    NOW,
    ask,
    completing,
    expire,
    fresh,
    join,
    leave,
    member,
    offers,
    preparing,
    stable,
    sync,
    unknown_group,
)


def picture(group: Group) -> dict[str, object]:
    """Return all of a group, apart from the group."""
    return {name: getattr(group.copy(), name) for name in Group.FIELDS}


@pytest.mark.parametrize(
    ("group", "request_"),
    [
        (unknown_group(), join()),
        (stable(), leave("a", "s")),
        (preparing(joined=["a", "s"], pending=["h"]), expire(DeadlineKind.JOIN)),
        (completing(synced=["b", "s"]), sync("a", *HELD.items())),
        (completing(synced=["b"]), join(instance_id="S")),
        (stable(), join("b", protocols=offers("range", "sticky"))),
    ],
)
def test_a_decision_leaves_the_group_it_was_made_on_alone(group: Group, request_: Request) -> None:
    before = picture(group)
    assert ask(group, request_).group is not group
    assert picture(group) == before


@pytest.mark.parametrize("name", sorted(Group.CONTAINERS))
@pytest.mark.parametrize("changes_the_copy", [True, False], ids=["the copy", "what it is a copy of"])
def test_a_container_is_shared_until_one_of_both_changes_it(name: str, changes_the_copy: bool) -> None:
    group = stable()
    twin = group.copy()
    assert getattr(twin, name) is getattr(group, name)
    (twin if changes_the_copy else group)._own(name)
    assert getattr(twin, name) is not getattr(group, name)
    assert getattr(twin, name) == getattr(group, name)


def test_there_is_no_other_container() -> None:
    group = stable()
    assert {name for name in Group.FIELDS if isinstance(getattr(group, name), dict | set | list)} == Group.CONTAINERS


def test_a_draft_that_emits_nothing_keeps_the_very_group() -> None:
    group = stable()
    draft = Draft(group, NOW, Context())
    draft.start(DeadlineKind.JOIN, 5)
    assert draft.decision().group is group


def test_of_two_words_about_a_timer_the_last_one_counts() -> None:
    draft = Draft(stable(), NOW, Context())
    draft.start(DeadlineKind.JOIN, 5)
    draft.stop(DeadlineKind.JOIN)
    draft.start(DeadlineKind.JOIN, 7)
    ((deadline, delay_ms),) = draft.decision().deadlines
    assert (deadline.kind, deadline.subject, delay_ms) == (DeadlineKind.JOIN, "", 7)


def test_empty_group_takes_the_protocol_type_of_the_next_member() -> None:
    group = fresh().fold([MemberJoined(member("a"), "connect"), MemberJoined(member("b"), "other")])
    assert group.protocol_type == "connect"


def counted(*members: Member) -> dict[str, int]:
    joins: list[GroupRecord] = [MemberJoined(one, "consumer") for one in members]
    return fresh().fold(joins).supported_protocols


def test_offers_are_counted_once_a_member_however_often_it_names_them() -> None:
    twice = offers("range", "sticky", "range")
    assert counted(member("a", protocols=twice), member("b")) == {"range": 2, "sticky": 1}


def test_removed_member_no_longer_counts_for_protocols() -> None:
    group = fresh().fold([MemberJoined(member("a", protocols=offers("x")), "consumer"), MemberJoined(member("b"), "")])
    assert group.fold([MemberRemoved(BORN_MS, "a", RemovalReason.LEFT)]).supported_protocols == {"range": 1}


def test_only_protocols_that_every_member_supports_are_candidates() -> None:
    group = stable(member("a", protocols=offers("x", "y")), member("b", protocols=offers("y", "z")))
    assert group.candidate_protocols() == frozenset({"y"})


def test_never_seen_group_does_not_exist_and_a_dead_one_did() -> None:
    assert not Group(GROUP_ID).exists
    assert fresh().fold([PendingMemberAdded("h")]).exists


def test_a_member_has_the_metadata_of_each_protocol_apart() -> None:
    both = (offers("x", topics=("a",))[0], offers("y", topics=("b",))[0])
    one = replace(member("a"), protocols=both)
    assert (one.metadata_for("y"), one.metadata_for("z"), one.metadata_for(None)) == (both[1].metadata, b"", b"")
