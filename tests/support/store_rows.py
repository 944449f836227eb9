"""Rows for tests: each builder fills in what a test does not care about."""

from collections.abc import Collection
from typing import Any, NamedTuple
from uuid import NAMESPACE_OID, uuid5

from msgspec.structs import replace

from coordinator_core.protocol.records import OffsetRemoved, OffsetsCommitted
from coordinator_core.protocol.requests import GroupSnapshot, OffsetToCommit, StoredOffset, SupportedProtocol
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.offset_log import LoggedCommits, encode
from coordinator_core.state_store.rows import (
    ChangeRow,
    GroupRow,
    GroupWrite,
    MemberRow,
    MemberSessionRow,
    PartitionOwnershipRow,
    RebalanceMemberRow,
    RebalanceRow,
    StoredGroup,
    TransitionRow,
)
from coordinator_core.state_store.runs import GROUP_CLEANUP, WHOLE_GROUP, CandidateRow, OutcomeRow, RunRow

NOW_MS = 1_790_000_000_123
"""An instant in 2026, 20.123 seconds after a full minute."""

MINUTE_MS = 60_000
SHARD = 7


def uuid_of(name: str) -> str:
    """Return the same UUID for the same name, always."""
    return str(uuid5(NAMESPACE_OID, name))


def loaded(store: Store, shard_ids: Collection[int]) -> list[StoredGroup]:
    """Load shards of which every group can be read."""
    found = store.load_shards(shard_ids)
    readable = [one for one in found if isinstance(one, StoredGroup)]
    assert len(readable) == len(found)
    return readable


def group_row(group_id: str = "orders", **given: object) -> GroupRow:
    row: dict[str, Any] = {
        "group_id": group_id,
        "shard_id": SHARD,
        "state": "Stable",
        "state_since_ms": NOW_MS,
        "state_before_join_phase": "Stable",
        "generation": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "leader_id": "m-1",
        "member_count": 1,
        "subscribed_topics": ("clicks",),
        "topics_version": 0,
        "must_rebalance": False,
        "rebalance_started_at_ms": None,
        "rebalance_trigger": None,
        "rebalance": None,
        "created_at_ms": NOW_MS,
    }
    row.update(given)
    return GroupRow(**row)


def member_row(member_id: str = "m-1", group_id: str = "orders", **given: object) -> MemberRow:
    row: dict[str, Any] = {
        "group_id": group_id,
        "shard_id": SHARD,
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "127.0.0.1",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "protocols": (SupportedProtocol("range", b'\x00\xff\\"{},'), SupportedProtocol('"{},\\', b"")),
        "assignment": b"\x00\x01",
        "subscription_json": {"topics": ["clicks"]},
        "assignment_json": [{"topic": "clicks", "partitions": [0, 1]}],
        "assigned_since_ms": NOW_MS,
        "ownership": [],
        "joined_at_ms": NOW_MS,
        "join_order": 0,
    }
    row.update(given)
    return MemberRow(**row)


def committed(topic: str = "clicks", partition: int = 0, offset: int = 1, **given: object) -> OffsetsCommitted:
    common: dict[str, Any] = {"at_ms": NOW_MS, "member_id": "m-1", "expires_at_ms": None}
    own: dict[str, Any] = {}
    for name, value in given.items():
        (common if name in common else own)[name] = value
    return OffsetsCommitted(**common, offsets=(OffsetToCommit(topic, partition, offset, **own),))


def together(*commits: OffsetsCommitted) -> OffsetsCommitted:
    """Return commits as a single one, which has of all but positions what the first of them has."""
    return replace(commits[0], offsets=tuple(one for commit in commits for one in commit.offsets))


def removed(offset: StoredOffset, change: str = "delete", **given: object) -> OffsetRemoved:
    record: dict[str, Any] = {"at_ms": NOW_MS, "offset": offset, "cause": "deleted", "change_id": uuid_of(change)}
    record.update(given)
    return OffsetRemoved(**record)


def transition_row(group_id: str = "orders", **given: object) -> TransitionRow:
    row: dict[str, Any] = {
        "group_id": group_id,
        "shard_id": SHARD,
        "group_created_at_ms": NOW_MS,
        "at_ms": NOW_MS,
        "generation": 1,
        "from_state": "Empty",
        "to_state": "PreparingRebalance",
        "reason": "member_joined",
        "member_id": "m-1",
    }
    row.update(given)
    return TransitionRow(**row)


def rebalance_row(name: str = "first", group_id: str = "orders", **given: object) -> RebalanceRow:
    row: dict[str, Any] = {
        "rebalance_id": uuid_of(name),
        "group_id": group_id,
        "shard_id": SHARD,
        "group_created_at_ms": NOW_MS,
        "generation": 1,
        "trigger": "member_joined",
        "trigger_member_id": "m-1",
        "client_reason": 'he said "yes", {no}\\',
        "started_at_ms": NOW_MS,
        "joined_at_ms": None,
        "completed_at_ms": NOW_MS + 3_000,
        "outcome": "completed",
        "restarts": 0,
        "member_count_before": 0,
        "member_count_after": 1,
        "partitions_moved": 2,
    }
    row.update(given)
    return RebalanceRow(**row)


def ownership_row(group_id: str = "orders", **given: object) -> PartitionOwnershipRow:
    row: dict[str, Any] = {
        "group_id": group_id,
        "shard_id": SHARD,
        "group_created_at_ms": NOW_MS,
        "rebalance_id": uuid_of("first"),
        "generation": 1,
        "member_id": "m-1",
        "topic": "clicks",
        "partitions": (0, 1),
        "valid_from_ms": NOW_MS,
        "valid_to_ms": NOW_MS + 5_000,
    }
    row.update(given)
    return PartitionOwnershipRow(**row)


def part_row(member_id: str = "m-1", rebalance: str = "first", **given: object) -> RebalanceMemberRow:
    row: dict[str, Any] = {
        "rebalance_id": uuid_of(rebalance),
        "group_id": "orders",
        "shard_id": SHARD,
        "group_created_at_ms": NOW_MS,
        "completed_at_ms": NOW_MS + 3_000,
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "10.0.0.1",
        "joined_after_ms": 2_000,
        "synced_after_ms": None,
        "waited_for_ms": 1_500,
        "outcome": "joined",
    }
    row.update(given)
    return RebalanceMemberRow(**row)


def session_row(member_id: str = "m-1", group_id: str = "orders", **given: object) -> MemberSessionRow:
    row: dict[str, Any] = {
        "group_id": group_id,
        "shard_id": SHARD,
        "group_created_at_ms": NOW_MS,
        "member_id": member_id,
        "group_instance_id": None,
        "client_id": "client",
        "client_host": "127.0.0.1",
        "generation": 1,
        "session_timeout_ms": 45_000,
        "joined_at_ms": NOW_MS,
        "started_at_ms": NOW_MS,
        "ended_at_ms": NOW_MS + 9_000,
        "end_reason": "left",
        "last_heartbeat_at_ms": NOW_MS + 8_000,
        "heartbeat_count": 3,
        "heartbeat_gap_ms_max": 3_001,
        "heartbeat_gap_histogram": (0, 2, 1),
    }
    row.update(given)
    return MemberSessionRow(**row)


def change_row(name: str = "change", **given: object) -> ChangeRow:
    row: dict[str, Any] = {
        "change_id": uuid_of(name),
        "at_ms": NOW_MS,
        "actor": "night shift",
        "action": "put",
        "group_id": None,
        "before": None,
        "after": None,
        "reason": "a drill",
    }
    row.update(given)
    return ChangeRow(**row)


def run_row(name: str = "run", **given: object) -> RunRow:
    row: dict[str, Any] = {
        "run_id": uuid_of(name),
        "kind": "offset_retention",
        "as_of_ms": NOW_MS,
        "interval_start_ms": None,
        "interval_end_ms": given.get("as_of_ms", NOW_MS),
        "status": "proposed",
        "dry_run": False,
        "counts": {"candidates": 2},
    }
    row.update(given)
    return RunRow(**row)


def candidate(partition: int, group_id: str = "orders", *, run: str = "run", shard_id: int = SHARD) -> CandidateRow:
    return CandidateRow(uuid_of(run), uuid_of("apply"), shard_id, group_id, "clicks", partition, 1)


def retirement(group_id: str = "orders", *, run: str = "run", shard_id: int = SHARD) -> CandidateRow:
    """Build the candidate that a group itself is."""
    ours = (uuid_of(run), uuid_of("apply"), shard_id, group_id, *WHOLE_GROUP, 0)
    return CandidateRow(*ours, kind=GROUP_CLEANUP, seen=GroupSnapshot(3, NOW_MS))


def outcome(partition: int, what: str = "expired", group_id: str = "orders", *, run: str = "run") -> OutcomeRow:
    return OutcomeRow(uuid_of(run), group_id, "clicks", partition, what)


def write(group_id: str = "orders", shard_id: int = SHARD, **given: object) -> GroupWrite:
    """Return a write; without changes and outcomes its commits go to the offset log, as those of a decision do."""
    rows: dict[str, Any] = dict(given)
    if rows.get("committed") and not rows.get("changes") and not rows.get("outcomes"):
        logged = encode(LoggedCommits(shard_id, group_id, rows.pop("committed")))
        rows |= {"logged": logged, "is_only_logged": not any(rows.values())}
    return GroupWrite(group_id=group_id, shard_id=shard_id, **rows)


class ForecastRow(NamedTuple):
    """A row of `offset_expiry_forecasts`, without the columns of its run."""

    group_id: str
    shard_id: int
    within_a_day: int
    within_a_week: int
    next_expiry_at_ms: int
