"""Members of one group that can be made to send anything."""

from itertools import count

from coordinator_core.protocol.consumer_protocol import Subscription, write_subscription
from coordinator_core.protocol.requests import JoinGroup, LeaveGroup, LeavingMember, SupportedProtocol, SyncGroup
from coordinator_core.protocol.responses import JoinGroupResponse
from coordinator_core.protocol.states import PREPARING
from coordinator_core.runtime.coordinator import Coordinator
from tests.unit.coordinator_core.runtime.nodes import state_of, until

LONG_MS = 60_000

_serial = count(1)


class Caller:
    """A member of the group "g" that can be made to do anything."""

    def __init__(self, node: Coordinator, *, instance: str | None = None, client_id: str = "c") -> None:
        self.node = node
        self.client_id = client_id
        self.instance = instance
        self.session_ms = LONG_MS
        self.limit_ms = LONG_MS
        self.topics: tuple[str, ...] = ("t",)
        self.assignors = ("range", "roundrobin")
        self.member_id = ""
        self.generation = -1

    async def join(self, reason: str | None = None) -> JoinGroupResponse:
        metadata = write_subscription(Subscription(self.topics))
        request = JoinGroup(
            token=self.node.new_token(),
            member_id=self.member_id,
            group_instance_id=self.instance,
            client_id=self.client_id,
            client_host="/127.0.0.1",
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.limit_ms,
            protocol_type="consumer",
            protocols=tuple(SupportedProtocol(name, metadata) for name in self.assignors),
            new_member_id=f"{self.client_id}-{next(_serial)}",
            require_known_member_id=False,
            reason=reason,
        )
        answer = await self.node.submit("g", request)
        assert isinstance(answer, JoinGroupResponse)
        self.member_id, self.generation = answer.member_id, answer.generation
        return answer

    async def sync(self) -> None:
        await self.node.submit("g", SyncGroup(self.node.new_token(), self.generation, self.member_id))

    async def settle(self, reason: str | None = None) -> "Caller":
        await self.join(reason)
        await self.sync()
        return self

    async def settle_again(self) -> None:
        """Hear of a rebalance, join again and assign."""
        await until(lambda: state_of(self.node, "g") == PREPARING, "a join phase begins")
        await self.settle()

    async def leave(self, reason: str | None = None) -> None:
        await self.node.submit("g", LeaveGroup(self.node.new_token(), (LeavingMember(self.member_id, None, reason),)))


def waited_for(node: Coordinator) -> tuple[str, ...]:
    view = node.describe("g")
    return () if view is None else view.waiting_for
