"""A write proves that the leases it was decided under still hold, and keeps them from moving until it is over.

The rows are locked FOR KEY SHARE, which a renewal (it touches no key) does not wait for and a take-over (FOR UPDATE)
does. No clock is asked.

The server and the incarnation are compared in the same statement: a standby that was promoted, or a database that was
restored, takes no write before a renewal has started a new incarnation, which ends every lease.
"""

from collections.abc import Mapping
from typing import Any

from coordinator_core.store.postgres.arrays import array_literal
from coordinator_core.store.postgres.identity import IS_KNOWN_SERVER
from coordinator_core.store.rows import Batch

PROOF = f"""
SELECT shard_id
FROM shard_leases JOIN unnest(%(shards)s::smallint[], %(epochs)s::bigint[]) AS ours (shard_id, epoch)
    USING (shard_id, epoch)
WHERE node_id = %(node_id)s AND {IS_KNOWN_SERVER}
ORDER BY shard_id
FOR KEY SHARE OF shard_leases
"""  # noqa: S608 - constants
"""Returns the shards whose leases hold, and locks them."""


def proof_parameters(batch: Batch) -> Mapping[str, Any]:
    """Return what `PROOF` takes of a batch; the rest is `KnownServer.proof_parameters`."""
    shards = sorted(shards_of(batch))
    return {
        "shards": array_literal(shards),
        "epochs": array_literal([batch.epochs[shard] for shard in shards]),
        "node_id": batch.node_id,
    }


def shards_of(batch: Batch) -> frozenset[int]:
    """Return the shards that a batch writes to."""
    return frozenset({group_write.shard_id for group_write in batch.writes})
