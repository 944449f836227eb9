"""Mirrored clusters in Postgres: the cluster of a database, positions in its log, share and streams groups.

A position is stored by the write of what was read up to it (`statements.store`).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from coordinator_core.state_store.mirror_tables import other_groups
from coordinator_core.state_store.postgres.arrays import Arrays
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.log_ends import delete_log_ends
from coordinator_core.state_store.postgres.upserts import insert, run
from coordinator_core.state_store.rows import MirrorPosition, OtherGroup
from coordinator_core.state_store.tables import topics

_MIRRORED: Final = "SELECT cluster_id FROM mirrored_cluster"

_MIRROR_EMPTY: Final = """
INSERT INTO mirrored_cluster (cluster_id, source) SELECT %(cluster_id)s, %(source)s
WHERE NOT EXISTS (SELECT FROM groups) AND NOT EXISTS (SELECT FROM offsets) AND NOT EXISTS (SELECT FROM offset_log)
ON CONFLICT DO NOTHING
"""

_TOPICS: Final = Arrays(topics.c.topic, topics.c.partitions)

_OBSERVE_TOPICS: Final = f"""
WITH given AS MATERIALIZED ({_TOPICS.source}),
new AS (
    SELECT topic, given.partitions, topics.partitions IS NOT NULL AS is_known
    FROM given LEFT JOIN topics USING (topic)
    WHERE topics.partitions IS DISTINCT FROM given.partitions
),
raised AS (UPDATE versions SET topics = topics + 1 WHERE EXISTS (SELECT FROM new) RETURNING topics AS version)
INSERT INTO topics (topic, partitions, version)
SELECT topic, partitions, CASE WHEN is_known THEN version ELSE 0 END FROM new, raised ORDER BY topic
ON CONFLICT (topic) DO UPDATE SET partitions = excluded.partitions, version = excluded.version
"""  # noqa: S608 - every name comes from tables.py

_FORGET_TOPICS: Final = (
    """UPDATE versions SET topics = topics + 1, log_end_deletions = log_end_deletions + 1
    WHERE EXISTS (SELECT FROM topics WHERE topic = ANY(%(topics)s))""",
    "DELETE FROM topics WHERE topic = ANY(%(topics)s)",
    "DELETE FROM log_end_offsets WHERE topic = ANY(%(topics)s)",
)
"""The first locks the row of `versions`, for which reports of log ends wait."""

_COMMITTED_TOPICS: Final = "SELECT DISTINCT topic FROM offsets WHERE shard_id = %(shard_id)s ORDER BY topic"

_LEASE: Final = "SELECT FROM shard_leases WHERE shard_id = %(shard_id)s AND epoch = %(epoch)s FOR SHARE"

_OTHER_GROUPS: Final = Arrays(*other_groups.columns)

_DELETE_OTHER_GROUPS: Final = "DELETE FROM other_groups WHERE shard_id = %(shard_id)s"

_POSITION: Final = """
SELECT shard_id, base, groups_seq, greatest(offsets_seq, seq) AS offsets_seq,
    floor(extract(epoch FROM read_at) * 1000)::bigint AS read_at_ms
FROM mirror_positions JOIN shard_checkpoints USING (shard_id)
WHERE shard_id = %(shard_id)s
"""


def mirror_of(transaction: Transaction, cluster_id: str, source: str = "topic") -> str | None:
    """Make a database without groups a mirror of a cluster, and return the cluster that it mirrors."""
    transaction.execute("LOCK TABLE mirrored_cluster IN SHARE ROW EXCLUSIVE MODE")
    transaction.execute(_MIRROR_EMPTY, {"cluster_id": cluster_id, "source": source})
    return read_mirrored_cluster(transaction)


def read_mirrored_cluster(transaction: Transaction) -> str | None:
    """Return the id of the cluster that the database mirrors, or None."""
    found = transaction.execute(_MIRRORED).scalar()
    return None if found is None else str(found)


def read_source(transaction: Transaction) -> str | None:
    """Return the source that the database was made with, or None."""
    found = transaction.execute("SELECT source FROM mirrored_cluster").scalar()
    return None if found is None else str(found)


def observe_topics(transaction: Transaction, partitions: Mapping[str, int]) -> None:
    """Store the numbers of partitions that are new; that of a topic which was not known has not changed yet."""
    run(transaction, _OBSERVE_TOPICS, _TOPICS, sorted(partitions.items()))


def forget_topics(transaction: Transaction, deleted: Sequence[str]) -> None:
    """Delete topics that no longer exist, with their log ends."""
    for statement in _FORGET_TOPICS:
        transaction.execute(statement, {"topics": list(deleted)})


def forget_log_ends(transaction: Transaction, partitions: Sequence[tuple[str, int]]) -> None:
    """Delete log ends that are too high; a node discards the reports that it has gathered before."""
    transaction.execute("UPDATE versions SET log_end_deletions = log_end_deletions + 1")
    for topic, partition in partitions:
        delete_log_ends(transaction, topic, partition)


def read_committed_topics(transaction: Transaction, shard_id: int) -> list[str]:
    """Return the topics of a shard's committed offsets."""
    return [str(row.topic) for row in transaction.execute(_COMMITTED_TOPICS, {"shard_id": shard_id})]


def store_other_groups(transaction: Transaction, shard_id: int, epoch: int, groups: Sequence[OtherGroup]) -> None:
    """Replace a shard's share and streams groups; do nothing if its lease has another epoch."""
    if transaction.execute(_LEASE, {"shard_id": shard_id, "epoch": epoch}).first() is not None:
        transaction.execute(_DELETE_OTHER_GROUPS, {"shard_id": shard_id})
        insert(transaction, other_groups.name, _OTHER_GROUPS, map(_OTHER_GROUPS.values_of, groups))


def read_position(transaction: Transaction, shard_id: int) -> MirrorPosition | None:
    """Return the stored position of a shard, with its checkpoint, or None."""
    row = transaction.execute(_POSITION, {"shard_id": shard_id}).first()
    return None if row is None else MirrorPosition(*row)
