"""The server that a node knows: the incarnation was compared in full there, and each write compares its marks.

The system identifier is in a file of the server, and takes longer to read than the rest of a write's proof. Marks are
in memory: when the postmaster started, and which file the table `incarnation` is stored in. Another server has started
at another time, and another database or table is stored in another file. The same server has other marks after a
restart, and after the table was rewritten.

So a write under other marks than the known ones stores nothing. The incarnation is then compared in full, and the write
is repeated if it is the known one.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from coordinator_core.store.postgres.connections import Transaction
from coordinator_core.store.postgres.identity import MARKS, read_identity, read_incarnation
from coordinator_core.store.rows import Incarnation

_RENEWALS: Final = "SELECT renewals FROM nodes WHERE node_id = %(node_id)s"


class _Known(NamedTuple):
    incarnation: Incarnation
    renewals: int
    """Of the node, when it last renewed there."""
    started_at: str
    file: str


class KnownServer:
    """The server on which one store last compared the incarnation; usable from any thread."""

    def __init__(self) -> None:
        """Know none: nothing can be written before a renewal or take-over."""
        self._known: _Known | None = None

    def remember(self, transaction: Transaction, incarnation: Incarnation, renewals: int | None = None) -> None:
        """Take over what a renewal, or (without `renewals`) a take-over has found in this transaction."""
        if renewals is None:
            renewals = 0 if self._known is None else self._known.renewals
        self._known = _Known(incarnation, renewals, *transaction.execute(MARKS).one())

    def proof_parameters(self) -> Mapping[str, Any]:
        """Return what `IS_KNOWN_SERVER` takes."""
        known = self._known
        if known is None:
            return {"incarnation": None, "server_started_at": None, "incarnation_file": None}
        return {
            "incarnation": known.incarnation.number,
            "server_started_at": known.started_at,
            "incarnation_file": known.file,
        }

    def recognize(self, transaction: Transaction, node_id: str) -> bool:
        """Return whether this server has the known incarnation and was not rolled back; remember its marks if so."""
        known = self._known
        if known is None or read_incarnation(transaction) != known.incarnation:
            return False
        renewals = transaction.execute(_RENEWALS, {"node_id": node_id}).scalar() or 0
        if renewals < known.renewals or read_identity(transaction) != known.incarnation.identity:
            return False
        self.remember(transaction, known.incarnation)
        return True
