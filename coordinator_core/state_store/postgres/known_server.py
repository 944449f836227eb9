"""The known server: the server on which the incarnation was last compared in full; writes compare its marks only.

The system identifier is in a file of the server, and takes longer to read than the rest of a lease check. *Marks* are
in memory: the start time of the postmaster, and the file of the table `incarnation`. Another server has another start
time, and another database or table is stored in another file. The marks of the same server change with a restart, and
when the table is rewritten.

A write under other marks stores nothing. The incarnation is then compared in full, and the write is repeated if it is
the known one.

A timeline never decreases: a server with an earlier one than the known server's is a former primary that runs again, or
an old snapshot. Nothing is stored there, since another server may have later commits.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from coordinator_core.state_store.interface import RolledBack
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.failures import FormerPrimary
from coordinator_core.state_store.postgres.identity import MARKS, read_identity, read_incarnation
from coordinator_core.state_store.rows import Incarnation

_RENEWALS: Final = "SELECT renewals FROM nodes WHERE node_id = %(node_id)s"


class _Known(NamedTuple):
    incarnation: Incarnation
    node_id: str
    renewals: int
    """The node's number of renewals when it last renewed on this server; 0: it has not."""
    started_at: str
    file: str


class KnownServer:
    """The server on which one store last compared the incarnation; usable from any thread."""

    def __init__(self) -> None:
        """Start without a known server: no write succeeds before the first renewal or acquired lease."""
        self._known: _Known | None = None

    def remember(
        self, transaction: Transaction, incarnation: Incarnation, node_id: str, renewals: int | None = None
    ) -> None:
        """Remember the server, on which leases were renewed, or (without `renewals`) acquired, in this transaction.

        Raises:
            FormerPrimary: the known server is of the same Postgres cluster, and has a later timeline.
            RolledBack: leases were acquired after a rollback that no renewal has noticed yet.
        """
        self.refuse_former_primary(incarnation)
        known = self._known
        if renewals is None:
            renewals = 0 if known is None or known.node_id != node_id else known.renewals
            if known is not None and incarnation == known.incarnation and _renewals(transaction, node_id) < renewals:
                raise RolledBack(incarnation.number)
        self._known = _Known(incarnation, node_id, renewals, *transaction.execute(MARKS).one())

    def refuse_former_primary(self, incarnation: Incarnation) -> None:
        """Raise FormerPrimary if the known server is of the same Postgres cluster, and has a later timeline."""
        last = None if self._known is None else self._known.incarnation.identity
        found = incarnation.identity
        if last is None or found is None or found.system_identifier != last.system_identifier:
            return
        if found.timeline < last.timeline:
            raise FormerPrimary(
                f"the server is on timeline {found.timeline}, and this node has served timeline {last.timeline} of the"
                " same Postgres cluster: stop the former primary; if an older state was restored on purpose, restart"
                " the nodes"
            )

    def parameters(self) -> Mapping[str, Any]:
        """Return the parameters of `IS_KNOWN_SERVER`."""
        known = self._known
        if known is None:
            return {"incarnation": None, "server_started_at": None, "incarnation_file": None}
        return {
            "incarnation": known.incarnation.number,
            "server_started_at": known.started_at,
            "incarnation_file": known.file,
        }

    def recognize(self, transaction: Transaction, node_id: str) -> bool:
        """Return whether the server has the known incarnation and was not rolled back; if so, remember its marks."""
        known = self._known
        if known is None or read_incarnation(transaction) != known.incarnation:
            return False
        if read_identity(transaction) != known.incarnation.identity:
            return False
        try:
            self.remember(transaction, known.incarnation, node_id)
        except RolledBack:
            return False
        return True


def _renewals(transaction: Transaction, node_id: str) -> int:
    """Return a node's number of renewals in the database; 0: it has no row."""
    return transaction.execute(_RENEWALS, {"node_id": node_id}).scalar() or 0
