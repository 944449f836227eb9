"""Who sent the request that the current task or callback serves; the listeners set it before they submit a request."""

from contextvars import ContextVar
from typing import Final

from coordinator_core.state_store.dirty_offsets import UNKNOWN_ORIGIN, CommitOrigin

current_client: Final[ContextVar[str]] = ContextVar("current_client", default="")
"""The client, by which limits are shared; empty for the node's own writes."""

commit_origin: Final[ContextVar[CommitOrigin]] = ContextVar("commit_origin", default=UNKNOWN_ORIGIN)
"""The token and the address of a commit; of other requests it is not read."""
