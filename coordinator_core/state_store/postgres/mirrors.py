"""Mirrored clusters in Postgres: the cluster that a database mirrors, and positions in its log.

A position is stored by the write of what was read up to it (`statements.store`).
"""

from typing import Final

from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.rows import MirrorPosition

_MIRRORED: Final = "SELECT cluster_id FROM mirrored_cluster"

_MIRROR_EMPTY: Final = """
INSERT INTO mirrored_cluster (cluster_id) SELECT %(cluster_id)s
WHERE NOT EXISTS (SELECT FROM groups) AND NOT EXISTS (SELECT FROM offsets) AND NOT EXISTS (SELECT FROM offset_log)
ON CONFLICT DO NOTHING
"""

_POSITION: Final = """
SELECT shard_id, base, groups_seq, greatest(offsets_seq, seq) AS offsets_seq,
    floor(extract(epoch FROM read_at) * 1000)::bigint AS read_at_ms
FROM mirror_positions JOIN shard_checkpoints USING (shard_id)
WHERE shard_id = %(shard_id)s
"""


def mirror_of(transaction: Transaction, cluster_id: str) -> str | None:
    """Make a database without groups a mirror of a cluster, and return the cluster that it mirrors."""
    transaction.execute("LOCK TABLE mirrored_cluster IN SHARE ROW EXCLUSIVE MODE")
    transaction.execute(_MIRROR_EMPTY, {"cluster_id": cluster_id})
    return read_mirrored_cluster(transaction)


def read_mirrored_cluster(transaction: Transaction) -> str | None:
    """Return the id of the cluster that the database mirrors, or None."""
    found = transaction.execute(_MIRRORED).scalar()
    return None if found is None else str(found)


def read_position(transaction: Transaction, shard_id: int) -> MirrorPosition | None:
    """Return the stored position of a shard, with its checkpoint, or None."""
    row = transaction.execute(_POSITION, {"shard_id": shard_id}).first()
    return None if row is None else MirrorPosition(*row)
