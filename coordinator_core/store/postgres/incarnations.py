"""The incarnation of a Postgres database: its identity is compared, and where it has changed the next one starts.

Rules:

* On a standby the identity differs, and the lock that is taken next fails, because a standby is read-only.
* One node starts the next incarnation, under a lock on the row; the others find the identity as it should be.
* The transaction waits for writes under way, and holds up all that come later: their leases have ended.
"""

from typing import Any, Final

from coordinator_core.store.incarnations import GENERATION_MAX, IDENTITY_CHANGED, change_of, jump_over
from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.identity import ACTUAL_IDENTITY, IDENTITY_COLUMNS, read_identity, read_incarnation
from coordinator_core.store.postgres.statements import insert_changes
from coordinator_core.store.rows import Incarnation

START_TIMEOUT_MS: Final = 600_000
"""How long one statement of the start may take; raising the generations of a million groups takes tens of seconds."""

_LOST_MS = """
SELECT floor(extract(epoch FROM clock_timestamp() - greatest(
    started_at, (SELECT max(expires_at) FROM nodes), (SELECT max(state_since) FROM groups))) * 1000)::bigint
FROM incarnation
"""
"""For how long nothing was stored: since the last incarnation, renewal or change of a group's state."""

_LOCK_LEASES = "SELECT FROM shard_leases ORDER BY shard_id FOR UPDATE"

_END_LEASES = "UPDATE shard_leases SET node_id = NULL, expires_at = NULL, epoch = epoch + %(epochs)s"

_RAISE_COMMIT_VERSION = "SELECT setval('commit_version', nextval('commit_version') + %(commit_versions)s)"

_RAISE_VERSIONS = """
UPDATE versions SET cluster_config = cluster_config + %(versions)s, group_configs = group_configs + %(versions)s,
    topics = topics + %(versions)s, log_end_deletions = log_end_deletions + %(versions)s
"""

_RAISE_GENERATIONS = f"""
UPDATE groups SET
    generation = (generation + %(generations)s::bigint) & {GENERATION_MAX},
    protocol_type = CASE WHEN generation > 0 THEN protocol_type END,
    must_rebalance = settled_state <> 'Empty',
    rebalance_trigger = CASE WHEN settled_state <> 'Empty' THEN 'database_restored' ELSE rebalance_trigger END
"""  # noqa: S608 - a constant
"""A group without a generation forgets the protocol of its first member, who has yet to join."""

_START = f"""
UPDATE incarnation SET number = number + 1, started_at = date_trunc('milliseconds', clock_timestamp()),
    ({IDENTITY_COLUMNS}) = ({ACTUAL_IDENTITY})
"""  # noqa: S608 - constants

_ADOPT = f"UPDATE incarnation SET ({IDENTITY_COLUMNS}) = ({ACTUAL_IDENTITY})"  # noqa: S608 - constants


def verify(transaction: Transaction, node_id: str) -> Incarnation:
    """Return the incarnation, after a new one was started if the database is another than the stored identity names."""
    stored = read_incarnation(transaction)
    if stored.identity == read_identity(transaction):
        return stored
    return _start(transaction, node_id, IDENTITY_CHANGED) if _is_another(transaction) else read_incarnation(transaction)


def start(transaction: Transaction, known: int, actor: str, reason: str) -> Incarnation:
    """Start an incarnation in place of the known one; do nothing where that is over already."""
    transaction.execute("SELECT FROM incarnation FOR UPDATE")
    stored = read_incarnation(transaction)
    return _start(transaction, actor, reason) if stored.number == known else stored


def _is_another(transaction: Transaction) -> bool:
    """Lock the incarnation, adopt the identity where none is stored, and compare it."""
    transaction.execute("SELECT FROM incarnation FOR UPDATE")
    stored = read_incarnation(transaction)
    if stored.identity is None:
        transaction.execute(_ADOPT)
        return False
    return stored.identity != read_identity(transaction)


def _start(transaction: Transaction, actor: str, reason: str) -> Incarnation:
    """Start the next incarnation; its row is locked."""
    transaction.execute(f"SET LOCAL statement_timeout = {START_TIMEOUT_MS}")
    transaction.execute(_LOCK_LEASES)
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
