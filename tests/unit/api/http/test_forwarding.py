"""Forwarding of a long poll whose group moves between its refusal and its forwarding."""

from types import SimpleNamespace
from typing import Final, cast

import pytest

from api.http import LISTENER
from api.http.forwarding import Forwarder
from api.http.request_context import RequestContext
from api.shared.tls import NodeTls, TlsFiles
from coordinator_core.protocol.errors import NotCoordinator
from coordinator_core.runtime.views import ShardOwner

pytestmark = pytest.mark.anyio

BEFORE: Final = {LISTENER: "http://127.0.0.1:1"}
NOW: Final = {LISTENER: "http://127.0.0.1:2"}


class Owners:
    """Knows who owns the group now."""

    def find_coordinator(self, group_id: str) -> ShardOwner:
        del group_id
        return ShardOwner(0, "now", NOW, 2)


async def test_a_long_poll_is_not_sent_to_an_owner_that_has_lost_the_group() -> None:
    forwarder = Forwarder(is_on=True, timeout_ms=1_000, max_connections=1, tls=NodeTls(TlsFiles()))
    poll = SimpleNamespace(
        coordinator=Owners(),
        group_id="g",
        is_long_poll=True,
        is_forwarded=False,
        header=lambda _: None,
    )
    with pytest.raises(NotCoordinator) as refusal:
        await forwarder.forward(cast("RequestContext", poll), NotCoordinator("another node owns this group", BEFORE))
    assert refusal.value.listeners == NOW
