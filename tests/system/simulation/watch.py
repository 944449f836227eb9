"""The invariants: decisions, responses, memory and stored rows are compared at every step.

`Watch` sees every message that reaches a process, every decision (it wraps `decide`), every response when it is sent,
every stored write (`stored`), and the memory of a process after each turn of its loop.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from coordinator_core.protocol.consumer_protocol import partitions_of
from coordinator_core.protocol.decide import decide
from coordinator_core.protocol.decision import Decision
from coordinator_core.protocol.errors import (
    CoordinatorError,
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    NotCoordinator,
    RetryError,
)
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.hashing import shard_of
from coordinator_core.protocol.records import GenerationStarted, MemberJoined, MemberRemoved, RemovalReason
from coordinator_core.protocol.requests import (
    CommitOffsets,
    Deadline,
    DeadlineKind,
    ExpireDeadline,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from coordinator_core.protocol.responses import (
    CommitOffsetsResponse,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from coordinator_core.protocol.settings import Context, Now
from coordinator_core.protocol.states import PREPARING
from coordinator_core.runtime.metadata_cache import MetadataCache
from coordinator_core.runtime.shard import Shard
from tests.system.simulation.effects import Effects
from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.memory import compare
from tests.system.simulation.node import Answer, Ask, Message, Process
from tests.system.simulation.stored import Life, Partition, Stored
from tests.system.simulation.timed import untimed
from tests.system.simulation.world import World

LONG_PAUSE_S = 0.7
"""A pause of this length a process notices for certain."""
TOLERANCE_S = 0.05
"""What an eviction may come early, for clocks are not all alike."""
PROMPT_S = 1.0
"""A heartbeat that was answered within this was not kept waiting."""
FENCED = ("FENCED_INSTANCE_ID", "GROUP_MAX_SIZE_REACHED", "INCONSISTENT_GROUP_PROTOCOL")
"""Errors for a process that another one has replaced; a join is checked in this order, from the end."""
ACTIVITY = (Heartbeat, CommitOffsets)
OF_A_GENERATION = (Heartbeat, SyncGroup, CommitOffsets)
QUEUE_FULL = "too many writes"
"""So short a queue also fills up in the calm, when session intervals are written."""
LOST_TOLERANCE_S = 0.3
"""What of each pause a process may miss: its own tick, and what a step takes."""


@dataclass(slots=True)
class Signs:
    """A member's signs of life, as one process has them."""

    armed_at_s: float = 0.0
    session_s: float = 0.0
    heartbeat_arrived_at_s: float = -1.0
    """When its last heartbeat reached the process, whatever became of it."""
    generation: int = -1
    is_kept_waiting: bool = False
    """Whether that heartbeat has no answer, or got none while it was of use."""


class Watch:
    """Everything that must hold, whatever happens."""

    def __init__(self, world: World, shards: int) -> None:
        self.stored = Stored(world, shards, self._believes_to_own)
        self._effects = Effects(world, self.stored)
        self.decisions = 0
        self.answers = 0
        self.comparisons = 0
        self._world = world
        self._shards = shards
        self._shard_ids: dict[str, int] = {}
        self._processes: dict[str, Process] = {}
        self._of_loop: dict[SimulatedLoop, Process] = {}
        self._signs: dict[SimulatedLoop, dict[str, Signs]] = defaultdict(lambda: defaultdict(Signs))
        self._doubts: dict[Shard, list[tuple[int, float]]] = defaultdict(list)
        """Shard → (node time, world time) from when to when its lease was in doubt."""
        self.served: dict[SimulatedLoop, dict[Shard, None]] = defaultdict(dict)
        """The shards that each process has served."""
        self.is_calm = False
        """Whether nothing has gone wrong for a while."""
        world.after_turn = self._after_turn

    def _shard_of(self, group_id: str) -> int:
        known = self._shard_ids.get(group_id)
        if known is None:
            known = self._shard_ids[group_id] = shard_of(group_id, self._shards)
        return known

    def _believes_to_own(self, node_name: str, shard_id: int, epoch: int) -> bool:
        process = self._processes.get(node_name)
        if process is None or process.loop.is_dead:
            return False
        shard = process.coordinator._ownership.owned.get(shard_id)
        return shard is not None and shard.epoch == epoch

    # -- what reaches a process ----------------------------------------------------------------------------

    def began(self, process: Process) -> None:
        """Take note of a process that begins."""
        self._processes[process.node.name] = process
        self._of_loop[process.loop] = process

    def heard(self, process: Process, message: Message) -> None:
        """Take note that a message has reached a process."""
        if isinstance(message.request, Heartbeat):
            signs = self._signs[process.loop][message.request.member_id]
            signs.heartbeat_arrived_at_s, signs.generation = self._world.now_s, message.request.generation
            signs.is_kept_waiting = True

    # -- what is decided -----------------------------------------------------------------------------------

    def decide(self, group: Group, request: Request, now: Now, context: Context) -> Decision:
        """Decide as the protocol does, and look at who decides what."""
        decision = decide(group, request, now, context)
        self.decisions += 1
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        if isinstance(request, ExpireDeadline) or hasattr(request, "token"):
            self._one_decides(loop, group.group_id, request)
            self._has_settings(loop, group.group_id)
        signs = self._signs[loop]
        for deadline, delay_ms in decision.deadlines:
            if deadline.kind is DeadlineKind.SESSION and delay_ms is not None:
                sign = signs[deadline.subject]
                sign.armed_at_s, sign.session_s = self._world.now_s, delay_ms / 1000
        if decision.group is not group:
            loop.touched[group.group_id] = None
            self._generation(group, decision, context)
        self._tokens(group, request, decision)
        self._effects.decided(loop, group, request, now, decision, self._cache_of(loop))
        if isinstance(request, ACTIVITY) and request.generation >= 0:
            deadlines = {deadline for deadline, _ in decision.deadlines}
            is_heard = not isinstance(decision.replies[0].answer, CoordinatorError)
            if is_heard and Deadline(DeadlineKind.SESSION, request.member_id) not in deadlines:
                self._world.fail(
                    "ActivityRestartsSessions", f"{_who(request)} was heard, and has no more time", group.group_id
                )
        if isinstance(request, OF_A_GENERATION) and 0 <= request.generation != group.generation:
            reported = [reply.answer for reply in decision.replies if reply.token == request.token]
            if not any(isinstance(answer, CoordinatorError) for answer in reported):
                detail = f"{_who(request)} of generation {request.generation} gets {reported} in {group.generation}"
                self._world.fail("OldGenerationsAreRefused", detail, group.group_id)
        if getattr(request, "group_instance_id", None) is not None:
            self._fenced(group, request, decision)
        if isinstance(request, LeaveGroup):
            self._left(decision)
        if isinstance(request, ExpireDeadline):
            self._eviction(loop, group, request, decision)
        if isinstance(request, CommitOffsets) and 0 <= request.generation != group.generation and decision.records:
            detail = f"{_who(request)} commits as of generation {request.generation} in {group.generation}"
            self._world.fail("OnlyMembersCommit", detail, group.group_id)
        if group.state is PREPARING and any(isinstance(reply.answer, HeartbeatResponse) for reply in decision.replies):
            detail = f"{_who(request)} gets no error while the group waits for joins"
            self._world.fail("HeartbeatsReportRebalances", detail, group.group_id)
        return decision

    def _tokens(self, group: Group, request: Request, decision: Decision) -> None:
        """Check the replies of a decision: each has a request that waits."""
        token = getattr(request, "token", None)
        if decision.group is group:
            if token is not None and all(reply.token != token for reply in decision.replies):
                self._world.fail(
                    "UnloadedShardsReply", f"{_who(request)} has no answer, and does not wait", group.group_id
                )
            return
        after = decision.group
        parked = {*group.parked_joins.values(), *group.parked_syncs.values(), *(() if token is None else (token,))}
        answered = {reply.token for reply in decision.replies}
        forgotten = parked - answered - {*after.parked_joins.values(), *after.parked_syncs.values()}
        if forgotten:
            detail = f"{type(request).__name__} of {_who(request)} forgets {len(forgotten)} that wait"
            self._world.fail("UnloadedShardsReply", detail, group.group_id)

    def _left(self, decision: Decision) -> None:
        """Check that a member whose leave succeeded, by its id or its instance id alone, is in the group no more."""
        group = decision.group
        for answer in [reply.answer for reply in decision.replies]:
            for member_id, instance_id, error in answer.members if isinstance(answer, LeaveGroupResponse) else ():
                is_here = member_id in group.members or (not member_id and instance_id in group.static_members)
                if error is None and is_here:
                    detail = f"{member_id or instance_id} gets that it left, and is a member"
                    self._world.fail("LeftMembersAreGone", detail, group.group_id)

    def _fenced(self, group: Group, request: Any, decision: Decision) -> None:  # noqa: ANN401 - has an instance
        """Check that a process which another one has replaced gets an error."""
        known = group.static_members.get(request.group_instance_id)
        if known is None or request.member_id in {"", known}:
            return
        reported = [reply.answer for reply in decision.replies if reply.token == request.token]
        if not any(getattr(answer, "code", "") in FENCED for answer in reported):
            detail = f"{request.member_id} gets {reported}, and {request.group_instance_id} is {known} now"
            self._world.fail("FencedMembersAreRefused", detail, group.group_id)

    def _generation(self, before: Group, decision: Decision, context: Context) -> None:
        """Check that a generation's leader is a member that gets all members, and its protocol is valid."""
        group = decision.group
        for record in decision.records:
            if isinstance(record, MemberJoined):
                present = before.parked_joins if before.state is PREPARING else before.members
                if len(present) >= context.settings.group_max_size:
                    detail = f"{record.member.member_id} comes to {len(present)} others"
                    self._world.fail("GroupSizeIsLimited", detail, group.group_id)
            if isinstance(record, GenerationStarted):
                votes = Counter(
                    next(
                        (
                            name
                            for name, _ in one.protocols
                            if group.supported_protocols.get(name) == len(group.members)
                        ),
                        None,
                    )
                    for one in group.members.values()
                )
                if votes[group.protocol_name] < max(votes.values()) or None in votes:
                    self._world.fail("LeadersAreValid", f"{group.protocol_name} is chosen by {votes}", group.group_id)
                reported = [one.answer for one in decision.replies if isinstance(one.answer, JoinGroupResponse)]
                here = [one.member_id for one in reported]
                absent = [one.member_id for one in group.members.values() if not one.is_static or one.is_new]
                if group.leader_id not in here or not set(absent) <= set(here):
                    detail = f"{group.leader_id} leads {list(group.members)}, and {here} are there"
                    self._world.fail("LeadersAreValid", detail, group.group_id)
        for answer in [reply.answer for reply in decision.replies]:
            if isinstance(answer, JoinGroupResponse):
                all_members = list(group.members) if answer.member_id == group.leader_id else []
                if answer.leader_id != group.leader_id or [one.member_id for one in answer.members] != all_members:
                    detail = f"{answer.member_id} gets the leader {answer.leader_id}, of {answer.members}"
                    self._world.fail("LeadersAreValid", detail, group.group_id)

    def calm(self) -> None:
        """Expect from now on that every request is served."""
        self.is_calm = True

    def _served(self, group_id: str, answer: Answer) -> None:
        """Check that in the calm requests are refused only with the URL of the group's owner."""
        if isinstance(answer, NotCoordinator):
            owner = self.stored.owners[self._shard_of(group_id)][0]
            if answer.listeners != {"http": f"http://{owner}"}:
                detail = f"a client is sent to {answer.listeners.get('http')}; {owner} owns the group"
                self._world.fail("CalmRefusesNoRequest", detail, group_id)
        elif (
            isinstance(answer, CoordinatorNotAvailable | CoordinatorLoadInProgress) and QUEUE_FULL not in answer.detail
        ):
            self._world.fail("CalmRefusesNoRequest", f"{answer.code}: {answer.detail}", group_id)

    def _one_decides(self, loop: SimulatedLoop, group_id: str, request: Request) -> None:
        shard_id = self._shard_of(group_id)
        owner = self.stored.owners.get(shard_id)
        if owner is None or owner[0] != loop.name:
            what = type(request).__name__
            self._world.fail("OneDeciderPerShard", f"{loop.name} decides {what}; the shard is {owner}'s", group_id)

    def _cache_of(self, loop: SimulatedLoop) -> MetadataCache:
        return self._of_loop[loop].coordinator.metadata_cache

    def _has_settings(self, loop: SimulatedLoop, group_id: str) -> None:
        """Check that a node decides with every setting whose change was answered as effective there."""
        name, versions, store = loop.name, self._cache_of(loop).versions, self.stored.store
        due = store.answered_of_groups.get(group_id, 0)
        if versions.group_configs < due:
            detail = f"{name} decides as of version {versions.group_configs} of its settings; {due} was answered"
            self._world.fail("SettingsReachOwners", detail, group_id)
        due = max((due for due, unconfirmed in store.answered_of_cluster if name not in unconfirmed), default=0)
        if versions.cluster_configs < due:
            detail = f"{name} decides as of version {versions.cluster_configs} of the cluster's; {due} was answered"
            self._world.fail("SettingsReachOwners", detail, group_id)

    def _eviction(self, loop: SimulatedLoop, group: Group, request: ExpireDeadline, decision: Decision) -> None:
        """Check that no member is evicted for a pause of the node, or for a slow store."""
        if request.deadline.kind is not DeadlineKind.SESSION:
            return
        gone = [one.member_id for one in decision.records if isinstance(one, MemberRemoved)]
        subject = request.deadline.subject
        if subject not in gone or not any(_is_silence(one) for one in decision.records):
            return
        signs, now_s = self._signs[loop][subject], self._world.now_s
        lost_s = self._lost_s(loop, group.group_id, signs.armed_at_s)
        quiet_s = now_s - signs.armed_at_s
        self._world.note(group.group_id, f"{loop.name} puts {subject} out after {quiet_s:.1f} s, {lost_s:.1f} s lost")
        if quiet_s - lost_s < signs.session_s - TOLERANCE_S:
            detail = (
                f"{subject} is evicted after {quiet_s:.2f} s of {signs.session_s} s, and {lost_s:.2f} s do not count"
            )
            self._world.fail("PausesEvictNoMember", detail, group.group_id)
        waited_s = now_s - signs.heartbeat_arrived_at_s
        is_unheard = signs.generation == group.generation and signs.heartbeat_arrived_at_s > signs.armed_at_s
        if signs.is_kept_waiting and is_unheard and waited_s < signs.session_s - TOLERANCE_S:
            detail = f"{subject} is evicted {waited_s:.2f} s after its heartbeat came, which waits for an answer"
            self._world.fail("WaitingHeartbeatsPreventEviction", detail, group.group_id)

    def _lost_s(self, loop: SimulatedLoop, group_id: str, since_s: float) -> float:
        """Return for how long since then the process did not run, or doubted its lease."""
        process, now_s = self._of_loop[loop], self._world.now_s
        spans = [span for span in process.pauses if span[1] - span[0] > LONG_PAUSE_S]
        shard = process.coordinator._ownership.owned[self._shard_of(group_id)]
        spans += [(loop.world_s(begin_ms / 1000), at_s) for begin_ms, at_s in self._doubts.get(shard, ())]
        lost_s, reached_s = 0.0, since_s
        for begin_s, end_s in sorted(spans):
            from_s, to_s = max(begin_s, reached_s), min(end_s, now_s)
            if to_s > from_s:
                lost_s, reached_s = lost_s + max(0.0, to_s - from_s - LOST_TOLERANCE_S), to_s
        return lost_s

    def dropped(self, shard: Shard, waited: Iterable["asyncio.Future[Answer]"]) -> None:
        """Check that no request waits at a shard that was unloaded."""
        kept_waiting = sum(not answer.done() for answer in waited)
        if kept_waiting:
            self._world.fail(
                "UnloadedShardsReply", f"shard {shard.shard_id} is dropped; {kept_waiting} requests wait on"
            )

    # -- how sure a process is of its leases -----------------------------------------------------------------

    def extend_lease(self, shard: Shard, valid_until_ms: int) -> None:
        """Note for how long a lease was in doubt that is sure again."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimulatedLoop)
        self.served[loop][shard] = None
        if shard.valid_until_ms < shard._clock.now().node_ms:
            self._doubts[shard].append((shard.valid_until_ms, self._world.now_s))

    # -- what is said --------------------------------------------------------------------------------------

    def said(self, process: Process, request: Ask, group_id: str, answer: Answer) -> None:
        """Check that an answer rests on nothing that is not stored."""
        self.answers += 1
        if isinstance(request, Heartbeat):
            signs = self._signs[process.loop][request.member_id]
            begun_s = max(
                [signs.heartbeat_arrived_at_s, *(end_s for _, end_s in process.pauses if end_s <= self._world.now_s)]
            )
            signs.is_kept_waiting = self._world.now_s - begun_s > PROMPT_S
        note = getattr(answer, "code", None) or type(answer).__name__
        text = f"{process.node.name} answers {type(request).__name__} of {_who(request)}: {note}"
        is_news = not isinstance(request, Heartbeat) or note not in {"HeartbeatResponse", "REBALANCE_IN_PROGRESS"}
        self._world.note(group_id, text, is_kept=is_news)
        if self.is_calm:
            self._served(group_id, answer)
        past = self.stored.groups.get(group_id)
        lives = [] if past is None else past.lives[-2:]
        if isinstance(answer, HeartbeatResponse):
            self._effects.heartbeat_succeeded(process.node.name, self._shard_of(group_id), group_id)
        elif isinstance(answer, JoinGroupResponse):
            self._joined(group_id, lives, answer)
        elif isinstance(answer, SyncGroupResponse) and isinstance(request, SyncGroup):
            self._synced(group_id, lives, request, answer)
        elif isinstance(answer, CommitOffsetsResponse) and isinstance(request, CommitOffsets):
            self._committed(group_id, request, answer)
        elif isinstance(answer, LeaveGroupResponse):
            for member_id, _, error in answer.members:
                if error is None and lives and member_id in lives[-1].members:
                    self._unstored(group_id, f"{member_id} gets that it left, and is in the store")
        elif isinstance(answer, CoordinatorError) and not isinstance(answer, RetryError):
            self._refused(group_id, lives, request, answer)

    def _joined(self, group_id: str, lives: list[Life], answer: JoinGroupResponse) -> None:
        if not any(answer.member_id in life.assigned.get(answer.generation, {}) for life in lives):
            self._unstored(group_id, f"{answer.member_id} gets generation {answer.generation}")

    def _synced(self, group_id: str, lives: list[Life], request: SyncGroup, answer: SyncGroupResponse) -> None:
        member_id, generation = request.member_id, request.generation
        held = [life for life in lives if member_id in life.assigned.get(generation, {})]
        if not held or answer.assignment not in held[-1].assigned[generation][member_id]:
            self._unstored(group_id, f"{member_id} is given an assignment of generation {generation}")
            return
        place = request.group_instance_id or member_id
        for topic, numbers in partitions_of(answer.assignment) or ():
            for number in numbers:
                owner = held[-1].announced_owners.setdefault((generation, (topic, number)), place)
                if owner != place:
                    detail = f"{topic}/{number} is {owner}'s and {place}'s in generation {generation}"
                    self._world.fail("OneOwnerPerPartition", detail, group_id)

    def _committed(self, group_id: str, request: CommitOffsets, answer: CommitOffsetsResponse) -> None:
        past = self.stored.groups[group_id]
        for place, offset in enumerate(request.offsets):
            if place in answer.errors:
                continue
            number = past.commits.get((offset.topic, offset.partition, offset.offset))
            if number is None:
                self._unstored(group_id, f"{offset.topic}/{offset.partition}={offset.offset} is answered NONE")
                return
            key = offset.topic, offset.partition
            past.answered[key] = max(number, past.answered.get(key, 0))

    def fetch_began(self, group_id: str) -> Callable[[Answer], None]:
        """Take note of what was answered and removed before a fetch; return the check of its answer."""
        past = self.stored.groups[group_id]
        return partial(self._fetched, group_id, dict(past.answered), dict(past.removed))

    def _fetched(
        self, group_id: str, answered: Mapping[Partition, int], removed: Mapping[Partition, int], answer: Answer
    ) -> None:
        """Check that what was answered is what is fetched: every commit, and every removal, or a later one."""
        assert isinstance(answer, list)
        past = self.stored.groups[group_id]
        found = {(one.topic, one.partition): past.commits.get((one.topic, one.partition, one.offset)) for one in answer}
        for key in answered.keys() | found.keys():
            number = found.get(key)
            if number is None and key in found:
                self._unstored(group_id, f"{key} is fetched as no commit has put it")
            elif number is None and past.removed.get(key, 0) < answered[key]:
                self._world.fail("AnsweredIsFetched", f"{key} was answered NONE, and is not fetched", group_id)
            elif number is not None and number < max(answered.get(key, 0), removed.get(key, 0)):
                self._world.fail("AnsweredIsFetched", f"{key} is fetched as it was before an answer", group_id)

    def _refused(self, group_id: str, lives: list[Life], request: Ask, answer: CoordinatorError) -> None:
        """Check that the state which an error reports is stored."""
        life = lives[-1] if lives else None
        if life is None or not isinstance(request, Heartbeat | SyncGroup | CommitOffsets | JoinGroup):
            return
        member_id = request.member_id
        instance_id = request.group_instance_id
        is_unknown = answer.code in {"UNKNOWN_MEMBER_ID", "GROUP_ID_NOT_FOUND"}
        if is_unknown and instance_id is None and member_id in life.members:
            self._unstored(group_id, f"{member_id} gets UNKNOWN_MEMBER_ID, and is in the store")
        if isinstance(request, JoinGroup):
            return
        is_preparing = request.generation in life.preparing
        if isinstance(request, Heartbeat) and answer.code == "REBALANCE_IN_PROGRESS" and not is_preparing:
            self._unstored(group_id, f"{member_id} gets a rebalance in generation {request.generation}")
        if answer.code == "ILLEGAL_GENERATION" and request.generation == life.generation:
            self._unstored(group_id, f"{member_id} gets that generation {request.generation} is over")

    def _unstored(self, group_id: str, detail: str) -> None:
        self._world.fail("StoredBeforeReply", f"{detail}; the store does not know", group_id)

    # -- what is remembered --------------------------------------------------------------------------------

    def _after_turn(self, loop: SimulatedLoop) -> None:
        """Compare every group that was touched, and has nothing on the way, with what is stored of it."""
        touched = loop.touched
        process = self._of_loop.get(loop)
        if process is None or loop.is_dead:
            touched.clear()
            return
        for group_id in list(touched):
            shard = process.coordinator._ownership.owned.get(self._shard_of(group_id))
            if shard is None or shard.is_loading or self._compare(shard, group_id, process.ran_for_s):
                del touched[group_id]

    def _compare(self, shard: Shard, group_id: str, ran_for_s: float) -> bool:
        """Compare one group; return whether there was anything to compare, as a write may be under way."""
        group_context = shard.groups.get(group_id)
        if group_context is not None and group_context.unstored_writes:
            return False
        if self.stored.owners.get(shard.shard_id, (None, 0))[1] != shard.epoch:
            return True
        self.comparisons += 1
        past = self.stored.groups.get(group_id)
        difference = compare(group_context, None if past is None else past.life)
        if difference is not None:
            self._world.fail("MemoryMatchesStore", difference, group_id)
        missing = None if group_context is None else untimed(shard, group_context, ran_for_s, is_calm=self.is_calm)
        if missing is not None:
            self._world.fail("EveryWaitHasATimer", missing, group_id)
        return True


def _is_silence(record: object) -> bool:
    return isinstance(record, MemberRemoved) and record.removal_reason is RemovalReason.SESSION_EXPIRED


def _who(request: Request) -> str:
    if isinstance(request, JoinGroup):
        return request.member_id or request.group_instance_id or request.client_id
    return getattr(request, "member_id", "") or "-"
