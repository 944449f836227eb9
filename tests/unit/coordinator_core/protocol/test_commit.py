"""OffsetCommit, beyond the table: each partition has its own result, and the record is complete.

Source: protocol.md sections 10.1 and 18.
"""

import pytest
from msgspec.structs import replace

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import UnknownMemberId
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit, StoredOffset
from coordinator_core.protocol.responses import CommitOffsetsResponse
from coordinator_core.protocol.settings import Context, GroupSettings, TopicMetadata
from tests.unit.coordinator_core.protocol.groups import (
    NOW,
    answer,
    commit,
    decided,
    empty,
    fresh,
    preparing,
    recorded,
    replies_of,
    reply,
    stable,
    timed,
)

SHORT = GroupSettings(offset_metadata_max_bytes=3)


def errors(decision: Decision) -> dict[int, str]:
    """Return index of a requested offset → its error."""
    found = answer(decision)
    assert isinstance(found, CommitOffsetsResponse)
    return {place: error.code for place, error in found.errors.items()}


def test_record_has_everything_that_was_committed() -> None:
    decision = decided(stable(), commit("b", 7, None, OffsetToCommit("orders", 3, 42, 5, "note", 99)))
    assert decision.records == (
        OffsetsCommitted(NOW.wall_ms, "b", None, (OffsetToCommit("orders", 3, 42, 5, "note", 99),)),
    )


def test_an_offset_s_own_time_to_live_counts_from_now() -> None:
    (record,) = decided(empty(), commit("", -1, retention_ms=1_000)).records
    assert isinstance(record, OffsetsCommitted)
    assert record.expires_at_ms == NOW.wall_ms + 1_000


def test_time_to_live_of_0_expires_at_once() -> None:
    (record,) = decided(empty(), commit("", -1, retention_ms=0)).records
    assert isinstance(record, OffsetsCommitted)
    assert record.expires_at_ms == NOW.wall_ms


def test_commit_from_outside_into_a_live_group_is_rejected_with_reason() -> None:
    refused = reply(decided(stable(), commit("", -1))).answer
    assert isinstance(refused, UnknownMemberId)
    assert refused.detail == "the group has members; only they may commit"


def test_an_offset_lives_until_the_year_9999_at_the_latest() -> None:
    """Postgres and Python cannot represent a later time, and one commit must not unload the shard."""
    (record,) = decided(empty(), commit("", -1, retention_ms=2**62)).records
    assert isinstance(record, OffsetsCommitted)
    assert record.expires_at_ms == 253_402_300_799_000


def test_metadata_is_limited_in_characters_with_the_limit_included() -> None:
    fine, wide, long = (OffsetToCommit("orders", n, 1, metadata=text) for n, text in enumerate(["abc", "äöü", "abcd"]))
    decision = decided(stable(), commit("b", 7, None, fine, wide, long), SHORT)
    assert errors(decision) == {2: "OFFSET_METADATA_TOO_LARGE"}
    (record,) = decision.records
    assert isinstance(record, OffsetsCommitted)
    assert record.offsets == (fine, wide)


def test_metadata_is_measured_as_java_does() -> None:
    """A character beyond U+FFFF has a length of two in Java."""
    texts = ["a\N{ROCKET}", "\N{ROCKET}" * 2]
    fine, long = (OffsetToCommit("orders", n, 1, metadata=text) for n, text in enumerate(texts))
    assert errors(decided(stable(), commit("b", 7, None, fine, long), SHORT)) == {1: "OFFSET_METADATA_TOO_LARGE"}


def test_only_a_partition_beyond_a_known_count_is_refused() -> None:
    context = Context(GroupSettings(), {"orders": TopicMetadata(2, 1)})
    known, beyond, unknown = (OffsetToCommit(*where, 1) for where in [("orders", 1), ("orders", 2), ("sales", 99)])
    decision = decide(stable(), commit("b", 7, None, known, beyond, unknown), NOW, context)
    assert errors(decision) == {1: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_unknown_partition_is_the_first_error_of_a_partition() -> None:
    """Kafka checks the topic before the coordinator gets the commit."""
    context = Context(SHORT, {"orders": TopicMetadata(2, 1)})
    beyond = OffsetToCommit("orders", 2, 1, metadata="long")
    assert errors(decide(stable(), commit("b", 7, None, beyond), NOW, context)) == {0: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_empty_commit_of_a_non_member_creates_the_group() -> None:
    decision = decided(Group("g"), commit("", -1, None, OffsetToCommit("orders", 0, 1, metadata="long")), SHORT)
    assert recorded(decision) == ["GroupCreated"]


def test_the_empty_group_id_may_commit() -> None:
    assert replies_of(decided(Group(""), commit("", -1))) == ["CommitOffsetsResponse"]


@pytest.mark.parametrize("group", [empty(), fresh()], ids=["left", "fresh"])
def test_a_commit_from_outside_does_not_change_an_empty_group(group: Group) -> None:
    decision = decided(group, commit("unknown", -1, "X"))
    assert replies_of(decision) == ["CommitOffsetsResponse"]
    assert decision.group is group


def test_the_old_generation_may_commit_while_the_group_rebalances() -> None:
    decision = decided(preparing(), commit("b"), GroupSettings(session_timeout_ms=7_000))
    assert replies_of(decision) == ["CommitOffsetsResponse"]
    assert timed(decision) == {"session:b": 7_000}


def test_commit_of_a_change_archives_what_it_replaces() -> None:
    """A partition that is refused keeps its offset."""
    small = Context(GroupSettings(), {"orders": TopicMetadata(1, 1)})
    old = [StoredOffset("orders", number, 40, -1, "", None, 1, None, 1) for number in (0, 1)]
    offsets = (OffsetToCommit("orders", 0, 30), OffsetToCommit("orders", 1, 30))
    request = replace(commit("", -1, None, *offsets), change_id="a-change", replaced=tuple(old))
    decision = decide(empty(), request, NOW, small)
    assert decision.records == (
        OffsetRemoved(NOW.wall_ms, old[0], "reset", "a-change"),
        OffsetsCommitted(NOW.wall_ms, "", None, offsets[:1]),
    )
