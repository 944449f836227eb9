"""Writes of decisions: one statement per table, with its rows as arrays.

Deletions come before insertions, so that one batch can delete a key and insert it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter

from sqlalchemy import BigInteger, Column, Table

from coordinator_core.state_store import audit_tables, tables
from coordinator_core.state_store.mirror_tables import mirror_positions
from coordinator_core.state_store.postgres.arrays import Arrays
from coordinator_core.state_store.postgres.commits import store_commits
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.folding import Folded, FoldedGroup, fold
from coordinator_core.state_store.postgres.upserts import Rows, insert, run, upsert
from coordinator_core.state_store.rows import ChangeRow, GroupWrite, UndoneChange


def store(transaction: Transaction, writes: Sequence[GroupWrite]) -> None:
    """Write everything of decisions except commits that go to the offset log."""
    folded = fold(writes, _commit_version(transaction, writes))
    _store_groups(transaction, folded.groups)
    _store_removals(transaction, folded)
    store_commits(transaction, folded.commits)
    insert(transaction, "group_transitions", _TRANSITIONS, map(_TRANSITIONS.values_of, folded.transitions))
    insert(transaction, "rebalances", _REBALANCES, map(_REBALANCES.values_of, folded.rebalances))
    insert(transaction, "partition_ownership", _OWNERSHIPS, map(_OWNERSHIPS.values_of, folded.ownerships))
    insert(
        transaction,
        "rebalance_members",
        _REBALANCE_MEMBERS,
        map(_REBALANCE_MEMBERS.values_of, folded.rebalance_members),
    )
    insert(transaction, "member_sessions", _SESSIONS, map(_SESSIONS.values_of, folded.sessions))
    run(transaction, _DECIDE_CANDIDATES, _OUTCOMES, (one for one in folded.outcomes.values() if not one.is_of_group))
    run(transaction, _DECIDE_GROUPS, _OUTCOMES, (one for one in folded.outcomes.values() if one.is_of_group))
    insert_changes(transaction, folded.changes)
    mark_undone(transaction, folded.undone)
    positions = map(_MIRROR_POSITIONS.values_of, folded.mirror_positions.values())
    run(transaction, upsert(mirror_positions, _MIRROR_POSITIONS), _MIRROR_POSITIONS, positions)


def _commit_version(transaction: Transaction, writes: Iterable[GroupWrite]) -> int:
    """Return the version of commits that are stored without the log; 0 if there are none."""
    if any(write.committed for write in writes):
        return int(transaction.execute("SELECT nextval('commit_version')").scalar_one())
    return 0


def insert_changes(transaction: Transaction, changes: Iterable[ChangeRow]) -> None:
    """Write rows of `changes`."""
    insert(transaction, "changes", _CHANGES, map(_CHANGES.values_of, changes))


def mark_undone(transaction: Transaction, undone: Iterable[UndoneChange]) -> None:
    """Mark changes as undone."""
    run(transaction, _MARK_UNDONE, _UNDONE, undone)


def _store_groups(transaction: Transaction, groups: Mapping[str, FoldedGroup]) -> None:
    deleted = [(group_id,) for group_id, group in groups.items() if group.is_deleted]
    for table in ("members", "groups"):
        run(transaction, _delete(table, _GROUP_KEY), _GROUP_KEY, deleted)
    run(transaction, _delete("members", _MEMBER_KEY), _MEMBER_KEY, _deleted_members(groups))
    rows = [_GROUPS.values_of(group.row) for group in groups.values() if group.row is not None]
    run(transaction, upsert(tables.groups, _GROUPS), _GROUPS, rows)
    members = (member for group in groups.values() for member in group.members.values() if member is not None)
    run(transaction, upsert(tables.members, _MEMBERS), _MEMBERS, map(_MEMBER_VALUES, members))


def _deleted_members(groups: Mapping[str, FoldedGroup]) -> Rows:
    return [
        (group_id, member_id)
        for group_id, group in groups.items()
        for member_id, member in group.members.items()
        if member is None and not group.is_deleted
    ]


def _store_removals(transaction: Transaction, folded: Folded) -> None:
    rows = [(key[0], *_REMOVAL_VALUES(record)) for (key, _), record in folded.removals.items()]
    run(transaction, _ARCHIVE, _REMOVALS, rows)


# -- columns and their values --------------------------------------------------------------------------------


def _all_but(table: Table, *omitted: str) -> Arrays:
    return Arrays(*(column for column in table.columns if column.name not in omitted))


_GROUP_KEY = Arrays(tables.groups.c.group_id)
_MEMBER_KEY = Arrays(tables.members.c.group_id, tables.members.c.member_id)
_GROUPS = _all_but(tables.groups)
_TRANSITIONS = _all_but(tables.group_transitions)
_REBALANCES = _all_but(tables.rebalances)
_OWNERSHIPS = _all_but(tables.partition_ownership)
_REBALANCE_MEMBERS = _all_but(tables.rebalance_members)
_SESSIONS = _all_but(tables.member_sessions)
_CHANGES = _all_but(audit_tables.changes, "undone_at", "undone_by_change_id", "sealed_minute")
_UNDONE = Arrays(*(audit_tables.changes.c[name] for name in ("change_id", "undone_at", "undone_by_change_id")))
_MEMBERS = _all_but(tables.members)
_MIRROR_POSITIONS = _all_but(mirror_positions)
_REMOVALS = Arrays(
    tables.offsets.c.group_id,
    tables.offsets.c.topic,
    tables.offsets.c.partition,
    Column("seen_version", BigInteger),
    tables.archived_offsets.c.change_id,
    tables.archived_offsets.c.archived_at,
    tables.archived_offsets.c.cause,
)
_OUTCOMES = Arrays(
    *(tables.expiry_candidates.c[name] for name in ("run_id", "group_id", "topic", "partition", "outcome"))
)

_MEMBER_VALUES = attrgetter(
    *("group_id", "shard_id", "member_id", "group_instance_id", "client_id", "client_host", "session_timeout_ms"),
    *("rebalance_timeout_ms", "subscription_json", "assignment_json", "assigned_since_ms", "ownership", "joined_at_ms"),
    *("protocol_names", "protocol_metadata", "assignment", "join_order"),
)
_REMOVAL_VALUES = attrgetter("offset.topic", "offset.partition", "offset.commit_version", "change_id", "at_ms", "cause")


# -- statements ------------------------------------------------------------------------------------------------
# Every inserted name comes from tables.py, and every value is a parameter.


def _delete(table: str, key: Arrays) -> str:
    return f"DELETE FROM {table} WHERE ({key.column_list}) IN ({key.source})"  # noqa: S608


# Archives the deleted row with its current values, and only if it is still the commit that the decision saw.
_ARCHIVE = f"""
WITH given AS MATERIALIZED ({_REMOVALS.source}),
deleted AS (
    DELETE FROM offsets AS stored USING given
    WHERE (stored.group_id, stored.topic, stored.partition) = (given.group_id, given.topic, given.partition)
        AND stored.commit_version = given.seen_version
    RETURNING given.change_id, stored.*, given.archived_at, given.cause
)
INSERT INTO archived_offsets (change_id, group_id, shard_id, topic, partition, committed_offset, leader_epoch,
    metadata, log_end_offset, log_end_at, committed_at, archived_at, cause)
SELECT change_id, group_id, shard_id, topic, partition, committed_offset, leader_epoch,
    metadata, log_end_offset, log_end_at, committed_at, archived_at, cause
FROM deleted
"""  # noqa: S608

_MARK_UNDONE = f"""
UPDATE changes SET undone_at = given.undone_at, undone_by_change_id = given.undone_by_change_id
FROM ({_UNDONE.source}) AS given
WHERE changes.change_id = given.change_id
"""  # noqa: S608

_DECIDE_CANDIDATES = f"""
UPDATE expiry_candidates AS candidate SET outcome = given.outcome
FROM ({_OUTCOMES.source}) AS given
WHERE (candidate.run_id, candidate.group_id, candidate.topic, candidate.partition)
    = (given.run_id, given.group_id, given.topic, given.partition) AND candidate.outcome IS NULL
"""  # noqa: S608

_DECIDE_GROUPS = f"""
UPDATE cleanup_candidates AS candidate SET outcome = given.outcome
FROM ({_OUTCOMES.source}) AS given
WHERE (candidate.run_id, candidate.group_id) = (given.run_id, given.group_id) AND candidate.outcome IS NULL
"""  # noqa: S608
