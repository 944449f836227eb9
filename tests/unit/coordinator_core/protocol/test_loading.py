"""Responses while a shard is loading.

Source: protocol.md section 3 and D-7.
"""

import pytest

from coordinator_core.protocol.errors import CoordinatorError
from coordinator_core.protocol.loading import respond_while_loading
from coordinator_core.protocol.requests import DeleteGroup, Request
from coordinator_core.protocol.responses import HeartbeatResponse
from coordinator_core.protocol.settings import GroupSettings
from tests.unit.coordinator_core.protocol.groups import TOKEN, commit, heartbeat, join, leave, sync


def test_heartbeat_while_loading_returns_effective_timeouts() -> None:
    assert respond_while_loading(heartbeat("a"), GroupSettings()) == HeartbeatResponse(6_000, 2_000)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (sync("a"), "REBALANCE_IN_PROGRESS"),
        (join(), "COORDINATOR_LOAD_IN_PROGRESS"),
        (leave("a"), "COORDINATOR_LOAD_IN_PROGRESS"),
        (commit("a"), "COORDINATOR_LOAD_IN_PROGRESS"),
        (DeleteGroup(TOKEN, (), "change"), "COORDINATOR_LOAD_IN_PROGRESS"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_sync_while_loading_rejoins_and_other_requests_retry(request_: Request, code: str) -> None:
    with pytest.raises(CoordinatorError) as refused:
        respond_while_loading(request_, GroupSettings())
    assert refused.value.code == code
