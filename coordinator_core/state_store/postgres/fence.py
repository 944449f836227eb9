"""The fence: one row that proves all leases of a node at once, so that a write does not check each of its shards.

Rules:

* Each store has a row of `writers`, under an id of its own. The lease of a shard names the writer that acquired it.
* A write locks its writer's row FOR KEY SHARE and compares the number `fence`. If it is the one under which all shards
  of the write were last checked, their leases are still valid.
* Acquiring a lease locks the leases and then the rows of their former writers FOR UPDATE, and raises `fence`: it waits
  for writes in progress, and later writes find another number.
* On a mismatch, a write checks the lease of each shard, and remembers the number that it finds. It locks the leases
  before the writer's row, as acquiring does.

A renewal changes neither a key nor a fence, so it does not wait for writes. No check uses a clock.

Both checks also compare the server and the incarnation: a promoted standby or a restored database accepts no write
before a renewal has started a new incarnation, which ends every lease.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Final

from coordinator_core.state_store.postgres.arrays import array_literal
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.identity import IS_KNOWN_SERVER
from coordinator_core.state_store.rows import Batch

FENCE_CHECK: Final = f"""
SELECT FROM writers
WHERE writer_id = %(writer_id)s AND fence = %(fence)s AND {IS_KNOWN_SERVER}
FOR KEY SHARE
"""
"""Returns a row, and locks it, if every lease that was checked under this fence is still valid."""

_LEASE_CHECK: Final = f"""
SELECT shard_id
FROM shard_leases JOIN unnest(%(shards)s::smallint[], %(epochs)s::bigint[]) AS ours (shard_id, epoch)
    USING (shard_id, epoch)
WHERE node_id = %(node_id)s AND writer_id = %(writer_id)s AND {IS_KNOWN_SERVER}
ORDER BY shard_id
FOR KEY SHARE OF shard_leases
"""  # noqa: S608 - constants

_READ_FENCE: Final = "SELECT fence FROM writers WHERE writer_id = %(writer_id)s FOR KEY SHARE"

_ADD_WRITER: Final = """
INSERT INTO writers (writer_id, fence) VALUES (%(writer_id)s, %(fence)s) ON CONFLICT DO NOTHING
"""

_LOCK_WRITERS: Final = "SELECT FROM writers WHERE writer_id = ANY(%(writers)s::bigint[]) ORDER BY writer_id FOR UPDATE"

_RAISE_FENCES: Final = "UPDATE writers SET fence = fence + 1 WHERE writer_id = ANY(%(writers)s::bigint[])"

_LOCK_ALL: Final = "SELECT FROM writers ORDER BY writer_id FOR UPDATE"

_DELETE_UNUSED: Final = """
DELETE FROM writers WHERE NOT EXISTS (SELECT FROM shard_leases WHERE writer_id = writers.writer_id)
"""


class Fence:
    """The fence of one store, and the leases that were checked under it."""

    def __init__(self) -> None:
        """Draw the writer's id. A node's id would not do: after a restart the node has the same one."""
        self.writer_id: Final = secrets.randbits(63)
        self._number: int | None = None
        self._checked: dict[int, int] = {}
        """Shard → the epoch of the lease that was valid under the number."""

    def covers(self, batch: Batch) -> bool:
        """Return whether every lease of a batch was checked under the fence."""
        checked = self._checked
        return all(checked.get(shard) == batch.epochs[shard] for shard in shards_of(batch))

    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters of `FENCE_CHECK`; `KnownServer.parameters` returns the others."""
        return {"writer_id": self.writer_id, "fence": self._number}

    def check_leases(self, transaction: Transaction, batch: Batch, server: Mapping[str, Any]) -> frozenset[int]:
        """Check and lock the lease of each shard of a batch; return the shards with valid leases.

        Args:
            transaction: the transaction, which has locked nothing yet.
            batch: the batch.
            server: the parameters of the known server.
        """
        epochs = {shard: batch.epochs[shard] for shard in shards_of(batch)}
        held = check_leases(transaction, self.writer_id, batch.node_id, epochs, server)
        number = transaction.execute(_READ_FENCE, {"writer_id": self.writer_id}).scalar()
        if number != self._number:
            self._number = number
            self._checked.clear()
        self._checked.update({shard: epochs[shard] for shard in held})
        return held

    def forget(self, shard_ids: Iterable[int]) -> None:
        """Check the leases of these shards again before they are written to."""
        for shard in shard_ids:
            self._checked.pop(shard, None)

    def add_writer(self, transaction: Transaction) -> None:
        """Add the writer's row, if it is missing, under a fence that no row of the writer had before.

        The row may have been deleted while a write under one of its fences waited on this node.
        """
        transaction.execute(_ADD_WRITER, {"writer_id": self.writer_id, "fence": secrets.randbits(62)})


def check_leases(
    transaction: Transaction, writer_id: int, node_id: str, epochs: Mapping[int, int], server: Mapping[str, Any]
) -> frozenset[int]:
    """Check and lock the leases of shards; return the shards whose leases are valid.

    Args:
        transaction: the transaction, which has locked nothing yet.
        writer_id: the writer that acquired the leases.
        node_id: the node.
        epochs: shard → the epoch of its lease.
        server: the parameters of the known server.
    """
    shards = sorted(epochs)
    ours = {"shards": array_literal(shards), "epochs": array_literal([epochs[shard] for shard in shards])}
    parameters = {**ours, "node_id": node_id, "writer_id": writer_id, **server}
    return frozenset(shard for (shard,) in transaction.execute(_LEASE_CHECK, parameters))


def raise_fences(transaction: Transaction, writer_ids: Iterable[int]) -> None:
    """Wait for the writes in progress of these writers, and make their later writes check their leases."""
    writers = {"writers": array_literal(sorted(writer_ids))}
    transaction.execute(_LOCK_WRITERS, writers)
    transaction.execute(_RAISE_FENCES, writers)


def raise_all_fences(transaction: Transaction) -> None:
    """Wait for all writes in progress, and make every later write check its leases."""
    transaction.execute(_LOCK_ALL)
    transaction.execute("UPDATE writers SET fence = fence + 1")


def delete_unused_writers(transaction: Transaction) -> None:
    """Delete the rows of writers without leases; one that is still in use is added again with its next lease."""
    transaction.execute(_DELETE_UNUSED)


def shards_of(batch: Batch) -> frozenset[int]:
    """Return the shards that a batch writes to."""
    return frozenset({group_write.shard_id for group_write in batch.writes})
