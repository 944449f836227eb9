"""`muster database-restored`: starts a new incarnation after a restore that nodes cannot notice."""

from __future__ import annotations

from contextlib import closing

from coordinator_core.store.interface import StoreError
from coordinator_core.store.postgres import PostgresStore
from coordinator_core.store.rows import Incarnation
from muster.errors import FAILURE_EXIT_CODE, UserError


def start_incarnation(database_url: str, known: int | None, actor: str, reason: str) -> None:
    """Start an incarnation in place of the known one; without one, print what that would do.

    Raises:
        UserError: the database does not answer, or the known incarnation has not started yet.
    """
    with closing(PostgresStore(database_url)) as store:
        try:
            present = store.incarnation()
            if known is None:
                print(_proposal(present))
            elif known > present.number:
                raise UserError(f"The database is at incarnation {present.number}; there is no {known} to end.")
            else:
                print(_outcome(known, present, store.start_incarnation(known, actor, reason)))
        except StoreError as failure:
            raise UserError(f"The database refuses: {failure}.", FAILURE_EXIT_CODE) from failure


def _proposal(present: Incarnation) -> str:
    return (
        f"The database is at incarnation {present.number}. A new one would make the generations of all groups jump, and"
        " every group with members would rebalance.\n"
        f"Nothing was changed; --execute --incarnation {present.number} does it."
    )


def _outcome(known: int, before: Incarnation, after: Incarnation) -> str:
    if before.number != known:
        return f"Incarnation {known} is over already; the database is at {after.number}. Nothing was changed."
    return f"Incarnation {after.number} has started. Every group with members rebalances once a node serves it."
