"""Stored tokens on a node: reads them when it starts, and again within REFRESH_INTERVAL_S of a change.

While the database cannot be reached, the last ones remain effective, and expire by the clock. A node that stays without
its database loses its leases, and answers nothing for groups.
"""

import asyncio
from datetime import UTC, datetime
from typing import Final

import msgspec
import structlog

from api.shared.tokens import KnownToken, TokenEntry, Tokens, known_token
from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.queries.runner import QueryRunner
from coordinator_core.state_store.postgres.tokens import StoredToken, read_tokens, tokens_version

log = structlog.get_logger("muster.node")

REFRESH_INTERVAL_S: Final = 2.0
"""The time between two checks for changed tokens."""


class StoredTokens:
    """Keeps the stored tokens of a node up to date."""

    def __init__(self, tokens: Tokens, queries: QueryRunner) -> None:
        self._tokens = tokens
        self._queries = queries
        self._version: tuple[int, int] | None = None

    async def refresh(self) -> None:
        """Read the tokens, if they have changed.

        Raises:
            CoordinatorNotAvailable: the database cannot be reached.
        """
        version = await self._queries.run(tokens_version)
        if version == self._version:
            return
        found = await self._queries.run(read_tokens)
        known = [each for token in found if token.revoked_at_ms is None and (each := _known(token)) is not None]
        self._tokens.replace_stored({each.digest: each for each in known})
        self._version = version
        log.info("stored_tokens_read", tokens=len(known))

    async def keep_fresh(self) -> None:
        """Refresh the tokens from time to time, until cancelled."""
        while True:
            await asyncio.sleep(REFRESH_INTERVAL_S)
            try:
                await self.refresh()
            except CoordinatorNotAvailable as error:
                log.warning("stored_tokens_unreadable", reason=error.detail)


def _known(token: StoredToken) -> KnownToken | None:
    """Return a token in the form of one of the file; None, logged, if this release does not know its permissions."""
    expires_at_ms = token.expires_at_ms
    expires_at = None if expires_at_ms is None else datetime.fromtimestamp(expires_at_ms / 1000, UTC)
    given = {"sha256": token.sha256, "actor": token.actor, "expires_at": expires_at, **token.permissions}
    try:
        return known_token(msgspec.convert(given, TokenEntry))
    except ValueError as refusal:
        log.error("stored_token_invalid", token_id=token.token_id, reason=str(refusal))
        return None
