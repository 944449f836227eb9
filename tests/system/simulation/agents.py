"""Simulated agents: they join, sync, commit and send heartbeats as real agents do, without threads.

What each error does to its membership is decided by the real agent's own table (`agent.core.membership`). All agents
share one loop, which never pauses; an agent that sleeps does nothing by itself, heartbeats included.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from agent import errors
from agent.core.membership import MemberIdentity, Membership, MemberState, Reaction, RequestType
from agent.errors import AgentError, Problem
from coordinator_core.assignors import ASSIGNORS, MemberSubscription
from coordinator_core.protocol.consumer_protocol import (
    CONSUMER,
    Assignment,
    Subscription,
    TopicPartitions,
    partitions_of,
    topics_of,
    write_assignment,
    write_subscription,
)
from coordinator_core.protocol.errors import CoordinatorError, NotCoordinator
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    OffsetToCommit,
    SupportedProtocol,
    SyncGroup,
)
from coordinator_core.protocol.responses import (
    CommitOffsetsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    SyncGroupResponse,
)
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.rows import FetchedOffset, TopicRow
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.network import Network, NoAnswer
from tests.system.simulation.node import Answer, Ask, Message
from tests.system.simulation.world import World

LONG_POLL_S = 20.0
BACKOFF_S = 0.3
BACKOFF_MAX_S = 5.0
PARTITIONS_A_COMMIT = 4
EAGER = 0.05
"""How likely an agent is to commit before it knows what it owns."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What an agent is, whichever process it lives in."""

    name: str
    group_id: str
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    commit_every_s: float
    group_instance_id: str | None = None


class Over(Exception):
    """The round has come to nothing; the next one begins where the membership is now."""


class Agent:
    """One process of an agent."""

    def __init__(self, plan: Plan, world: World, network: Network, clients: SimulatedLoop) -> None:
        self.plan = plan
        self.membership = Membership()
        self.positions: dict[tuple[str, int], int] = {}
        self.consumed_at_s = -1.0
        """When a commit was last answered."""
        self.sleeps_until_s = 0.0
        self.stuck_until_s = 0.0
        """Until then it beats, but does not come round to joining again."""
        self.fatal: str | None = None
        self.problem: BaseException | None = None
        """What one of its tasks died of, which only a mistake in the simulation can be."""
        self.started_s = world.now_s
        self._world = world
        self._network = network
        self._changed = asyncio.Event()
        self._coordinator = world.chance.choice(sorted(network.nodes))
        self._heartbeat_s = plan.session_timeout_ms / 3000
        self._supported_protocols = tuple(
            SupportedProtocol(name, write_subscription(Subscription(plan.topics))) for name in plan.assignors
        )
        self._tasks = [clients.create_task(self._live()), clients.create_task(self._beat())]
        for task in self._tasks:
            task.add_done_callback(self._ended)

    @property
    def member_id(self) -> str:
        """Return the id the group knows it by; empty if it has none."""
        return self.membership.identity.member_id

    @property
    def is_alive(self) -> bool:
        """Return whether it goes on."""
        return self.fatal is None

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.problem = self.problem or task.exception()

    def kill(self, why: str = "killed") -> None:
        """End it without a word."""
        self.fatal = self.fatal or why
        for task in self._tasks:
            task.cancel()

    # -- joining and consuming -----------------------------------------------------------------------------

    async def _live(self) -> None:
        while True:
            await self._be_awake()
            if self.membership.state is MemberState.UNJOINED or self.membership.rejoin_reason is not None:
                await self._come_round()
                try:
                    await self._round()
                except Over:
                    await asyncio.sleep(self._world.between(0.02, BACKOFF_S))
            else:
                await self._commit()
                await self._arm_keep_alive(self.plan.commit_every_s * self._world.between(0.6, 1.4))

    async def _arm_keep_alive(self, for_s: float) -> None:
        """Do nothing for a while, or until a join is wanted."""
        self._changed.clear()
        try:
            async with asyncio.timeout(for_s):
                while self.membership.rejoin_reason is None and self.membership.state is not MemberState.UNJOINED:
                    await self._changed.wait()
                    self._changed.clear()
        except TimeoutError:
            pass

    async def _come_round(self) -> None:
        """Finish what is being processed before joining again."""
        while self.stuck_until_s > self._world.now_s:  # noqa: ASYNC110 - its end may be moved meanwhile
            await asyncio.sleep(min(1.0, self.stuck_until_s - self._world.now_s + 0.001))
        if self.positions and self.membership.identity.has_generation:
            await self._commit()
        self.positions.clear()

    async def _round(self) -> None:
        joined = await self._join(self.membership.begin_join())
        self._heartbeat_s = joined.heartbeat_interval_ms / 1000
        self.membership.joined(MemberIdentity(joined.member_id, joined.generation))
        if self._world.happens(EAGER):
            await self._commit_too_early(joined)
        assignments = await self._assign(joined)
        synced = await self._sync(joined, assignments)
        self.membership.synced()
        mine = [(topic, number) for topic, numbers in partitions_of(synced.assignment) or () for number in numbers]
        committed = await self._fetch()
        self.positions = {each: committed.get(each, 0) for each in mine}

    async def _join(self, reason: str) -> JoinGroupResponse:
        def request(identity: MemberIdentity) -> Ask:
            plan = self.plan
            return JoinGroup(
                token=0,
                member_id=identity.member_id,
                group_instance_id=plan.group_instance_id,
                client_id=plan.name,
                client_host="/10.0.0.1",
                session_timeout_ms=plan.session_timeout_ms,
                rebalance_timeout_ms=plan.rebalance_timeout_ms,
                protocol_type=CONSUMER,
                protocols=self._supported_protocols,
                new_member_id="",
                reason=reason,
            )

        answer = await self._until_answered(RequestType.JOIN, MemberState.PREPARING_REBALANCE, request)
        assert isinstance(answer, JoinGroupResponse)
        return answer

    async def _assign(self, joined: JoinGroupResponse) -> tuple[tuple[str, bytes], ...]:
        """Share the partitions out, if this is the leader."""
        if not joined.members or joined.skip_assignment:
            return ()
        counts = await self._counts()
        members = [
            MemberSubscription(one.member_id, one.group_instance_id, tuple(sorted(topics_of(one.metadata) or ())))
            for one in joined.members
        ]
        shares = ASSIGNORS[joined.protocol_name].assign(counts, members)
        return tuple((member_id, _assignment(share)) for member_id, share in shares.items())

    async def _sync(self, joined: JoinGroupResponse, assignments: tuple[tuple[str, bytes], ...]) -> SyncGroupResponse:
        def request(identity: MemberIdentity) -> Ask:
            return SyncGroup(
                0,
                joined.generation,
                identity.member_id,
                self.plan.group_instance_id,
                joined.protocol_type,
                joined.protocol_name,
                assignments,
            )

        answer = await self._until_answered(RequestType.SYNC, MemberState.COMPLETING_REBALANCE, request)
        assert isinstance(answer, SyncGroupResponse)
        return answer

    async def _until_answered(
        self, call: RequestType, state: MemberState, request: Callable[[MemberIdentity], Ask]
    ) -> Answer:
        failures = 0
        while True:
            await self._be_awake()
            if self.membership.state is not state:
                raise Over
            sent_as, asked_at_s = self.membership.identity, self._world.now_s
            try:
                answer = await self._ask(request(sent_as), LONG_POLL_S)
            except AgentError as error:
                took_s = self._world.now_s - asked_at_s
                failures = await self._after(call, error, sent_as, 0 if took_s > 1 else failures)
            else:
                if self.membership.state is state:
                    return answer

    async def _after(self, call: RequestType, error: AgentError, sent_as: MemberIdentity, failures: int) -> int:
        """Do what the error asks for; return the failures in a row if the same call is to be made again."""
        match self.membership.handle_error(call, error, sent_as):
            case Reaction.FATAL:
                self.fatal = error.code
                self.kill()
                raise asyncio.CancelledError
            case Reaction.RETRY_AT_ONCE if failures == 0:
                return 1
            case Reaction.RETRY | Reaction.RETRY_AT_ONCE:
                await asyncio.sleep(min(BACKOFF_MAX_S, BACKOFF_S * 2**failures) * self._world.between(0.8, 1.2))
                return failures + 1
            case _:
                raise Over

    # -- what is committed ---------------------------------------------------------------------------------

    async def _commit(self) -> None:
        """Consume something, and commit how far it got."""
        if not self.positions:
            self.consumed_at_s = self._world.now_s
            return
        some = sorted(self.positions)
        some = self._world.chance.sample(some, min(len(some), PARTITIONS_A_COMMIT))
        offsets = []
        for topic, number in some:
            self.positions[topic, number] += self._world.chance.randint(1, 50)
            offsets.append(OffsetToCommit(topic, number, self.positions[topic, number]))
        sent_as = self.membership.identity
        who = (sent_as.generation, sent_as.member_id, self.plan.group_instance_id)
        try:
            answer = await self._ask(CommitOffsets(0, *who, tuple(offsets)))
        except AgentError as error:
            if self.membership.handle_error(RequestType.COMMIT, error, sent_as) is Reaction.FATAL:
                self.fatal = error.code
                self.kill()
        else:
            assert isinstance(answer, CommitOffsetsResponse)
            self.consumed_at_s = self._world.now_s

    async def _commit_too_early(self, joined: JoinGroupResponse) -> None:
        """Commit in a generation before its assignment is known, as a client with commits of its own may."""
        self._world.strike("agent_eager", self.plan.name, self.plan.group_id)
        offset = OffsetToCommit(self.plan.topics[0], 0, self._world.chance.randint(1, 9))
        try:
            await self._ask(
                CommitOffsets(0, joined.generation, joined.member_id, self.plan.group_instance_id, (offset,))
            )
        except AgentError:
            return

    async def _counts(self) -> Mapping[str, int]:
        rows: list[TopicRow] = await self._read(lambda node: node.read(node.store.topics))
        return {row.topic: row.partitions for row in rows}

    async def _fetch(self) -> Mapping[tuple[str, int], int]:
        fetch = partial(_fetch_offsets, self.plan.group_id)
        found: list[FetchedOffset] = await self._read(fetch, is_fetch=True)
        return {(one.topic, one.partition): one.offset for one in found}

    async def _read(self, call: Callable[[Coordinator], Awaitable[Answer]], *, is_fetch: bool = False) -> Answer:
        """Repeat a read until it is answered."""
        while True:
            try:
                return await self._send(Message(self.plan.name, self.plan.group_id, call=call, is_fetch=is_fetch))
            except AgentError:
                await asyncio.sleep(BACKOFF_S)
                if self.membership.state is MemberState.UNJOINED:
                    raise Over from None

    # -- heartbeats ----------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        failures = 0
        while self.is_alive:
            pause_s = self._heartbeat_s if not failures else min(self._heartbeat_s, BACKOFF_S * 2 ** min(failures, 4))
            await asyncio.sleep(pause_s * self._world.between(0.9, 1.0))
            await self._be_awake()
            if self.membership.is_heartbeating:
                failures = 0 if await self._beat_once() else failures + 1

    async def _beat_once(self) -> bool:
        sent_as = self.membership.identity
        request = Heartbeat(0, sent_as.generation, sent_as.member_id, self.plan.group_instance_id)
        try:
            answer = await self._ask(request)
        except AgentError as error:
            if self.membership.handle_error(RequestType.HEARTBEAT, error, sent_as) is Reaction.FATAL:
                self.fatal = error.code
                self.kill()
            self._changed.set()
            return not isinstance(error, errors.RetryError)
        assert isinstance(answer, HeartbeatResponse)
        self._heartbeat_s = answer.heartbeat_interval_ms / 1000
        return True

    # -- coming and going ----------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Leave the group in good form, and end."""
        for task in self._tasks:
            task.cancel()
        self.fatal = "left"
        if self.member_id:
            # Half of the ids; a draw of its own would give every seed another world.
            is_by_instance = self.plan.group_instance_id is not None and self.member_id[-1] in "02468ace"
            if is_by_instance:
                self._world.strike("agent_left_by_instance", self.plan.name, self.plan.group_id)
            member_id = "" if is_by_instance else self.member_id
            leaver = LeavingMember(member_id, self.plan.group_instance_id, "the consumer is being closed")
            try:
                await self._ask(LeaveGroup(0, (leaver,)))
            except AgentError:
                return

    async def _be_awake(self) -> None:
        while self.sleeps_until_s > self._world.now_s:  # noqa: ASYNC110 - it may be put to sleep again meanwhile
            await asyncio.sleep(self.sleeps_until_s - self._world.now_s + 0.001)

    # -- asking --------------------------------------------------------------------------------------------

    async def _ask(self, request: Ask, max_wait_s: float | None = None) -> Answer:
        if max_wait_s is None:
            return await self._send(Message(self.plan.name, self.plan.group_id, request))
        return await self._send(Message(self.plan.name, self.plan.group_id, request, max_wait_s=max_wait_s))

    async def _send(self, message: Message) -> Answer:
        """Ask the node that is thought to be the right one, and learn from its answer which it is.

        Raises:
            AgentError: as the real agent's transport does.
        """
        try:
            answer = await self._network.ask(self._coordinator, message)
        except NoAnswer as nothing:
            self.look_elsewhere()
            raise errors.CoordinatorNotAvailable(str(nothing)) from None
        if isinstance(answer, CoordinatorError):
            if isinstance(answer, NotCoordinator) and answer.listeners:
                self._coordinator = answer.listeners["http"].removeprefix("http://")
            elif answer.action == "retry" and answer.code != "REBALANCE_IN_PROGRESS":
                self.look_elsewhere()
            member_id = getattr(answer, "member_id", "")
            raise errors.from_problem(Problem(answer.code, action=answer.action, member_id=member_id))
        return answer

    def look_elsewhere(self) -> None:
        """Ask some node next."""
        self._coordinator = self._world.chance.choice(sorted(self._network.nodes))


def _assignment(share: tuple[tuple[str, int], ...]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, number in share:
        by_topic.setdefault(topic, []).append(number)
    return write_assignment(Assignment(tuple(TopicPartitions(topic, tuple(each)) for topic, each in by_topic.items())))


async def _fetch_offsets(group_id: str, coordinator: Coordinator) -> list[FetchedOffset]:
    return await coordinator.fetch_offsets(group_id, None)
