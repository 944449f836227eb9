"""What a group answers while its shard is being loaded: enough that no client does anything rash.

Source: protocol.md section 3 and D-7. A heartbeat counts, a sync sends its member back to the join, the rest waits.
"""

from coordinator_core.protocol.errors import CoordinatorLoadInProgress, RebalanceInProgress
from coordinator_core.protocol.replies import Beaten
from coordinator_core.protocol.requests import Heartbeat, Request, SyncGroup
from coordinator_core.protocol.settings import GroupSettings


def answer_while_loading(request: Request, settings: GroupSettings) -> Beaten:
    """Answer a heartbeat, and refuse everything else for now.

    Raises:
        RebalanceInProgress: for a sync.
        CoordinatorLoadInProgress: for all the rest.
    """
    if isinstance(request, Heartbeat):
        session_ms = settings.session_in_force_ms(settings.group_min_session_timeout_ms)
        return Beaten(session_ms, settings.heartbeat_in_force_ms(session_ms))
    if isinstance(request, SyncGroup):
        raise RebalanceInProgress("the group is being loaded; join again")
    raise CoordinatorLoadInProgress("the group is being loaded")
