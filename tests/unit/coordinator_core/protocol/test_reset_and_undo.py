"""Resets of an Empty group's offsets, and undoing changes of offsets.

Source: http-api.md "Resetting offsets", "Undoing a change"; Kafka's ``kafka-consumer-groups --reset-offsets``.
"""

import pytest

from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.records import GroupCreated, OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import (
    ExpiryCandidate,
    OffsetToCommit,
    OffsetToRestore,
    PartitionToReset,
    RemoveTopicOffsets,
    ResetOffsets,
    ResetTo,
    RestoreOffsets,
    StoredOffset,
)
from coordinator_core.protocol.responses import ExpireOffsetsResponse, ResetOffsetsResponse, RestoreOffsetsResponse
from coordinator_core.protocol.settings import Context, GroupSettings, TopicMetadata
from tests.unit.coordinator_core.protocol.groups import (
    NOW,
    TOKEN,
    A,
    answer,
    completing,
    dead,
    decided,
    delayed,
    empty,
    preparing,
    replies_of,
    reply,
    stable,
    stored_offset,
    summary_of,
    unknown_group,
)

ORDERS = stored_offset("orders")
"""At 5."""


def detail(decision: Decision) -> str:
    """Return the sentence of an error."""
    return str(reply(decision).answer)


def committed(decision: Decision) -> list[tuple[str, int]]:
    commits = [record for record in decision.records if isinstance(record, OffsetsCommitted)]
    return [(one.topic, one.offset) for commit in commits for one in commit.offsets]


def removed(decision: Decision) -> list[tuple[str, int, str]]:
    return [
        (one.offset.topic, one.offset.offset, one.cause) for one in decision.records if isinstance(one, OffsetRemoved)
    ]


# -- reset ------------------------------------------------------------------------------------------------


def reset(
    to: ResetTo, amount: int = 0, *, known: PartitionToReset | None = None, stored: tuple[StoredOffset, ...] = (ORDERS,)
) -> ResetOffsets:
    partition = known or PartitionToReset(
        "orders", 0, log_start_offset=2, log_end=LogEnd(NOW.wall_ms, 90), offset_at_datetime=40, given=33
    )
    return ResetOffsets(TOKEN, to, amount, (partition,), (), stored, "change")


def results(decision: Decision) -> list[tuple[int | None, int, str | None]]:
    found = answer(decision)
    assert isinstance(found, ResetOffsetsResponse)
    return [(one.old_offset, one.new_offset, one.note) for one in found.offsets]


@pytest.mark.parametrize(
    ("to", "amount", "offset"),
    [
        (ResetTo.EARLIEST, 0, 2),
        (ResetTo.LATEST, 0, 90),
        (ResetTo.OFFSET, 7, 7),
        (ResetTo.SHIFT, 3, 8),
        (ResetTo.SHIFT, -3, 2),
        (ResetTo.DATETIME, 0, 40),
        (ResetTo.CURRENT, 0, 5),
        (ResetTo.GIVEN, 0, 33),
    ],
)
def test_reset_moves_to_the_given_target(to: ResetTo, amount: int, offset: int) -> None:
    decision = decided(empty(), reset(to, amount))
    assert results(decision) == [(5, offset, None)]
    assert removed(decision) == [("orders", 5, "reset")]
    assert committed(decision) == [("orders", offset)]


@pytest.mark.parametrize(
    ("to", "amount", "offset", "wanted"),
    [
        (ResetTo.OFFSET, 1, 2, 1),
        (ResetTo.OFFSET, 91, 90, 91),
        (ResetTo.SHIFT, -6, 2, -1),
        (ResetTo.SHIFT, 2**63 - 1, 90, 2**63 + 4),
    ],
)
def test_reset_outside_of_the_log_moves_to_the_nearer_end_with_a_note(
    to: ResetTo, amount: int, offset: int, wanted: int
) -> None:
    assert results(decided(empty(), reset(to, amount))) == [(5, offset, f"{wanted} is outside of the log")]


@pytest.mark.parametrize(
    ("age_ms", "age"),
    [
        (300_000, None),
        (300_001, "5 minutes"),
        (7_199_999, "119 minutes"),
        (7_200_000, "2 hours"),
        (30 * 86_400_000, "30 days"),
    ],
)
def test_reset_to_an_old_log_end_has_a_note_of_its_age(age_ms: int, age: str | None) -> None:
    known = PartitionToReset("orders", 0, log_end=LogEnd(NOW.wall_ms - age_ms, 90))
    note = age and f"the end of the log was last reported {age} ago, and may be further on"
    assert results(decided(empty(), reset(ResetTo.LATEST, known=known))) == [(5, 90, note)]


def test_unknown_log_end_is_taken_as_the_largest_offset() -> None:
    known = PartitionToReset("orders", 0)
    assert results(decided(empty(), reset(ResetTo.SHIFT, 2**63 - 1, known=known)))[0][1] == 2**63 - 1


@pytest.mark.parametrize("to", [ResetTo.LATEST, ResetTo.SHIFT, ResetTo.DATETIME, ResetTo.CURRENT, ResetTo.GIVEN])
def test_unknown_target_is_refused_with_the_partition_name(to: ResetTo) -> None:
    decision = decided(empty(), reset(to, known=PartitionToReset("orders", 3), stored=()))
    assert replies_of(decision) == ["INVALID_REQUEST"]
    assert detail(decision).startswith("orders 3: ")
    assert decision.records == ()


def test_reset_to_current_uses_the_log_end_without_a_committed_offset() -> None:
    assert results(decided(empty(), reset(ResetTo.CURRENT, stored=()))) == [(None, 90, None)]


def test_one_rejected_partition_rejects_the_whole_reset() -> None:
    partitions = (PartitionToReset("orders", 0, log_end=LogEnd(NOW.wall_ms, 9)), PartitionToReset("sales", 0))
    decision = decided(empty(), ResetOffsets(TOKEN, ResetTo.LATEST, 0, partitions, (), (ORDERS,), "change"))
    assert (replies_of(decision), decision.records) == (["INVALID_REQUEST"], ())


def test_a_partition_beyond_the_topic_metadata_count_is_refused() -> None:
    context = Context(GroupSettings(), {"orders": TopicMetadata(1, 1)}, 1)
    decision = decide(empty(), reset(ResetTo.EARLIEST, known=PartitionToReset("orders", 1)), NOW, context)
    assert replies_of(decision) == ["UNKNOWN_TOPIC_OR_PARTITION"]


def test_unknown_topic_is_refused_with_its_name() -> None:
    decision = decided(empty(), ResetOffsets(TOKEN, ResetTo.EARLIEST, 0, (), ("unheard",), (), "change"))
    assert replies_of(decision) == ["UNKNOWN_TOPIC_OR_PARTITION"]
    assert "unheard" in detail(decision)


def test_dry_run_reports_the_same_and_stores_nothing() -> None:
    wet = reset(ResetTo.SHIFT, 1)
    dry = ResetOffsets(TOKEN, wet.to, 1, wet.partitions, (), wet.stored, "", is_dry_run=True)
    group = empty()
    decision = decided(group, dry)
    assert answer(decision) == answer(decided(group, wet))
    assert decision.records == ()
    assert decision.group is group


@pytest.mark.parametrize("group", [preparing(), completing(), stable(), delayed(A)])
@pytest.mark.parametrize("is_dry_run", [True, False])
def test_a_group_with_members_is_not_reset(group: Group, is_dry_run: bool) -> None:
    known = (PartitionToReset("orders", 0),)
    request = ResetOffsets(TOKEN, ResetTo.EARLIEST, 0, known, (), (), "change", is_dry_run)
    assert replies_of(decided(group, request)) == ["NON_EMPTY_GROUP"]


def test_unknown_group_is_created_by_its_reset() -> None:
    """As Kafka's tool does: positions for a consumer that is yet to come."""
    assert summary_of(decided(unknown_group(), reset(ResetTo.EARLIEST, stored=()))) == (
        "Empty 0; ResetOffsetsResponse; GroupCreated OffsetsCommitted; no timer"
    )


def test_unknown_group_without_topics_is_not_found() -> None:
    assert replies_of(decided(unknown_group(), ResetOffsets(TOKEN, ResetTo.EARLIEST, 0, (), (), (), "change"))) == [
        "GROUP_ID_NOT_FOUND"
    ]


def test_reset_of_a_dead_group_is_retriable() -> None:
    assert replies_of(decided(dead(), reset(ResetTo.EARLIEST))) == ["COORDINATOR_NOT_AVAILABLE"]
    assert replies_of(decided(Group(""), reset(ResetTo.EARLIEST))) == ["INVALID_GROUP_ID"]


# -- undo -------------------------------------------------------------------------------------------------

TAKEN = OffsetToRestore("orders", 0, 5, 3, "noted", 90)
"""An offset that was deleted and not committed since."""
MOVED = TAKEN._replace(offset_after_change=8, changed_at_ms=NOW.wall_ms - 1)
"""An offset that was replaced by a recent reset to 8."""
AT_8 = stored_offset("orders", committed_at_ms=NOW.wall_ms - 1)._replace(offset=8)


def undo(
    *offsets: OffsetToRestore, stored: tuple[StoredOffset, ...] = (), is_maintenance_run: bool = False
) -> RestoreOffsets:
    return RestoreOffsets(TOKEN, offsets, stored, "undo", is_maintenance_run)


def outcomes(decision: Decision) -> list[str]:
    found = answer(decision)
    assert isinstance(found, RestoreOffsetsResponse)
    return [one.outcome for one in found.offsets]


def test_restored_offset_expires_after_one_retention() -> None:
    decision = decided(empty(), undo(TAKEN), GroupSettings(offsets_retention_minutes=1))
    assert outcomes(decision) == ["restored"]
    position = OffsetToCommit("orders", 0, 5, 3, "noted", 90)
    assert decision.records == (OffsetsCommitted(NOW.wall_ms, "", NOW.wall_ms + 60_000, (position,)),)


def test_restored_offset_has_no_expiry_with_unlimited_retention() -> None:
    (record,) = decided(empty(), undo(TAKEN), GroupSettings(offsets_retention_minutes=-1)).records
    assert isinstance(record, OffsetsCommitted)
    assert record.expires_at_ms is None


def test_undo_of_a_reset_archives_the_offsets_that_it_committed() -> None:
    decision = decided(empty(), undo(MOVED, stored=(AT_8,)))
    assert (outcomes(decision), removed(decision), committed(decision)) == (
        ["restored"],
        [("orders", 8, "undone")],
        [("orders", 5)],
    )


def test_undo_of_a_reset_removes_offsets_that_did_not_exist() -> None:
    decision = decided(empty(), undo(MOVED._replace(offset=None), stored=(AT_8,)))
    assert (outcomes(decision), removed(decision), committed(decision)) == (["removed"], [("orders", 8, "undone")], [])


@pytest.mark.parametrize(
    ("offset", "stored", "outcome"),
    [
        (TAKEN, (ORDERS,), "newer_there"),
        (MOVED, (AT_8._replace(offset=9),), "newer_there"),
        (MOVED, (AT_8._replace(committed_at_ms=NOW.wall_ms),), "newer_there"),
        (MOVED, (), "gone_since"),
    ],
)
def test_restore_keeps_newer_offsets(offset: OffsetToRestore, stored: tuple[StoredOffset, ...], outcome: str) -> None:
    decision = decided(empty(), undo(offset, stored=stored))
    assert (outcomes(decision), decision.records) == ([outcome], ())


def test_restore_creates_the_group_again() -> None:
    decision = decided(unknown_group(), undo(TAKEN))
    assert decision.records[0] == GroupCreated(NOW.wall_ms)
    assert summary_of(decision) == "Empty 0; RestoreOffsetsResponse; GroupCreated OffsetsCommitted; no timer"


def test_restore_of_nothing_creates_no_group() -> None:
    assert summary_of(decided(unknown_group(), undo())) == "Dead 0; RestoreOffsetsResponse; nothing; no timer"


def test_subscribed_offset_is_not_restored() -> None:
    sales = TAKEN._replace(topic="sales")
    assert replies_of(decided(stable(), undo(TAKEN))) == ["NON_EMPTY_GROUP"]
    assert outcomes(decided(stable(), undo(TAKEN, sales))) == ["group_active", "restored"]
    assert outcomes(decided(stable(), undo(TAKEN, is_maintenance_run=True))) == ["group_active"]


def test_new_members_of_an_empty_group_may_subscribe_to_anything() -> None:
    assert outcomes(decided(delayed(A), undo(TAKEN, is_maintenance_run=True))) == ["group_active"]


def test_removed_partition_is_not_assigned_again() -> None:
    context = Context(GroupSettings(), {"orders": TopicMetadata(1, 1)}, 1)
    decision = decide(empty(), undo(TAKEN._replace(partition=1)), NOW, context)
    assert outcomes(decision) == ["no_such_partition"]


def test_dead_group_restores_no_offsets() -> None:
    assert replies_of(decided(dead(), undo(TAKEN))) == ["COORDINATOR_NOT_AVAILABLE"]


# -- deleted topics ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("group", [unknown_group(), empty(), preparing(), completing(), stable()])
def test_offsets_of_a_deleted_topic_are_deleted_except_later_commits(group: Group) -> None:
    candidates = tuple(ExpiryCandidate("orders", partition, 1) for partition in range(3))
    newer = stored_offset("orders", 1, version=2)
    decision = decided(group, RemoveTopicOffsets(TOKEN, candidates, (ORDERS, newer), "change"))
    found = answer(decision)
    assert isinstance(found, ExpireOffsetsResponse)
    assert [one.outcome for one in found.outcomes] == ["removed", "committed_since", "already_gone"]
    assert removed(decision) == [("orders", 5, "topic_deleted")]
