"""A batch is one transaction: it proves the leases, then takes one statement a table, then one COMMIT.

Rules:

* The proof comes first, and holds until the transaction ends.
* A batch of nothing but commits, which most are, is a single statement that does all of it.
* Shards whose lease has moved on leave the batch; the others go on.
* Where nothing of a batch is proven, the server may have been restarted, or be another one. The incarnation is then
  compared in full, and the batch is written again if it is still the same (`known_server`).
* When the database refuses the data, the batch begins again, and is written in halves, each behind a savepoint, and
  halves of the refused halves, down to single groups. So one bad group among a thousand costs some twenty
  statements more and nobody else anything. Savepoints rather than a transaction a group: there is still one proof
  and one COMMIT, so that the whole batch is stored, or not, or of unknown outcome.
* One unnest a table: what a batch writes is found by key. COPY into a temporary table and a merge take Postgres a fifth
  less in batches of thousands of rows, a tenth more in batches of tens, and leave dead rows that nobody vacuums.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from coordinator_core.store.postgres.at_once import AtOnce
from coordinator_core.store.postgres.commits import PreparedCommits, commit_at_once, prepare_commits
from coordinator_core.store.postgres.connections import Line, Transaction
from coordinator_core.store.postgres.failures import DataRefused
from coordinator_core.store.postgres.folding import Folded, fold, fold_commits
from coordinator_core.store.postgres.known_server import KnownServer
from coordinator_core.store.postgres.present_minute import PresentMinute
from coordinator_core.store.postgres.proof import PROOF, proof_parameters, shards_of
from coordinator_core.store.postgres.statements import store
from coordinator_core.store.rows import Batch, GroupWrite, Written


class Prepared(NamedTuple):
    """A batch, and what could be done of it without the database."""

    batch: Batch
    commits: PreparedCommits | None
    """What the single statement takes, where there is nothing but commits."""


def prepare(batch: Batch) -> Prepared:
    """Do what needs neither the database nor to know what it has taken before."""
    if not all(group_write.is_only_commits for group_write in batch.writes):
        return Prepared(batch, None)
    folded = fold_commits(batch.writes)
    is_one_statement = bool(folded.commits) and not folded.superseded and not folded.has_older_log_ends
    return Prepared(batch, prepare_commits(batch, folded) if is_one_statement else None)


def write(line: Line, at_once: AtOnce, server: KnownServer, prepared: Prepared, minute: PresentMinute) -> Written:
    """Store a batch, or say which shards and groups of it are not stored.

    Args:
        line: one for transactions.
        at_once: a connection for batches that are a single statement.
        server: the one that the leases hold on.
        prepared: what to store.
        minute: what was stored lately.
    """
    batch = prepared.batch
    written = _write(line, at_once, server, prepared, minute)
    is_lost = written.lost_shards == shards_of(batch)
    if is_lost and line.transact(partial(server.recognize, node_id=batch.node_id)):
        return _write(line, at_once, server, prepared, minute)
    return written


def _write(line: Line, at_once: AtOnce, server: KnownServer, prepared: Prepared, minute: PresentMinute) -> Written:
    batch, commits = prepared
    try:
        if commits is None:
            lost, folded = line.transact(partial(_write_whole, server=server, batch=batch, minute=minute))
        else:
            folded = commits.folded
            lost = shards_of(batch) - commit_at_once(at_once, server, commits, minute.known(folded, batch.epochs))
    except DataRefused:
        return line.transact(partial(_write_in_halves, server=server, batch=batch))
    if not lost:
        minute.note(folded, batch.epochs)
    return Written(lost_shards=lost)


def _write_whole(
    transaction: Transaction, server: KnownServer, batch: Batch, minute: PresentMinute
) -> tuple[frozenset[int], Folded]:
    lost, writes = _prove_leases(transaction, server, batch)
    folded = fold(writes)
    store(transaction, folded, minute.known(folded, batch.epochs))
    return lost, folded


def _write_in_halves(transaction: Transaction, server: KnownServer, batch: Batch) -> Written:
    lost, writes = _prove_leases(transaction, server, batch)
    by_group: dict[str, list[GroupWrite]] = {}
    for group_write in writes:
        by_group.setdefault(group_write.group_id, []).append(group_write)
    refused: dict[str, str] = {}
    _store_by_halves(transaction, list(by_group.values()), refused)
    return Written(lost_shards=lost, refused_groups=refused)


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


def _prove_leases(
    transaction: Transaction, server: KnownServer, batch: Batch
) -> tuple[frozenset[int], list[GroupWrite]]:
    """Lock the leases that hold; return the shards that are lost, and the writes to the others."""
    parameters = {**proof_parameters(batch), **server.proof_parameters()}
    held = {shard for (shard,) in transaction.execute(PROOF, parameters)}
    return shards_of(batch) - held, [group_write for group_write in batch.writes if group_write.shard_id in held]
