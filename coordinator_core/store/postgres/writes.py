"""Writes of batches: one transaction checks the leases, runs one statement per table, and commits.

Rules:

* The lease check comes first, and locks the leases until the transaction ends.
* A batch of commits only, the most frequent kind, is a single statement, which checks the leases too.
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

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from coordinator_core.store.postgres.autocommit import AutocommitConnection
from coordinator_core.store.postgres.commits import PreparedCommits, commit_in_one_statement, prepare_commits
from coordinator_core.store.postgres.connections import ConnectionPool, Transaction
from coordinator_core.store.postgres.failures import DataRefused
from coordinator_core.store.postgres.folding import Folded, fold, fold_commits
from coordinator_core.store.postgres.known_server import KnownServer
from coordinator_core.store.postgres.lease_check import LEASE_CHECK, lease_check_parameters, shards_of
from coordinator_core.store.postgres.minute_cache import MinuteCache
from coordinator_core.store.postgres.statements import store
from coordinator_core.store.rows import Batch, GroupWrite, WriteResult


class Prepared(NamedTuple):
    """A batch, and its parameters as far as they do not depend on the database."""

    batch: Batch
    commits: PreparedCommits | None
    """The parameters of the single statement; None: the batch has more than commits."""


def prepare(batch: Batch) -> Prepared:
    """Prepare a batch, without access to the database or to the results of earlier batches."""
    if not all(group_write.is_only_commits for group_write in batch.writes):
        return Prepared(batch, None)
    folded = fold_commits(batch.writes)
    is_one_statement = bool(folded.commits) and not folded.superseded and not folded.has_older_log_ends
    return Prepared(batch, prepare_commits(batch, folded) if is_one_statement else None)


def write(
    pool: ConnectionPool, autocommit: AutocommitConnection, server: KnownServer, prepared: Prepared, cache: MinuteCache
) -> WriteResult:
    """Store a batch; return the shards and groups that were not stored.

    Args:
        pool: connections for transactions.
        autocommit: the connection for batches that are a single statement.
        server: the server on which the leases are valid.
        prepared: the batch.
        cache: the partitions that were stored in the current minute.
    """
    batch = prepared.batch
    written = _write(pool, autocommit, server, prepared, cache)
    is_lost = written.lost_shards == shards_of(batch)
    if is_lost and pool.transact(partial(server.recognize, node_id=batch.node_id)):
        return _write(pool, autocommit, server, prepared, cache)
    return written


def _write(
    pool: ConnectionPool, autocommit: AutocommitConnection, server: KnownServer, prepared: Prepared, cache: MinuteCache
) -> WriteResult:
    batch, commits = prepared
    try:
        if commits is None:
            lost, folded = pool.transact(partial(_write_whole, server=server, batch=batch, cache=cache))
        else:
            folded = commits.folded
            lost = shards_of(batch) - commit_in_one_statement(
                autocommit, server, commits, cache.known(folded, batch.epochs)
            )
    except DataRefused:
        return pool.transact(partial(_write_in_halves, server=server, batch=batch))
    if not lost:
        cache.add(folded, batch.epochs)
    return WriteResult(lost_shards=lost)


def _write_whole(
    transaction: Transaction, server: KnownServer, batch: Batch, cache: MinuteCache
) -> tuple[frozenset[int], Folded]:
    lost, writes = _check_leases(transaction, server, batch)
    folded = fold(writes)
    store(transaction, folded, cache.known(folded, batch.epochs))
    return lost, folded


def _write_in_halves(transaction: Transaction, server: KnownServer, batch: Batch) -> WriteResult:
    lost, writes = _check_leases(transaction, server, batch)
    by_group: dict[str, list[GroupWrite]] = {}
    for group_write in writes:
        by_group.setdefault(group_write.group_id, []).append(group_write)
    refused: dict[str, str] = {}
    _store_by_halves(transaction, list(by_group.values()), refused)
    return WriteResult(lost_shards=lost, refused_groups=refused)


def _store_by_halves(transaction: Transaction, groups: Sequence[list[GroupWrite]], refused: dict[str, str]) -> None:
    try:
        with transaction.savepoint():
            store(transaction, fold(group_write for group in groups for group_write in group))
    except DataRefused as refusal:
        if len(groups) == 1:
            refused[groups[0][0].group_id] = str(refusal)
            return
        middle = len(groups) // 2
        _store_by_halves(transaction, groups[:middle], refused)
        _store_by_halves(transaction, groups[middle:], refused)


def _check_leases(
    transaction: Transaction, server: KnownServer, batch: Batch
) -> tuple[frozenset[int], list[GroupWrite]]:
    """Lock the valid leases; return the lost shards, and the writes to the others."""
    parameters = {**lease_check_parameters(batch), **server.lease_check_parameters()}
    held = {shard for (shard,) in transaction.execute(LEASE_CHECK, parameters)}
    return shards_of(batch) - held, [group_write for group_write in batch.writes if group_write.shard_id in held]
