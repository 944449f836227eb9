"""Checks of stored rows: the conditions that the rows of a group meet before a node serves it.

The CHECK constraints of the database reject most invalid rows (`tables.py`). These checks find rows from before the
constraints, and those that no constraint covers, so that an invalid row affects its own group only.

Source: tables.md, `groups` and `members`.
"""

from typing import Any, Final, TypeVar

from msgspec import ValidationError, convert

from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.records import Trigger
from coordinator_core.protocol.states import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, GroupState
from coordinator_core.state_store.column_types import LAST_INSTANT_MS
from coordinator_core.state_store.rows import GroupRow, Json, MemberRow, StoredGroup, UnreadableGroup

STORED_STATES: Final = frozenset(GroupState) - {DEAD}
RECOVERY_STATES: Final = frozenset({EMPTY, COMPLETING, STABLE})
TRIGGERS: Final = frozenset(Trigger)

T = TypeVar("T")


class UnreadableRow(Exception):
    """The rows of a group cannot be loaded; the text is a sentence that names the table and the column."""


def read_json(column: str, value: Json, shape: type[T]) -> T:
    """Convert a JSON value to the shape of its column.

    Raises:
        UnreadableRow: the value has another shape.
    """
    try:
        return convert(value, shape)
    except ValidationError as failure:
        raise UnreadableRow(f"{column} does not have the shape that nodes write: {failure}") from failure


def check_rows(stored: StoredGroup, *, is_mirrored: bool = False) -> None:
    """Check the rows of a group, each by itself and all together.

    Args:
        stored: the rows.
        is_mirrored: whether the group is of a mirrored cluster, so that it may have no leader.

    Raises:
        UnreadableRow: a row cannot be loaded, or the rows contradict each other.
    """
    group = stored.group
    check_group(group)
    for member in stored.members:
        check_member(member)
        _check(
            member.shard_id == group.shard_id,
            f"members.shard_id is {member.shard_id}, and groups.shard_id is {group.shard_id}",
        )
    instances = [each.group_instance_id for each in stored.members if each.group_instance_id is not None]
    _check(len(instances) == len(set(instances)), "two rows of members have the same group_instance_id")
    _check_state(stored, is_mirrored=is_mirrored)


def check_shard(stored: StoredGroup | UnreadableGroup, shard_id: int, shard_count: int) -> None:
    """Check that a group is stored under its shard.

    Raises:
        UnreadableRow: it belongs to another shard.
    """
    belongs_to = shard_of(stored.group_id, shard_count)
    _check(belongs_to == shard_id, f"groups.shard_id is {shard_id}, but the group belongs to shard {belongs_to}")


def check_group(row: GroupRow) -> None:
    """Check a row of `groups` by itself.

    Raises:
        UnreadableRow: it cannot be loaded.
    """
    _check(row.state in STORED_STATES, f"groups.state is {row.state!r}, which is not a state of a stored group")
    _check(
        row.state_before_join_phase in RECOVERY_STATES,
        f"groups.state_before_join_phase is {row.state_before_join_phase!r},"
        " which is not Empty, CompletingRebalance or Stable",
    )
    for name in ("generation", "member_count", "topics_version"):
        number = getattr(row, name)
        _check(number >= 0, f"groups.{name} is {number}, which is below 0")
    _check_instant("groups.state_since", row.state_since_ms)
    _check_instant("groups.created_at", row.created_at_ms)
    if row.rebalance_started_at_ms is not None:
        _check_instant("groups.rebalance_started_at", row.rebalance_started_at_ms)
    is_trigger = row.rebalance_trigger is None or row.rebalance_trigger in TRIGGERS
    _check(is_trigger, f"groups.rebalance_trigger is {row.rebalance_trigger!r}, which is not a trigger")
    _check_texts("groups.subscribed_topics", row.subscribed_topics or ())
    _check(row.rebalance is None or isinstance(row.rebalance, dict), "groups.rebalance is not a JSON object")


def check_member(row: MemberRow) -> None:
    """Check a row of `members` by itself.

    Raises:
        UnreadableRow: it cannot be loaded.
    """
    _check(row.session_timeout_ms > 0, f"members.session_timeout_ms is {row.session_timeout_ms}, which is not above 0")
    _check(
        row.rebalance_timeout_ms >= 0, f"members.rebalance_timeout_ms is {row.rebalance_timeout_ms}, which is below 0"
    )
    _check(row.join_order >= 0, f"members.join_order is {row.join_order}, which is below 0")
    _check_instant("members.joined_at", row.joined_at_ms)
    _check_texts("members.protocol_names", [name for name, _ in row.protocols])
    _check(isinstance(row.ownership, list), "members.ownership is not a JSON array")


# -- several rows -------------------------------------------------------------------------------------------


def _check_state(stored: StoredGroup, *, is_mirrored: bool) -> None:
    """Check that leader, protocol and members fit the state.

    A group whose members all left during a join phase has no members; the next rebalance makes it Empty.
    """
    row, members = stored.group, stored.members
    is_without_generation = row.state == PREPARING or (is_mirrored and row.state == COMPLETING)
    state = row.state_before_join_phase if is_without_generation else row.state
    if state == EMPTY:
        _check(not members, f"groups.state is {row.state}, and members has {len(members)} rows of the group")
        return
    _check(bool(members) or row.must_rebalance, f"groups.state is {row.state}, and members has no row of the group")
    if not members or is_without_generation:
        return
    is_leaderless = is_mirrored and row.leader_id is None
    is_led = is_leaderless or any(member.member_id == row.leader_id for member in members)
    _check(is_led, f"groups.state is {row.state}, and groups.leader_id {row.leader_id!r} is not a member")
    _check(row.protocol_type is not None, f"groups.state is {row.state}, and groups.protocol_type is null")
    _check(row.protocol_name is not None, f"groups.state is {row.state}, and groups.protocol_name is null")
    if not row.must_rebalance:
        is_supported = all(any(name == row.protocol_name for name, _ in member.protocols) for member in members)
        _check(
            is_supported, f"groups.protocol_name is {row.protocol_name!r}, which some row of members does not support"
        )


# -- one value ----------------------------------------------------------------------------------------------


def _check(is_sound: bool, sentence: str) -> None:
    if not is_sound:
        raise UnreadableRow(sentence)


def _check_texts(column: str, texts: Any) -> None:  # noqa: ANN401 - an array of the database may hold anything
    is_sound = all(isinstance(text, str) and "\0" not in text for text in texts)
    _check(is_sound, f"{column} has an element that is not text, or a NUL character")


def _check_instant(column: str, instant_ms: int | None) -> None:
    is_sound = instant_ms is not None and 0 <= instant_ms <= LAST_INSTANT_MS
    _check(is_sound, f"{column} is not a time from 1970 to 9999")
