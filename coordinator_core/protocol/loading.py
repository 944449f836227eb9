"""Responses while a shard is loading: heartbeats succeed, syncs rejoin, all other requests retry.

Source: protocol.md section 3 and D-7.
"""

from coordinator_core.protocol.errors import CoordinatorLoadInProgress, RebalanceInProgress
from coordinator_core.protocol.requests import Heartbeat, Request, SyncGroup
from coordinator_core.protocol.responses import HeartbeatResponse
from coordinator_core.protocol.settings import GroupSettings


def respond_while_loading(request: Request, settings: GroupSettings) -> HeartbeatResponse:
    """Return the response to a heartbeat; refuse every other request.

    Raises:
        RebalanceInProgress: for a sync.
        CoordinatorLoadInProgress: for every other request.
    """
    if isinstance(request, Heartbeat):
        session_ms = settings.effective_session_timeout_ms(settings.group_min_session_timeout_ms)
        return HeartbeatResponse(session_ms, settings.effective_heartbeat_interval_ms(session_ms))
    if isinstance(request, SyncGroup):
        raise RebalanceInProgress("the group is being loaded; join again")
    raise CoordinatorLoadInProgress("the group is being loaded")
