"""Mutation tests of the simulation: each one breaks a function, and the invariant that names the fault reports it.

A mutation replaces a function by a broken one, which is often the real one with an argument or a dependency changed.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from msgspec.structs import replace

from coordinator_core.admin import settings as admin_settings
from coordinator_core.admin.changes import ChangeRecorder
from coordinator_core.protocol import commit, decide, expiry, heartbeat, join, leave, offsets, reevaluate, reset, sync
from coordinator_core.protocol.checks import check_member
from coordinator_core.protocol.decision import Decision, Draft
from coordinator_core.protocol.errors import InvalidSessionTimeout, NonEmptyGroup, NotCoordinator
from coordinator_core.protocol.group import Group
from coordinator_core.protocol.member import Member
from coordinator_core.protocol.requests import (
    DeadlineKind,
    Heartbeat,
    JoinGroup,
    LeavingMember,
    RemoveTopicOffsets,
    ResetOffsets,
    Resume,
    RetireGroup,
)
from coordinator_core.protocol.responses import SyncGroupResponse
from coordinator_core.protocol.settings import Context, GroupSettings, Now
from coordinator_core.protocol.states import PREPARING, STABLE
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.runtime.group_context import GroupContext
from coordinator_core.runtime.maintenance import Maintenance
from coordinator_core.runtime.metadata_cache import NOT_LOADED, MetadataCache
from coordinator_core.runtime.shard import Shard, SubmitLocked
from coordinator_core.runtime.shard_offsets import ShardOffsets
from coordinator_core.runtime.shard_ownership import ShardOwnership
from coordinator_core.runtime.timer_loop import TimerLoop
from coordinator_core.runtime.timers import Timers
from coordinator_core.runtime.writer import Writer
from coordinator_core.state_store.rows import (
    NO_EXTRA_ROWS,
    Batch,
    CheckpointResult,
    ExtraRows,
    GroupWrite,
    Renewal,
    ShardCheckpoint,
    ShardLog,
    StoredGroup,
    StoredSettings,
    TopicRow,
    UnreadableGroup,
    Versions,
    WriteResult,
)
from tests.support.memory_store import MemoryStore
from tests.system.simulation import weather
from tests.system.simulation.seeds import first_violation


class Mutation(NamedTuple):
    """A broken function, and the invariants one of which reports it."""

    owner: object
    """The class or module that has the function."""
    name: str
    replacement: Callable[..., Any]
    invariants: frozenset[str]
    first_seed: int = 1
    """A seed shortly before one that finds the fault."""
    seeds_max: int = 20
    events: Mapping[str, float] = {}
    """Events of `weather.EVENTS` that are more frequent in its worlds, because others rarely find the fault."""


pytestmark = pytest.mark.slow


def nothing(*_: object) -> None:
    """Do nothing, in place of a function without a result."""


async def nothing_async(*_: object) -> None:
    """Do nothing, in place of a coroutine without a result."""


# -- leases, shards and writes ----------------------------------------------------------------------------------

_write = MemoryStore.write
_shard_of = Coordinator._shard_of
_enqueue = Shard.enqueue
_unload = Shard.unload
_checkpoint = MemoryStore.checkpoint
_load = Shard.load
_take = ShardOffsets.take
_locked = Shard.locked
_extra_rows = ChangeRecorder.extra_rows
_renew_at_store = ShardOwnership._renew_at_store


def write_without_lease(store: MemoryStore, batch: Batch) -> WriteResult:
    with patch.object(store._leases, "held", lambda _, epochs: frozenset(epochs)):
        return _write(store, batch)


def shard_of_doubtful_lease(node: Coordinator, group_id: str, now: Now) -> Shard:
    return _shard_of(node, group_id, now._replace(node_ms=0))


def shard_with_wrong_owner(node: Coordinator, group_id: str, now: Now) -> Shard:
    try:
        return _shard_of(node, group_id, now)
    except NotCoordinator as error:
        raise NotCoordinator(error.detail, node.listeners) from error


def enqueue_and_reply(
    shard: Shard, group_context: GroupContext, write: GroupWrite, decision: Decision | None = None
) -> None:
    _enqueue(shard, group_context, write, decision)
    if decision is not None:
        shard._complete(group_context, decision, shard._clock.now().node_ms)
        shard._waiting.reply(decision.replies)


def unload_without_replies(shard: Shard, error: NotCoordinator) -> None:
    shard._waiting._futures.clear()
    _unload(shard, error)


def checkpoint_without_lease(
    store: MemoryStore, node_id: str, shards: Mapping[int, ShardCheckpoint]
) -> CheckpointResult:
    with patch.object(store._leases, "held", lambda _, epochs: frozenset(epochs)):
        return _checkpoint(store, node_id, shards)


@asynccontextmanager
async def locked_without_checkpoint(shard: Shard, group_id: str) -> AsyncIterator[SubmitLocked]:
    checkpoints = shard._checkpoints
    shard._checkpoints = SimpleNamespace(store_group=nothing_async, note_growth=checkpoints.note_growth)
    try:
        async with _locked(shard, group_id) as submit:
            yield submit
    finally:
        shard._checkpoints = checkpoints


def load_without_log(shard: Shard, stored: Iterable[StoredGroup | UnreadableGroup], shard_log: ShardLog) -> None:
    _load(shard, stored, shard_log._replace(commits=[]))


async def stop_in_a_checkpoint(
    node: Coordinator, stop: Callable[[Coordinator], Awaitable[None]] = Coordinator.stop
) -> None:
    for task in node._tasks:
        task.cancel()
    await asyncio.gather(*node._tasks, return_exceptions=True)
    await stop(node)


def take_beyond_the_log(offsets: ShardOffsets, epoch: int, max_size: int) -> ShardCheckpoint:
    return _take(offsets, epoch, max_size)._replace(position=2**40)


def extra_rows_of_undos_only(recorder: ChangeRecorder, before: Group, decision: Decision, now: Now) -> ExtraRows:
    return NO_EXTRA_ROWS if recorder.undoes is None else _extra_rows(recorder, before, decision, now)


def renew_with_newest_settings(
    ownership: ShardOwnership, epochs: dict[int, int], last: Renewal | None, _: int
) -> Renewal:
    return _renew_at_store(ownership, epochs, last, ownership._store.versions().cluster_configs)


# -- timers -----------------------------------------------------------------------------------------------------

_time_to_sleep_ms = TimerLoop._time_to_sleep_ms


def time_to_sleep_with_doubtful_leases(timer_loop: TimerLoop, now_ms: int) -> int:
    with patch.object(timer_loop, "_has_valid_lease", lambda _: True):
        return _time_to_sleep_ms(timer_loop, now_ms)


# -- the protocol -----------------------------------------------------------------------------------------------

_decide_heartbeat = heartbeat.decide_heartbeat
_check_session_timeout = join._check_session_timeout
_join_new_member = join._join_new_member
_check_resettable = reset._check_resettable
_remove = leave._remove


def decide_heartbeat_as_stable(group: Group, request: Heartbeat, context: Context) -> Decision:
    seen = group.copy()
    if group.state is PREPARING:
        seen.state = STABLE
    return replace(_decide_heartbeat(seen, request, context), group=group)


def check_member_without_instance(group: Group, member_id: str, _group_instance_id: str | None) -> Member:
    return check_member(group, member_id, None)


def refuse_shortest_session_timeout(requested_ms: int, settings: GroupSettings) -> None:
    if requested_ms == settings.group_min_session_timeout_ms:
        raise InvalidSessionTimeout("too short")
    _check_session_timeout(requested_ms, settings)


def join_without_pending_timer(draft: Draft, request: JoinGroup) -> None:
    _join_new_member(draft, request)
    draft.stop(DeadlineKind.PENDING_MEMBER, request.new_member_id)


def check_resettable_with_members(group: Group, request: ResetOffsets) -> None:
    with suppress(NonEmptyGroup):
        _check_resettable(group, request)


def remove_by_member_id_only(draft: Draft, leaving_member: LeavingMember) -> list[tuple[str, str | None]]:
    return _remove(draft, leaving_member) if leaving_member.member_id else []


def sync_response_without_assignment(protocol_type: str, protocol_name: str, _assignment: bytes) -> SyncGroupResponse:
    return SyncGroupResponse(protocol_type, protocol_name, b"")


# -- what is changed from outside -----------------------------------------------------------------------------------

NO_SETTINGS = StoredSettings({}, {})

_decide_resume = reevaluate.decide_resume
_update = MetadataCache.update
_retirement_outcome = offsets._retirement_outcome
_decide_remove_topic_offsets = offsets.decide_remove_topic_offsets


def resume_without_rebalance(draft: Draft, request: Resume) -> None:
    with patch.object(reevaluate, "start_rebalance", nothing):
        _decide_resume(draft, request)


def update_without_deleted_topics(
    cache: MetadataCache, versions: Versions, settings: StoredSettings, topics: Iterable[TopicRow]
) -> None:
    _update(cache, versions, settings, topics)
    cache._common = dataclasses.replace(cache._common, deleted_topics={})
    cache._own = {group_id: dataclasses.replace(own, deleted_topics={}) for group_id, own in cache._own.items()}


def update_with_first_settings(
    cache: MetadataCache, versions: Versions, settings: StoredSettings, topics: Iterable[TopicRow]
) -> None:
    _update(cache, versions, settings if cache.versions == NOT_LOADED else NO_SETTINGS, topics)


def remove_topic_offsets_committed_since(draft: Draft, request: RemoveTopicOffsets) -> None:
    versions = {(each.topic, each.partition): each.commit_version for each in request.stored}
    candidates = tuple(
        each._replace(commit_version=versions.get((each.topic, each.partition), 0)) for each in request.candidates
    )
    _decide_remove_topic_offsets(draft, replace(request, candidates=candidates))


def retire_whatever_has_happened_since(group: Group, request: RetireGroup) -> str:
    return _retirement_outcome(group, replace(request, seen=None))


def retire_with_offsets(group: Group, request: RetireGroup) -> str:
    return _retirement_outcome(group, replace(request, has_offsets=False))


MUTATIONS: Mapping[str, Mutation] = {
    "write without a lease": Mutation(
        MemoryStore, "write", write_without_lease, frozenset({"OneWriterPerShard"}), first_seed=2
    ),
    "node serves while its lease is in doubt": Mutation(
        Coordinator, "_shard_of", shard_of_doubtful_lease, frozenset({"OneDeciderPerShard"}), first_seed=2
    ),
    "reply before the write": Mutation(Shard, "enqueue", enqueue_and_reply, frozenset({"StoredBeforeReply"})),
    "settings of a group are changed by any node": Mutation(
        admin_settings, "owned_group", lambda *_: nullcontext(), frozenset({"SettingsReachOwners"})
    ),
    "settings are confirmed before they are applied": Mutation(
        ShardOwnership,
        "_renew_at_store",
        renew_with_newest_settings,
        frozenset({"SettingsReachOwners"}),
        first_seed=9,
        events={"setting_changed": 2.0},
    ),
    "join phase without a limit": Mutation(
        expiry, "complete_join_phase", nothing, frozenset({"JoinPhasesEnd", "EveryWaitHasATimer"})
    ),
    "pause counts as silence": Mutation(
        Timers, "delay_members", nothing, frozenset({"PausesEvictNoMember"}), first_seed=2
    ),
    "doubt about the lease counts as silence": Mutation(
        Timers, "delay_all", nothing, frozenset({"PausesEvictNoMember"})
    ),
    "timer loop waits for deadlines of doubtful leases": Mutation(
        TimerLoop, "_time_to_sleep_ms", time_to_sleep_with_doubtful_leases, frozenset({"NoBusyLoops"})
    ),
    "checkpoint without a lease": Mutation(
        MemoryStore, "checkpoint", checkpoint_without_lease, frozenset({"OneWriterPerShard"}), first_seed=2
    ),
    "fetch without a checkpoint": Mutation(
        Coordinator, "_store_offsets", nothing_async, frozenset({"AnsweredIsFetched"})
    ),
    "lock without a checkpoint": Mutation(
        Shard,
        "locked",
        locked_without_checkpoint,
        frozenset({"AnsweredIsFetched", "CommittedOffsetsSurvive"}),
        first_seed=2,
    ),
    "load without the log": Mutation(
        Shard, "load", load_without_log, frozenset({"AnsweredIsFetched", "CommittedOffsetsSurvive"})
    ),
    "checkpoint beyond the log": Mutation(
        ShardOffsets, "take", take_beyond_the_log, frozenset({"AnsweredIsFetched", "CommittedOffsetsSurvive"})
    ),
    "failed checkpoint is forgotten": Mutation(
        ShardOffsets,
        "put_back",
        ShardOffsets.complete,
        frozenset({"AnsweredIsFetched", "CommittedOffsetsSurvive"}),
        first_seed=2,
    ),
    "unloaded shard keeps requests waiting": Mutation(
        Shard, "unload", unload_without_replies, frozenset({"UnloadedShardsReply"})
    ),
    "heartbeat does not report a rebalance": Mutation(
        decide, "decide_heartbeat", decide_heartbeat_as_stable, frozenset({"HeartbeatsReportRebalances"})
    ),
    "commit of an old generation": Mutation(
        commit, "check_generation", nothing, frozenset({"OldGenerationsAreRefused"}), first_seed=2
    ),
    "session timeout within bounds is refused": Mutation(
        join, "_check_session_timeout", refuse_shortest_session_timeout, frozenset({"NoFatalErrors"})
    ),
    "sync response without an assignment": Mutation(
        sync, "SyncGroupResponse", sync_response_without_assignment, frozenset({"StoredBeforeReply"})
    ),
    "fenced member is served": Mutation(
        heartbeat, "check_member", check_member_without_instance, frozenset({"FencedMembersAreRefused"})
    ),
    "leave by instance id removes no member": Mutation(
        leave, "_remove", remove_by_member_id_only, frozenset({"LeftMembersAreGone"})
    ),
    "offsets of a subscribed topic are deleted": Mutation(
        offsets, "is_subscribed", lambda *_: False, frozenset({"LiveOffsetsAreKept"})
    ),
    "offsets of a group with members are reset": Mutation(
        reset, "_check_resettable", check_resettable_with_members, frozenset({"LiveOffsetsAreKept"}), first_seed=2
    ),
    "pending member id never expires": Mutation(
        join, "_join_new_member", join_without_pending_timer, frozenset({"EveryWaitHasATimer"})
    ),
    "write queue without a limit": Mutation(Writer, "is_full", lambda _: False, frozenset({"QueuesAreBounded"})),
    "wrong owner in NotCoordinator": Mutation(
        Coordinator, "_shard_of", shard_with_wrong_owner, frozenset({"CalmRefusesNoRequest"})
    ),
    "operation without its change": Mutation(
        ChangeRecorder, "extra_rows", extra_rows_of_undos_only, frozenset({"ChangesAreRecorded"})
    ),
    "run that never ends": Mutation(Maintenance, "_finish_runs", nothing_async, frozenset({"RunsEnd"})),
    "rebalance that was due is forgotten at a take-over": Mutation(
        decide, "decide_resume", resume_without_rebalance, frozenset({"PendingRebalancesResume"})
    ),
    "session timeout that was set is ignored": Mutation(
        GroupSettings,
        "effective_session_timeout_ms",
        lambda _, requested_ms: requested_ms,
        frozenset({"TimeoutsAreEffective"}),
        first_seed=2,
    ),
    "rebalance timeout is not applied to a phase under way": Mutation(
        reevaluate,
        "_reset_phase_timeout",
        nothing,
        frozenset({"TimeoutsAreEffective"}),
        events={"setting_changed": 4.0},
    ),
    "changed settings are read, and ignored": Mutation(
        MetadataCache, "update", update_with_first_settings, frozenset({"TimeoutsAreEffective"}), first_seed=2
    ),
    "groups do not learn that a topic is deleted": Mutation(
        MetadataCache, "update", update_without_deleted_topics, frozenset({"DeletedTopicsRebalance"})
    ),
    "deletion of a topic removes later commits": Mutation(
        decide,
        "decide_remove_topic_offsets",
        remove_topic_offsets_committed_since,
        frozenset({"LiveOffsetsAreKept"}),
        first_seed=2,
    ),
    "cleanup of a group that was active since": Mutation(
        offsets,
        "_retirement_outcome",
        retire_whatever_has_happened_since,
        frozenset({"OnlyUnusedGroupsAreRetired"}),
        first_seed=53,
    ),
    "cleanup of a group with offsets": Mutation(
        offsets, "_retirement_outcome", retire_with_offsets, frozenset({"DeadGroupsKeepNothing"})
    ),
    "stopped node keeps its leases": Mutation(
        ShardOwnership, "_release_leases", nothing_async, frozenset({"StoppedNodesReleaseShards"})
    ),
    "stopped node abandons the checkpoint under way": Mutation(
        Coordinator,
        "stop",
        stop_in_a_checkpoint,
        frozenset({"NoInvariantIsViolated"}),
        events={"node_stopped": 20.0},
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_mutation_is_reported(mutation: Mutation) -> None:
    with (
        patch.object(mutation.owner, mutation.name, mutation.replacement),
        patch.dict(weather.EVENTS, mutation.events),
    ):
        found = first_violation(range(mutation.first_seed, mutation.first_seed + mutation.seeds_max))
    assert found is not None
    assert found.invariant in mutation.invariants
