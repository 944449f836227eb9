"""A group is the fold of its records, and folding leaves the original group unchanged."""

import pytest
from msgspec.structs import replace

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
    completing,
    decided,
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
def test_decision_does_not_change_its_input_group(group: Group, request_: Request) -> None:
    before = picture(group)
    assert decided(group, request_).group is not group
    assert picture(group) == before


@pytest.mark.parametrize("name", sorted(Group.CONTAINERS))
@pytest.mark.parametrize("changes_the_copy", [True, False], ids=["the copy", "what it is a copy of"])
def test_containers_are_copied_on_write(name: str, changes_the_copy: bool) -> None:
    group = stable()
    twin = group.copy()
    assert getattr(twin, name) is getattr(group, name)
    (twin if changes_the_copy else group)._own(name)
    assert getattr(twin, name) is not getattr(group, name)
    assert getattr(twin, name) == getattr(group, name)


def test_containers_of_a_group_are_listed() -> None:
    group = stable()
    assert {name for name in Group.FIELDS if isinstance(getattr(group, name), dict | set | list)} == Group.CONTAINERS


def test_draft_without_records_returns_the_same_group() -> None:
    group = stable()
    draft = Draft(group, NOW, Context())
    draft.start(DeadlineKind.JOIN, 5)
    assert draft.decision().group is group


def test_last_change_of_a_timer_is_effective() -> None:
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


def test_repeated_protocol_of_a_member_counts_once() -> None:
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


def test_member_has_metadata_by_protocol() -> None:
    both = (offers("x", topics=("a",))[0], offers("y", topics=("b",))[0])
    one = replace(member("a"), protocols=both)
    assert (one.metadata_for("y"), one.metadata_for("z"), one.metadata_for(None)) == (both[1].metadata, b"", b"")


def test_member_of_a_new_generation_keeps_all_but_its_assignment() -> None:
    values = {name: f"a value of {name}" for name in Member.__struct_fields__}
    known = Member(**values)  # type: ignore[arg-type]  # a value of its own for each field
    assert known.in_new_generation() == replace(known, assignment=b"", is_new=False, in_generation=True)
