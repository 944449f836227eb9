"""What clients and `/readyz` may know of an error: never the text of Postgres, which only the log has."""

from collections.abc import Awaitable
from typing import TypeVar

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.state_store.interface import OutcomeUnknown, StoreError, StoreUnavailable

log = structlog.get_logger("muster.runtime")

T = TypeVar("T")


def summary_of(error: Exception) -> str:
    """Return a sentence about an error without its text."""
    return error.summary if isinstance(error, StoreError) else f"{type(error).__name__}; the log has its text"


class QueryFailures:
    """The failures of queries since the last one that succeeded; the log has the first of each kind in a row."""

    def __init__(self) -> None:
        self._summary: str | None = None

    async def answer(self, query: Awaitable[T]) -> T:
        """Wait for a query; raises CoordinatorNotAvailable if the database cannot be reached."""
        try:
            found = await query
        except (StoreUnavailable, OutcomeUnknown) as error:
            if error.summary != self._summary:
                log.warning("query_failed", reason=str(error))
            self._summary = error.summary
            raise CoordinatorNotAvailable(f"the query of the database failed: {error.summary}") from error
        self._summary = None
        return found
