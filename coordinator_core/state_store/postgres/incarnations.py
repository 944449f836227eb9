"""Incarnations in Postgres: compares the identity of the database, and starts a new incarnation if it has changed.

Rules:

* On a standby the identity differs, but the lock on the row fails, because a standby is read-only.
* One node starts the incarnation, under a lock on the row; the other nodes then find a matching identity.
* The transaction waits for writes in progress, and blocks later writes, whose leases it ends.
"""

from typing import Any, Final

from coordinator_core.protocol.group import GENERATION_MAX
from coordinator_core.state_store.incarnations import IDENTITY_CHANGED, change_of, jump_over
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.fence import raise_all_fences
from coordinator_core.state_store.postgres.identity import (
    ACTUAL_IDENTITY,
    IDENTITY_COLUMNS,
    read_identity,
    read_incarnation,
)
from coordinator_core.state_store.postgres.statements import insert_changes
from coordinator_core.state_store.rows import Incarnation

START_TIMEOUT_MS: Final = 600_000
"""Timeout of each statement of the start; raising the generations of a million groups takes tens of seconds."""

_LOST_MS = """
SELECT floor(extract(epoch FROM clock_timestamp() - greatest(
    started_at, (SELECT max(expires_at) FROM nodes), (SELECT max(state_since) FROM groups))) * 1000)::bigint
FROM incarnation
"""
"""The time without writes: since the last incarnation, renewal or change of a group's state."""

_LOCK_LEASES = "SELECT FROM shard_leases ORDER BY shard_id FOR UPDATE"

_END_LEASES = "UPDATE shard_leases SET node_id = NULL, expires_at = NULL, epoch = epoch + %(epochs)s"

_RAISE_COMMIT_VERSION = "SELECT setval('commit_version', nextval('commit_version') + %(commit_versions)s)"

_RAISE_VERSIONS = """
UPDATE versions SET cluster_configs = cluster_configs + %(versions)s, group_configs = group_configs + %(versions)s,
    topics = topics + %(versions)s, log_end_deletions = log_end_deletions + %(versions)s
"""

_RAISE_GENERATIONS = f"""
UPDATE groups SET
    generation = (generation + %(generations)s::bigint) & {GENERATION_MAX},
    protocol_type = CASE WHEN generation > 0 THEN protocol_type END,
    must_rebalance = state_before_join_phase <> 'Empty',
    rebalance_trigger = CASE WHEN state_before_join_phase <> 'Empty' THEN 'database_restored' ELSE rebalance_trigger END
WHERE NOT EXISTS (SELECT FROM mirrored_cluster)
"""  # noqa: S608 - a constant
"""A group without a generation loses its protocol type: its first member has not joined yet.

Mirrored groups have the generations of their cluster, and their positions in its log were restored with them.
"""

_START = f"""
UPDATE incarnation SET number = number + 1,
    started_at = greatest(date_trunc('milliseconds', clock_timestamp()), started_at + interval '1 ms'),
    ({IDENTITY_COLUMNS}) = ({ACTUAL_IDENTITY})
"""  # noqa: S608 - constants
"""It starts after the one before it also where the clock is behind, as `is_rolled_back` compares the starts."""

_ADOPT = f"UPDATE incarnation SET ({IDENTITY_COLUMNS}) = ({ACTUAL_IDENTITY})"  # noqa: S608 - constants


def verify(transaction: Transaction, node_id: str) -> Incarnation:
    """Return the incarnation; start a new one first if the database does not match the stored identity."""
    stored = read_incarnation(transaction)
    if stored.identity == read_identity(transaction):
        return stored
    return _start(transaction, node_id, IDENTITY_CHANGED) if _is_another(transaction) else read_incarnation(transaction)


def start(transaction: Transaction, known: int, actor: str, reason: str) -> Incarnation:
    """Start a new incarnation, unless the stored one is no longer the known one; return the current one."""
    transaction.execute("SELECT FROM incarnation FOR UPDATE")
    stored = read_incarnation(transaction)
    return _start(transaction, actor, reason) if stored.number == known else stored


def _is_another(transaction: Transaction) -> bool:
    """Lock the incarnation and compare the identity; store the identity if there is none yet."""
    transaction.execute("SELECT FROM incarnation FOR UPDATE")
    stored = read_incarnation(transaction)
    if stored.identity is None:
        transaction.execute(_ADOPT)
        return False
    return stored.identity != read_identity(transaction)


def _start(transaction: Transaction, actor: str, reason: str) -> Incarnation:
    """Start the next incarnation; its row is locked."""
    transaction.extend_statement_timeout(START_TIMEOUT_MS)
    transaction.execute(_LOCK_LEASES)
    raise_all_fences(transaction)
    before = read_incarnation(transaction)
    jump = jump_over(transaction.execute(_LOST_MS).scalar_one())
    by: dict[str, Any] = jump._asdict()
    transaction.execute(_END_LEASES, by)
    transaction.execute(_RAISE_GENERATIONS, by)
    transaction.execute(_RAISE_COMMIT_VERSION, by)
    transaction.execute(_RAISE_VERSIONS, by)
    transaction.execute(_START)
    after = read_incarnation(transaction)
    insert_changes(transaction, [change_of(before, after, jump, actor, reason)])
    return after
