"""The lease check of writes: verifies that the node still owns the shards, and locks their leases for the transaction.

The rows are locked FOR KEY SHARE. A renewal, which changes no key, does not wait for this lock; acquiring a lease (FOR
UPDATE) does. The check does not use a clock.

The statement also compares the server and the incarnation: a promoted standby or a restored database accepts no write
before a renewal has started a new incarnation, which ends every lease.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_core.store.postgres.arrays import array_literal
from coordinator_core.store.postgres.identity import IS_KNOWN_SERVER
from coordinator_core.store.rows import Batch

LEASE_CHECK = f"""
SELECT shard_id
FROM shard_leases JOIN unnest(%(shards)s::smallint[], %(epochs)s::bigint[]) AS ours (shard_id, epoch)
    USING (shard_id, epoch)
WHERE node_id = %(node_id)s AND {IS_KNOWN_SERVER}
ORDER BY shard_id
FOR KEY SHARE OF shard_leases
"""  # noqa: S608 - constants
"""Returns the shards whose leases are valid, and locks these leases."""


def lease_check_parameters(batch: Batch) -> Mapping[str, Any]:
    """Return the batch's parameters of `LEASE_CHECK`; `KnownServer.lease_check_parameters` returns the others."""
    shards = sorted(shards_of(batch))
    return {
        "shards": array_literal(shards),
        "epochs": array_literal([batch.epochs[shard] for shard in shards]),
        "node_id": batch.node_id,
    }


def shards_of(batch: Batch) -> frozenset[int]:
    """Return the shards that a batch writes to."""
    return frozenset({group_write.shard_id for group_write in batch.writes})
