"""Writes of batches: one transaction checks the leases, runs one statement per table, and commits.

Rules:

* The check of the fence comes first, and locks it until the transaction ends. If it fails, or a lease of the batch was
  not checked under this fence, the leases are checked shard by shard in a transaction of their own with the rows.
* A batch of commits only, the most frequent kind, is a single statement, which checks the fence too.
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

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from coordinator_core.store.postgres.autocommit import AutocommitConnection
from coordinator_core.store.postgres.commits import PreparedCommits, commit_in_one_statement, prepare_commits
from coordinator_core.store.postgres.connections import ConnectionPool, Transaction
from coordinator_core.store.postgres.failures import DataRefused
from coordinator_core.store.postgres.fence import FENCE_CHECK, Fence, shards_of
from coordinator_core.store.postgres.folding import Folded, fold, fold_commits
from coordinator_core.store.postgres.known_server import KnownServer
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
    pool: ConnectionPool,
    autocommit: AutocommitConnection,
    server: KnownServer,
    fence: Fence,
    prepared: Prepared,
    cache: MinuteCache,
) -> WriteResult:
    """Store a batch; return the shards and groups that were not stored.

    Args:
        pool: connections for transactions.
        autocommit: the connection for batches that are a single statement.
        server: the server on which the leases are valid.
        fence: the fence of this store.
        prepared: the batch.
        cache: the partitions that were stored in the current minute.
    """
    batch = prepared.batch
    checked = partial(_store_checked, server=server, fence=fence, batch=batch)
    try:
        if fence.covers(batch):
            proof = {**server.parameters(), **fence.parameters()}
            written = _write_fenced(pool, autocommit, proof, prepared, cache)
            if written is not None:
                return written
        written = pool.transact(partial(checked, store_writes=_store_whole))
        is_lost = written.lost_shards == shards_of(batch)
        if is_lost and pool.transact(partial(server.recognize, node_id=batch.node_id)):
            return pool.transact(partial(checked, store_writes=_store_whole))
        return written
    except DataRefused:
        return pool.transact(partial(checked, store_writes=_store_in_halves))


def _write_fenced(
    pool: ConnectionPool,
    autocommit: AutocommitConnection,
    proof: Mapping[str, Any],
    prepared: Prepared,
    cache: MinuteCache,
) -> WriteResult | None:
    """Store a batch if the fence is still the one under which its leases were checked; else return None."""
    batch, commits = prepared
    if commits is None:
        folded = pool.transact(partial(_store_fenced, proof=proof, batch=batch, cache=cache))
    else:
        known = cache.known(commits.folded, batch.epochs)
        folded = commits.folded if commit_in_one_statement(autocommit, proof, commits, known) else None
    if folded is None:
        return None
    cache.add(folded, batch.epochs)
    return WriteResult()


def _store_fenced(
    transaction: Transaction, proof: Mapping[str, Any], batch: Batch, cache: MinuteCache
) -> Folded | None:
    if transaction.execute(FENCE_CHECK, proof).first() is None:
        return None
    folded = fold(batch.writes)
    store(transaction, folded, cache.known(folded, batch.epochs))
    return folded


def _store_checked(
    transaction: Transaction,
    server: KnownServer,
    fence: Fence,
    batch: Batch,
    store_writes: Callable[[Transaction, Sequence[GroupWrite]], dict[str, str]],
) -> WriteResult:
    """Check the lease of each shard, and store what belongs to valid ones."""
    held = fence.check_leases(transaction, batch, server.parameters())
    refused = store_writes(transaction, [one for one in batch.writes if one.shard_id in held])
    return WriteResult(lost_shards=shards_of(batch) - held, refused_groups=refused)


def _store_whole(transaction: Transaction, writes: Sequence[GroupWrite]) -> dict[str, str]:
    store(transaction, fold(writes))
    return {}


def _store_in_halves(transaction: Transaction, writes: Sequence[GroupWrite]) -> dict[str, str]:
    """Store what the database accepts; return group → why the database rejected its data."""
    by_group: dict[str, list[GroupWrite]] = {}
    for group_write in writes:
        by_group.setdefault(group_write.group_id, []).append(group_write)
    refused: dict[str, str] = {}
    _store_by_halves(transaction, list(by_group.values()), refused)
    return refused


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
