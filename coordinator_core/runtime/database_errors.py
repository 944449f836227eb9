"""What clients and `/readyz` may know of an error: never the text of Postgres, which only the log has."""

import structlog

from coordinator_core.protocol.errors import CoordinatorNotAvailable
from coordinator_core.state_store.interface import StoreError

log = structlog.get_logger("muster.runtime")


def summary_of(error: Exception) -> str:
    """Return a sentence about an error without its text."""
    return error.summary if isinstance(error, StoreError) else f"{type(error).__name__}; the log has its text"


def query_failed(error: StoreError) -> CoordinatorNotAvailable:
    """Log the error of a query, and return the one for the client."""
    log.warning("query_failed", reason=str(error))
    return CoordinatorNotAvailable(f"the query of the database failed: {error.summary}")
