"""Stored tokens: issued, expired and revoked by operators, each with its row of `changes`, and read by every node.

A token is stored as its SHA-256. That suffices, because a token has 256 random bits: there is nothing to guess, so a
slow hash with a salt would protect no better and would cost every request.
"""

from typing import Any, Final, NamedTuple

from sqlalchemy import func, insert, select, update

from coordinator_core.state_store.audit_tables import tokens
from coordinator_core.state_store.postgres.changes import record_change
from coordinator_core.state_store.postgres.connections import Transaction
from coordinator_core.state_store.postgres.timestamps import columns_of, from_ms
from coordinator_core.state_store.rows import ChangeRow, Json

EXPIRY_NOTICE_DAYS: Final = 14
"""How many days before its expiry operators are warned of a token."""


class StoredToken(NamedTuple):
    """A row of `tokens`."""

    token_id: str
    sha256: str
    actor: str
    permissions: Json
    """The fields of an entry of the tokens file that say what the token may do."""
    issued_at_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None


_TOKENS: Final = select(*columns_of(tokens, StoredToken._fields))


def read_tokens(transaction: Transaction) -> list[StoredToken]:
    """Return all tokens, the oldest first."""
    rows = transaction.execute(_TOKENS.order_by(tokens.c.issued_at, tokens.c.token_id))
    return [StoredToken(*row) for row in rows]


def tokens_version(transaction: Transaction) -> tuple[int, int]:
    """Return the number of tokens and the sum of their versions: every change of the table changes them."""
    count, changed = transaction.execute(select(func.count(), func.coalesce(func.sum(tokens.c.version), 0))).one()
    return count, changed


def find_token(transaction: Transaction, token_id: str) -> StoredToken | None:
    """Return a token, and lock its row; None if there is none."""
    row = transaction.execute(_TOKENS.where(tokens.c.token_id == token_id).with_for_update()).first()
    return None if row is None else StoredToken(*row)


def issue_token(transaction: Transaction, token: StoredToken, change: ChangeRow) -> None:
    """Store a new token."""
    values = token._asdict()
    transaction.execute(insert(tokens).values(**_with_times(values)))
    record_change(transaction, change)


def end_token(
    transaction: Transaction,
    token_id: str,
    change: ChangeRow,
    *,
    expires_at_ms: int | None = None,
    revoked_at_ms: int | None = None,
) -> None:
    """Let a token expire at a time, or revoke it."""
    given = {"expires_at_ms": expires_at_ms, "revoked_at_ms": revoked_at_ms}
    times = _with_times({name: at_ms for name, at_ms in given.items() if at_ms is not None})
    changed = update(tokens).where(tokens.c.token_id == token_id)
    transaction.execute(changed.values(**times, version=tokens.c.version + 1))
    record_change(transaction, change)


def _with_times(values: dict[str, Any]) -> dict[str, Any]:
    """Return values by column; those of `_at_ms` become times."""
    return {
        name.removesuffix("_ms"): from_ms(value) if name.endswith("_at_ms") and value is not None else value
        for name, value in values.items()
    }
