"""Shard leases: one row per shard with owner, epoch and expiry, by the clock of the database.

Rules:

* A renewal changes `expires_at` only. Its lock does not conflict with that of a write, so neither waits for the other.
* Acquiring a lease locks the row FOR UPDATE, raises the epoch, and raises the fence of the former writer (fence.py): it
  waits for writes in progress, and later writes are refused.
* Every statement locks rows in the order of shards, or skips those that are locked.
* A lease that ends later than any can is one from before the clock of the database was set back. A renewal of any node
  shortens it: an owner that is alive renews it in time, and the shards of one that is not are free after a lease.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from coordinator_core.state_store.incarnations import is_rolled_back
from coordinator_core.state_store.interface import RolledBack
from coordinator_core.state_store.postgres import incarnations
from coordinator_core.state_store.postgres.arrays import array_literal
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.fence import Fence, delete_unused_writers, raise_fences
from coordinator_core.state_store.postgres.known_server import KnownServer
from coordinator_core.state_store.rows import LEASE_TTL_MAX_MS, LeaseRow, Renewal, Versions

MAX_EXPIRY = f"clock_timestamp() + interval '{LEASE_TTL_MAX_MS} ms'"
"""The end of the longest possible lease."""

_RENEW_NODE = """
INSERT INTO nodes (node_id, listeners, version, started_at, expires_at, renewals, cluster_configs)
VALUES (%(node_id)s, %(listeners)s, %(version)s, clock_timestamp(),
    clock_timestamp() + %(ttl_ms)s * interval '1 ms', %(renewals)s + 1, %(cluster_configs)s)
ON CONFLICT (node_id) DO UPDATE SET
    listeners = excluded.listeners,
    version = excluded.version,
    started_at = CASE WHEN nodes.expires_at < clock_timestamp() THEN excluded.started_at ELSE nodes.started_at END,
    expires_at = excluded.expires_at,
    renewals = nodes.renewals + 1,
    cluster_configs = excluded.cluster_configs
RETURNING renewals
"""

_OURS = """
WITH ours AS (
    SELECT shard_id
    FROM shard_leases JOIN unnest(%(shards)s::smallint[], %(epochs)s::bigint[]) AS given (shard_id, epoch)
        USING (shard_id, epoch)
    WHERE node_id = %(node_id)s
    ORDER BY shard_id
    FOR NO KEY UPDATE OF shard_leases
)
"""

_RENEW_LEASES = f"""{_OURS}
UPDATE shard_leases SET expires_at = clock_timestamp() + %(ttl_ms)s * interval '1 ms'
FROM ours WHERE shard_leases.shard_id = ours.shard_id
RETURNING shard_leases.shard_id
"""  # noqa: S608 - a constant

_LEASES = """
SELECT shard_id, node_id, epoch,
    shard_leases.expires_at IS NULL OR shard_leases.expires_at <= clock_timestamp() OR node_id IS NULL,
    coalesce(listeners, '{}')
FROM shard_leases LEFT JOIN nodes USING (node_id)
ORDER BY shard_id
"""

_LATEST_EXPIRY = f"SELECT max(expires_at) > {MAX_EXPIRY} FROM nodes"  # noqa: S608 - a constant

_SHORTEN = tuple(
    f"""
UPDATE {table} SET expires_at = clock_timestamp() + %(ttl_ms)s * interval '1 ms'
WHERE {key} IN (SELECT {key} FROM {table} WHERE expires_at > {MAX_EXPIRY} FOR NO KEY UPDATE SKIP LOCKED)
"""  # noqa: S608 - constants
    for table, key in (("nodes", "node_id"), ("shard_leases", "shard_id"))
)
"""What is locked is being renewed."""

_VERSIONS = "SELECT cluster_configs, group_configs, topics, log_end_deletions FROM versions"

_LIVE_NODES = "SELECT node_id FROM nodes WHERE expires_at > clock_timestamp() ORDER BY node_id"

_UNCONFIRMED_NODES = """
SELECT node_id FROM nodes
WHERE cluster_configs < %(cluster_configs)s
    AND (expires_at > clock_timestamp() OR node_id IN (SELECT node_id FROM shard_leases))
ORDER BY node_id
"""

_LOCK_FREE_LEASES = """
SELECT shard_id, writer_id FROM shard_leases
WHERE shard_id = ANY(%(shards)s::smallint[])
    AND (node_id IS NULL OR node_id = %(node_id)s OR expires_at IS NULL OR expires_at <= clock_timestamp())
ORDER BY shard_id
FOR UPDATE
"""

_ACQUIRE_LEASES = """
UPDATE shard_leases
SET node_id = %(node_id)s, writer_id = %(writer_id)s, epoch = epoch + 1,
    expires_at = clock_timestamp() + %(ttl_ms)s * interval '1 ms'
WHERE shard_id = ANY(%(shards)s::smallint[])
RETURNING shard_id, epoch
"""

_RELEASE_LEASES = f"""{_OURS}
UPDATE shard_leases SET node_id = NULL, expires_at = NULL
FROM ours WHERE shard_leases.shard_id = ours.shard_id
"""  # noqa: S608 - a constant


def renew(
    transaction: Transaction,
    server: KnownServer,
    node: Mapping[str, Any],
    epochs: Mapping[int, int],
    ttl_ms: int,
    last: Renewal | None,
) -> Renewal:
    """Renew a node (by the columns of its row) and its leases; return the state of the cluster.

    Raises:
        FormerPrimary: as of `KnownServer.remember`.
        RolledBack: the database was rolled back since the `last` renewal.
    """
    incarnation = incarnations.verify(transaction, node["node_id"])
    server.refuse_former_primary(incarnation)
    row = {**node, "listeners": json.dumps(node["listeners"]), "ttl_ms": ttl_ms}
    row["renewals"] = 0 if last is None else last.renewals
    renewals = transaction.execute(_RENEW_NODE, row).scalar_one()
    renewed = transaction.execute(_RENEW_LEASES, {**_ours(node["node_id"], epochs), "ttl_ms": ttl_ms})
    if transaction.execute(_LATEST_EXPIRY).scalar_one():
        for statement in _SHORTEN:
            transaction.execute(statement, {"ttl_ms": ttl_ms})
    renewal = Renewal(
        held=frozenset(shard for (shard,) in renewed),
        leases=read_leases(transaction),
        live_nodes=tuple(node_id for (node_id,) in transaction.execute(_LIVE_NODES)),
        versions=read_versions(transaction),
        incarnation=incarnation,
        renewals=renewals,
    )
    if last is not None and is_rolled_back(renewal, last):
        raise RolledBack(incarnation.number)
    server.remember(transaction, incarnation, node["node_id"], renewals)
    return renewal


def acquire_leases(
    transaction: Transaction, server: KnownServer, fence: Fence, node_id: str, shard_ids: Iterable[int], ttl_ms: int
) -> dict[int, int]:
    """Acquire leases that are free, expired or already the node's, each under a new epoch."""
    server.remember(transaction, incarnations.verify(transaction, node_id), node_id)
    fence.add_writer(transaction)
    wanted = {"node_id": node_id, "shards": array_literal(shard_ids)}
    free = transaction.execute(_LOCK_FREE_LEASES, wanted).all()
    raise_fences(transaction, {writer_id for _, writer_id in free if writer_id is not None})
    acquired = {
        "node_id": node_id,
        "writer_id": fence.writer_id,
        "shards": array_literal([shard for shard, _ in free]),
        "ttl_ms": ttl_ms,
    }
    return {row.shard_id: row.epoch for row in transaction.execute(_ACQUIRE_LEASES, acquired)}


def release(transaction: Transaction, node_id: str, epochs: Mapping[int, int]) -> None:
    """Release leases that are still the node's."""
    transaction.execute(_RELEASE_LEASES, _ours(node_id, epochs))


def delete_node(transaction: Transaction, node_id: str) -> None:
    """Delete the node's row."""
    transaction.execute("DELETE FROM nodes WHERE node_id = %(node_id)s", {"node_id": node_id})


def delete_lost_nodes(transaction: Transaction, lost_for_ms: int) -> None:
    """Delete the rows of nodes that expired at least so long ago, and of writers without leases."""
    delete_unused_writers(transaction)
    transaction.execute(
        "DELETE FROM nodes WHERE expires_at < clock_timestamp() - %(lost_for_ms)s * interval '1 millisecond'",
        {"lost_for_ms": lost_for_ms},
    )


def read_leases(transaction: Transaction) -> tuple[LeaseRow, ...]:
    """Return every lease, by shard."""
    return tuple(LeaseRow(*row) for row in transaction.execute(_LEASES))


def read_versions(transaction: Transaction) -> Versions:
    """Return the number of changes of each table of settings and topic metadata."""
    return Versions(*transaction.execute(_VERSIONS).one())


def read_unconfirmed_nodes(transaction: Transaction, cluster_configs: int) -> list[str]:
    """Return the nodes that have not confirmed a version of the cluster's settings, sorted."""
    found = transaction.execute(_UNCONFIRMED_NODES, {"cluster_configs": cluster_configs})
    return [node_id for (node_id,) in found]


def read_shard_count(transaction: Transaction) -> int:
    """Return the number of shards of the database."""
    return int(transaction.execute("SELECT shard_count FROM versions").scalar_one())


def _ours(node_id: str, epochs: Mapping[int, int]) -> dict[str, Any]:
    return {"node_id": node_id, "shards": array_literal(epochs), "epochs": array_literal(epochs.values())}
