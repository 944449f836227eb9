"""The tokens in the database: a node goes on reading them after any error."""

import asyncio
from collections.abc import Callable
from hashlib import sha256
from typing import Any, cast

import pytest
from structlog.testing import capture_logs

from api.shared.tokens import Tokens
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.state_store.postgres.tokens import StoredToken, read_tokens
from muster.node import serve, stored_tokens
from tests.support.waiting import limited

TOKEN = b"secret"
DIGEST = sha256(TOKEN).hexdigest()
ISSUED = StoredToken(DIGEST[:16], DIGEST, "ada", {"role": "agent"}, 1_000)
EDITED = ISSUED._replace(permissions=["agent"])
"""A row that was changed with SQL, of which no token can be made."""
REVOKED = ISSUED._replace(revoked_at_ms=2_000)


class OneToken:
    """Answers queries of the tokens: one token, in one state after the other, of which the last stays."""

    limits = QueryLimits()

    def __init__(self, *states: StoredToken) -> None:
        self._states = list(states)
        self._version = 0

    async def run(self, query: Callable[..., Any], /, *_arguments: Any, **_keywords: Any) -> Any:  # noqa: ANN401
        if query is not read_tokens:
            return 1, self._version
        state = self._states[0]
        if len(self._states) > 1:
            del self._states[0]
            self._version += 1
        return [state]

    def close(self) -> None:
        """Do nothing."""


async def follow_until_revoked() -> None:
    tokens = Tokens(None)
    following = await serve._follow_stored_tokens(tokens, cast("Any", OneToken(ISSUED, EDITED, REVOKED)))
    assert tokens.find(TOKEN) is not None
    try:
        async with limited("the token is revoked"):
            while tokens.find(TOKEN) is not None:  # noqa: ASYNC110 - a task of the node reads it
                await asyncio.sleep(0.005)
    finally:
        following.cancel()


def test_a_token_is_revoked_also_after_an_unexpected_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_tokens, "REFRESH_INTERVAL_S", 0.01)
    with capture_logs() as logs:
        asyncio.run(follow_until_revoked())

    assert [each["loop"] for each in logs if each["event"] == "background_loop_failed"] == ["tokens"]
