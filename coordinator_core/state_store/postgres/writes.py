"""Writes of batches: one transaction checks the fence, runs one statement per table, and commits.

Rules:

* The check of the fence comes first, and locks it until the transaction ends. If it fails, or a lease of the batch was
  not checked under this fence, the leases are checked shard by shard, in a transaction of their own with the rows.
* Commits of offsets go to the offset log, as the last statement. A batch of commits only, the most frequent kind, is a
  single statement, which checks the fence too.
* Writes to shards whose lease is lost are dropped; the others are stored.
* If no lease of a batch matches, the server may have been restarted, or be another one. The incarnation is then
  compared in full, and the batch is written again if it is the same (`known_server`).
* If the database rejects the data, the batch is written again in halves, each in a savepoint, and rejected halves are
  halved again, down to single groups. One bad group among a thousand costs about twenty more statements and does not
  affect the others. There is still one lease check and one COMMIT, so that the whole batch is stored, not stored, or of
  unknown outcome.
* Rows are passed as one unnest per table. COPY into a temporary table and a merge are a fifth faster in batches of
  thousands of rows, a tenth slower in batches of tens, and leave dead rows that are not vacuumed.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from coordinator_core.state_store.postgres import offset_log
from coordinator_core.state_store.postgres.autocommit import AutocommitConnection
from coordinator_core.state_store.postgres.connections import ConnectionPool, Transaction
from coordinator_core.state_store.postgres.failures import DataRefused
from coordinator_core.state_store.postgres.fence import FENCE_CHECK, Fence, check_leases, shards_of
from coordinator_core.state_store.postgres.known_server import KnownServer
from coordinator_core.state_store.postgres.statements import store
from coordinator_core.state_store.rows import Batch, CheckpointResult, GroupWrite, ShardCheckpoint, WriteResult


def write(
    pool: ConnectionPool, autocommit: AutocommitConnection, server: KnownServer, fence: Fence, batch: Batch
) -> WriteResult:
    """Store a batch; return the shards and groups that were not stored.

    Args:
        pool: connections for transactions.
        autocommit: the connection for batches that are a single statement.
        server: the server on which the leases are valid.
        fence: the fence of this store.
        batch: the batch.
    """
    in_transaction = partial(_write_checked, server=server, fence=fence, batch=batch)
    try:
        if fence.covers(batch):
            proof = {**server.parameters(), **fence.parameters()}
            position = _write_fenced(pool, autocommit, proof, batch.writes)
            if position is not None:
                return WriteResult(log_position=position)
        written = pool.transact(in_transaction)
        is_lost = written.lost_shards == shards_of(batch)
        if is_lost and pool.transact(partial(server.recognize, node_id=batch.node_id)):
            return pool.transact(in_transaction)
        return written
    except DataRefused:
        return pool.transact(partial(in_transaction, is_in_halves=True))


def _write_fenced(
    pool: ConnectionPool, autocommit: AutocommitConnection, proof: Mapping[str, Any], writes: Sequence[GroupWrite]
) -> int | None:
    """Store writes if the fence is still the one under which their leases were checked.

    Returns:
        The position in the offset log, 0 without commits that go there; None: the fence is another one.
    """
    if all(group_write.is_only_logged for group_write in writes):
        return offset_log.append_in_one_statement(autocommit, proof, writes)
    return pool.transact(partial(_store_fenced, proof=proof, writes=writes))


def _store_fenced(transaction: Transaction, proof: Mapping[str, Any], writes: Sequence[GroupWrite]) -> int | None:
    if transaction.execute(FENCE_CHECK, proof).first() is None:
        return None
    store(transaction, writes)
    return offset_log.append(transaction, writes)


def _write_checked(
    transaction: Transaction, server: KnownServer, fence: Fence, batch: Batch, *, is_in_halves: bool = False
) -> WriteResult:
    """Check the lease of each shard, and store what belongs to valid ones."""
    held = fence.check_leases(transaction, batch, server.parameters())
    writes = [group_write for group_write in batch.writes if group_write.shard_id in held]
    refused: dict[str, str] = {}
    if is_in_halves:
        refused = _store_in_halves(transaction, writes)
        writes = [group_write for group_write in writes if group_write.group_id not in refused]
    else:
        store(transaction, writes)
    return WriteResult(shards_of(batch) - held, refused, offset_log.append(transaction, writes))


def _store_in_halves(transaction: Transaction, writes: Sequence[GroupWrite]) -> dict[str, str]:
    """Store what the database accepts; return group → why it rejected the group's data."""
    by_group: dict[str, list[GroupWrite]] = {}
    for group_write in writes:
        by_group.setdefault(group_write.group_id, []).append(group_write)
    refused: dict[str, str] = {}
    _store_groups_in_halves(transaction, list(by_group.values()), refused)
    return refused


def _store_groups_in_halves(
    transaction: Transaction, groups: Sequence[list[GroupWrite]], refused: dict[str, str]
) -> None:
    writes = [group_write for group in groups for group_write in group]
    try:
        with transaction.savepoint():
            store(transaction, writes)
    except DataRefused as refusal:
        if len(groups) == 1:
            refused[groups[0][0].group_id] = str(refusal)
            return
        middle = len(groups) // 2
        _store_groups_in_halves(transaction, groups[:middle], refused)
        _store_groups_in_halves(transaction, groups[middle:], refused)


def checkpoint(
    pool: ConnectionPool, server: KnownServer, fence: Fence, node_id: str, shards: Mapping[int, ShardCheckpoint]
) -> CheckpointResult:
    """Store the dirty offsets of shards in the table; return the shards that are lost, and what was quarantined."""
    in_transaction = partial(_checkpoint, server=server, fence=fence, node_id=node_id, shards=shards)
    try:
        found = pool.transact(partial(in_transaction, store_offsets=offset_log.store_whole))
        if found.lost_shards == shards.keys() and pool.transact(partial(server.recognize, node_id=node_id)):
            return pool.transact(partial(in_transaction, store_offsets=offset_log.store_whole))
        return found
    except DataRefused:
        return pool.transact(partial(in_transaction, store_offsets=offset_log.store_in_halves))


def _checkpoint(
    transaction: Transaction,
    server: KnownServer,
    fence: Fence,
    node_id: str,
    shards: Mapping[int, ShardCheckpoint],
    store_offsets: offset_log.StoreOffsets,
) -> CheckpointResult:
    epochs = {shard_id: shard.epoch for shard_id, shard in shards.items()}
    held = check_leases(transaction, fence.writer_id, node_id, epochs, server.parameters())
    valid = {shard_id: shard for shard_id, shard in shards.items() if shard_id in held}
    return CheckpointResult(frozenset(shards) - held, offset_log.store_checkpoint(transaction, valid, store_offsets))
