"""The consumer: one member of one group, with its assigned partitions, positions and commits; without any I/O.

A `Runtime` gives it time, tasks and HTTP: threads for `agent.ConsumerAgent`, asyncio for `agent.aio.ConsumerAgent`.
"""

from __future__ import annotations

import itertools
import logging
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from math import isnan
from typing import Any, Final, Unpack, get_args

from agent.assignors import DEFAULT_ASSIGNORS, Assignor, resolve_assignors
from agent.core.commits import Commits
from agent.core.exclusive import exclusive
from agent.core.group_api import GroupApi
from agent.core.heartbeat import Heartbeat
from agent.core.node_selector import NodeSelector
from agent.core.partition_counts import PartitionCounts
from agent.core.positions import OffsetReset, Positions
from agent.core.rebalancer import Callbacks, Rebalancer, Subscription
from agent.core.runtime import Runtime
from agent.core.shared_state import SharedState
from agent.errors import AgentClosed, AgentError, RequestError
from agent.functions import check_function
from agent.partitions import OffsetAndMetadata, TopicPartition, whole_number
from agent.settings import (
    MAX_CLIENT_ID_LENGTH,
    MAX_GROUP_ID_LENGTH,
    MAX_INSTANCE_ID_LENGTH,
    MAX_TOPIC_LENGTH,
    Timing,
    TimingOptions,
    check_name,
    check_token,
)

log = logging.getLogger("muster.agent")

MAX_TIMEOUT_S: Final = 1e9
"""The longest timeout, more than thirty years; larger ones count as this."""

_numbers = itertools.count(1)


Partitions = tuple[TopicPartition, ...]
OnPartitions = Callable[[Partitions], object]
"""Called with sorted partitions; like all functions of the caller, over asyncio it may be a coroutine function."""
PartitionsOf = Callable[[str], object]
"""Returns the partition count of a topic."""
EndOffsetOf = Callable[[TopicPartition], object]
"""Returns the log end offset of a partition; None: not known."""
OnCommitComplete = Callable[[Mapping[TopicPartition, OffsetAndMetadata], AgentError | None], object]
"""Called with the offsets of an asynchronous commit, and None or its error."""


class ConsumerOptions(TimingOptions, total=False):
    """The keyword arguments of an agent."""

    client_id: str | None
    group_instance_id: str | None
    assignors: Sequence[str | Assignor]
    on_revoked: OnPartitions | None
    on_assigned: OnPartitions | None
    on_lost: OnPartitions | None
    auto_offset_reset: OffsetReset
    enable_auto_commit: bool
    partitions_of: PartitionsOf | None
    end_offset_of: EndOffsetOf | None
    token: str | Callable[[], str] | None
    ssl_context: ssl.SSLContext | None


class Consumer:
    """One member of a consumer group. `agent.ConsumerAgent` documents arguments and methods."""

    def __init__(  # noqa: PLR0913  # keyword arguments with defaults: the whole configuration
        self,
        runtime: Runtime,
        base_url: str | Sequence[str],
        group_id: str,
        topics: Iterable[str] = (),
        *,
        client_id: str | None = None,
        group_instance_id: str | None = None,
        assignors: Sequence[str | Assignor] = DEFAULT_ASSIGNORS,
        on_revoked: OnPartitions | None = None,
        on_assigned: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
        auto_offset_reset: OffsetReset = "earliest",
        enable_auto_commit: bool = False,
        partitions_of: PartitionsOf | None = None,
        end_offset_of: EndOffsetOf | None = None,
        token: str | Callable[[], str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        **timing: Unpack[TimingOptions],
    ) -> None:
        if unknown := timing.keys() - TimingOptions.__annotations__.keys():
            known = ", ".join(sorted(ConsumerOptions.__annotations__))
            raise TypeError(f"an agent has no option {', '.join(sorted(unknown))}; its options are {known}")
        self._timing = Timing(**timing)
        self._runtime = runtime
        _check_reset(auto_offset_reset, end_offset_of)
        _check_type("enable_auto_commit", enable_auto_commit, bool, "True or False")
        _check_type("ssl_context", ssl_context, ssl.SSLContext | None, "an ssl.SSLContext or None")
        _check_type("base_url", base_url, str | Sequence, "a URL or a list of URLs")
        base_urls = [base_url] if isinstance(base_url, str) else base_url
        node_selector = NodeSelector(base_urls, runtime.now_ms, self._timing.coordinator_retry_ms, runtime.changed)
        api = _checked_api(group_id, group_instance_id)
        returned = _token_function(token)
        self._shared = SharedState(api, node_selector, self._timing, runtime, token=returned, ssl_context=ssl_context)
        client_id = _default_client_id(group_id) if client_id is None else client_id
        check_name("client_id", client_id, MAX_CLIENT_ID_LENGTH)
        self._is_static = group_instance_id is not None
        self._auto_offset_reset = auto_offset_reset
        self._connection = self._shared.new_connection()
        counted, ends = self._coroutine("partitions_of", partitions_of), self._coroutine("end_offset_of", end_offset_of)
        self._counts = PartitionCounts(self._shared.api, counted, self._timing.request_timeout_ms)
        self._positions = Positions(ends)
        self._subscription = Subscription(client_id, resolve_assignors(assignors), _checked_topics(topics))
        for each in self._subscription.assignors:
            self._coroutine("on_assignment", each.on_assignment, 2)
        callbacks = Callbacks(
            on_revoked=self._coroutine("on_revoked", on_revoked) or _no_callback,
            on_assigned=self._coroutine("on_assigned", on_assigned) or _no_callback,
            on_lost=self._coroutine("on_lost", on_lost) or _no_callback,
            before_revoking=self._commit_before_revoking,
            before_joining=self._drain_commits,
        )
        self._rebalancer = Rebalancer(self._shared, self._subscription, self._positions, callbacks, self._counts)
        self._heartbeat = Heartbeat(self._shared, client_id, is_static=self._is_static)
        self._commits = Commits(
            self._shared,
            self._connection,
            self._positions,
            client_id,
            is_automatic=enable_auto_commit,
            is_reporting=end_offset_of is not None,
        )
        self._is_woken = False
        self._next_metadata_check_at_ms = self._runtime.now_ms() + self._timing.metadata_max_age_ms

    # Membership

    @exclusive
    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription."""
        self._check_open()
        checked = _checked_topics(topics)
        if not checked:
            raise ValueError("subscribe() needs at least one topic; call unsubscribe() for none")
        if checked != self._subscription.topics:
            self._subscription.topics = checked
            self._rebalancer.request_rejoin("the subscription has changed")

    @exclusive
    async def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group."""
        self._check_open()
        self._subscription.topics = ()  # At first, since a callback may subscribe again.
        await self._revoke_and_leave(
            self._runtime.now_ms() + self._timing.request_timeout_ms, "the consumer unsubscribed"
        )

    @exclusive
    async def poll(self, timeout_s: float = 0.0) -> Mapping[TopicPartition, int]:
        """Take part in the group, and return the partitions to consume, sorted, each with the next offset to read."""
        self._check_open()
        if not self._subscription.topics:
            raise RequestError("subscribe to at least one topic before poll()")
        deadline_ms = self._deadline_ms(timeout_s)
        self._record_poll()
        self._heartbeat.start()
        while True:
            await self._run_due_work()
            self._check_open()
            ready = self._positions.fetchable()
            if ready or self._is_woken or self._runtime.now_ms() >= deadline_ms:
                self._is_woken = False
                return ready
            await self._wait(deadline_ms)

    @exclusive
    async def wait(self, timeout_s: float) -> bool:
        """Wait while there is nothing to read; return True if poll() has work before timeout_s has passed."""
        self._check_open()
        has_work = await self._wait(self._deadline_ms(timeout_s))
        self._is_woken = False
        return has_work

    def wakeup(self) -> None:
        """Make the current or next poll() or wait() return at once; for any thread or signal handler."""
        with self._shared.changed:
            self._is_woken = True
            self._shared.changed.notify_all()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this member owns."""
        return frozenset(self._positions.owned())

    @property
    def generation(self) -> int:
        """The generation that this member is part of; -1 if none."""
        return self._shared.membership.identity.generation

    @property
    def member_id(self) -> str:
        """The member id that the coordinator issued; "" if none."""
        return self._shared.membership.identity.member_id

    @exclusive
    async def close(self, timeout_s: float = 5.0) -> None:
        """Revoke the partitions, leave the group unless the member is static, and end all tasks."""
        if self._shared.is_closed:
            return
        deadline_ms = self._deadline_ms(timeout_s)
        try:
            await self._revoke_and_leave(deadline_ms, "the consumer is closing")
        finally:
            with self._shared.changed:
                self._shared.is_closed = True
                self._shared.changed.notify_all()
            async with AsyncExitStack() as steps:  # in reverse order
                steps.push_async_callback(self._commits.stop)
                steps.push_async_callback(self._connection.close)
                await self._heartbeat.stop()

    # Positions

    @exclusive
    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to read."""
        if self._positions.position(partition) is None:
            await self._positions.reset([partition], self._auto_offset_reset)
        position = self._positions.position(partition)
        assert position is not None
        return position

    @exclusive
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record to read."""
        self._positions.seek(partition, offset)

    @exclusive
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Exclude partitions from what poll() returns; the member keeps owning them."""
        self._positions.pause(partitions, is_paused=True)

    @exclusive
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Include paused partitions in what poll() returns again."""
        self._positions.pause(partitions, is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._positions.paused()

    # Commits

    @exclusive
    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        asynchronous: bool = False,
        on_complete: OnCommitComplete | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Commit offsets; by default the positions of all assigned partitions."""
        self._check_open()
        _check_type("asynchronous", asynchronous, bool, "True or False")
        completed = self._coroutine("on_complete", on_complete, 2)
        if completed is not None and not asynchronous:
            raise ValueError("on_complete is called for asynchronous commits only; this one returns or raises")
        wanted = await self._positions.all() if offsets is None else _as_offsets(offsets)
        if asynchronous:
            self._commits.commit_async(wanted, completed)
        else:
            try:
                await self._commits.commit_sync(wanted, self._deadline_ms(timeout_s))
            finally:
                await self._commits.run_callbacks()

    @exclusive
    async def committed(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of partitions (None: of those assigned); None where nothing is committed."""
        self._check_open()
        wanted = sorted(self._positions.owned() if partitions is None else partitions)
        return await self._shared.committed(self._connection, wanted, self._deadline_ms(timeout_s), lambda: False)

    # Internals

    def _deadline_ms(self, timeout_s: float | None) -> int:
        """Return the deadline of a call that begins now; None stands for api_timeout_ms."""
        if timeout_s is None:
            return self._runtime.now_ms() + self._timing.api_timeout_ms
        if isnan(timeout_s):
            raise ValueError("timeout_s must be a number of seconds, and is nan")
        return self._runtime.now_ms() + int(min(timeout_s, MAX_TIMEOUT_S) * 1000)

    async def _run_due_work(self) -> None:
        """Do all due work that needs no waiting."""
        await self._commits.run_callbacks()
        await self._check_partition_counts()
        await self._rebalancer.run_due()
        await self._commits.auto_commit()
        await self._commits.report_log_ends()
        await self._positions.reset(self._positions.without_position(), self._auto_offset_reset)

    async def _wait(self, deadline_ms: int) -> bool:
        """Wait until there is work or the deadline; return True if there is work. Waiting counts as polling."""
        metadata_check_at_ms = (
            self._next_metadata_check_at_ms if self._rebalancer.leader_partition_counts is not None else None
        )
        wakes = (self._rebalancer.next_wakeup_ms(), self._commits.next_wakeup_ms(), metadata_check_at_ms)
        wake_at_ms = min([deadline_ms, *(each for each in wakes if each is not None)])
        self._record_poll(is_polling=True)
        try:
            await self._shared.wait_until(wake_at_ms, self._has_work)
        finally:
            self._record_poll()
        return self._runtime.now_ms() < deadline_ms and not self._is_woken

    def _has_work(self) -> bool:
        return self._is_woken or self._rebalancer.has_work() or self._commits.has_results()

    def _record_poll(self, *, is_polling: bool = False) -> None:
        with self._shared.changed:
            self._shared.is_polling = is_polling
            self._shared.polled_at_ms = self._runtime.now_ms()

    async def _check_partition_counts(self) -> None:
        """Rejoin if this member is the leader and partition counts have changed since its assignment."""
        now_ms = self._runtime.now_ms()
        known = self._rebalancer.leader_partition_counts
        if known is None or now_ms < self._next_metadata_check_at_ms:
            return
        self._next_metadata_check_at_ms = now_ms + self._timing.metadata_max_age_ms
        try:
            counts = await self._counts.of(self._connection, known)
        except AgentError as error:
            log.debug("partition counts could not be read: %s", error)
            return
        if counts != known:
            self._rebalancer.request_rejoin("partition counts have changed")

    async def _commit_before_revoking(self) -> None:
        await self._commits.commit_before_revocation(self._runtime.now_ms() + self._timing.request_timeout_ms)

    async def _drain_commits(self) -> None:
        await self._commits.drain(self._runtime.now_ms() + self._timing.request_timeout_ms)

    async def _revoke_and_leave(self, deadline_ms: int, reason: str) -> None:
        """Revoke all partitions and leave; each step runs even if a callback raised in one before it.

        The deadline is that of answers: it is later by the time that on_revoked and on_lost take.
        """

        async def revoke() -> None:
            nonlocal deadline_ms
            began_at_ms = self._runtime.now_ms()
            try:
                await self._rebalancer.revoke_all()
            finally:
                deadline_ms += self._runtime.now_ms() - began_at_ms

        async with AsyncExitStack() as steps:  # in reverse order
            steps.push_async_callback(lambda: self._leave(reason, deadline_ms))
            steps.push_async_callback(lambda: self._commits.finish_pending(deadline_ms))
            steps.push_async_callback(revoke)
            steps.push_async_callback(self._commits.finish_pending, deadline_ms)
            await self._commits.commit_before_revocation(deadline_ms)

    async def _leave(self, reason: str, deadline_ms: int) -> None:
        """Discard the membership, and send a leave unless the member is static."""
        await self._rebalancer.cancel_round()
        with self._shared.changed:
            member_id = self._shared.membership.identity.member_id
            self._shared.membership.leave()
        if member_id and not self._is_static:
            await self._shared.leave(self._connection, member_id, reason, deadline_ms, lambda: False)

    def _coroutine(
        self, name: str, function: Callable[..., object] | None, arguments: int = 1
    ) -> Callable[..., Awaitable[Any]] | None:
        """Return a function of the caller as a coroutine function; None if there is none.

        Raises:
            ValueError: see `check_function`.
        """
        if function is None:
            return None
        check_function(name, function, arguments, may_be_coroutine=self._runtime.is_asynchronous)
        return self._runtime.as_coroutine(function)

    def _check_open(self) -> None:
        if self._shared.is_closed:
            raise AgentClosed("this agent is closed; create another one")


async def _no_callback(_: Partitions) -> None:
    """Do nothing: the default callback."""


def _checked_api(group_id: str, group_instance_id: str | None) -> GroupApi:
    check_name("group id", group_id, MAX_GROUP_ID_LENGTH)
    if group_instance_id is not None:
        check_name("group_instance_id", group_instance_id, MAX_INSTANCE_ID_LENGTH)
    return GroupApi(group_id, group_instance_id)


def _checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str | bytes) or not isinstance(topics, Iterable):
        raise ValueError(f"topics must be a collection of names, and is {topics!r}")
    return tuple(sorted({check_name("topic", topic, MAX_TOPIC_LENGTH) for topic in topics}))


def _check_type(name: str, value: object, kind: Any, expected: str) -> None:  # noqa: ANN401  # a type or a union
    if not isinstance(value, kind):
        raise ValueError(f"{name} must be {expected}, and is {value!r}")


def _token_function(token: object) -> Callable[[], object] | None:
    """Return what returns the token of each request; None: there is none."""
    if callable(token):
        check_function("token", token, 0, may_be_coroutine=False)
        return token
    return None if token is None else partial(str, check_token(token))


def _check_reset(to: str, end_offset_of: EndOffsetOf | None) -> None:
    if to not in get_args(OffsetReset):
        raise ValueError(f"auto_offset_reset must be one of {', '.join(get_args(OffsetReset))}, and is {to!r}")
    if to == "latest" and end_offset_of is None:
        raise ValueError("auto_offset_reset 'latest' needs end_offset_of, since Muster stores no records")


def _default_client_id(group_id: str) -> str:
    """Return Kafka's default: the group's name and a number."""
    return f"consumer-{group_id}"[: MAX_CLIENT_ID_LENGTH - 10] + f"-{next(_numbers)}"


def _as_offsets(offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> dict[TopicPartition, OffsetAndMetadata]:
    wanted = {(each := TopicPartition(*named)): _as_offset(each, offset) for named, offset in offsets.items()}
    negative = [partition for partition, offset in wanted.items() if offset.offset < 0]
    if negative:
        raise ValueError(f"an offset must be 0 or more; that of {negative[0]} is {wanted[negative[0]].offset}")
    return wanted


def _as_offset(partition: TopicPartition, offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return the offset as an OffsetAndMetadata whose numbers are ints."""
    if not isinstance(offset, OffsetAndMetadata):
        return OffsetAndMetadata(whole_number(f"the offset of {partition}", offset))
    end = offset.log_end_offset
    return replace(
        offset,
        offset=whole_number(f"the offset of {partition}", offset.offset),
        leader_epoch=whole_number(f"the leader_epoch of {partition}", offset.leader_epoch),
        log_end_offset=None if end is None else whole_number(f"the log_end_offset of {partition}", end),
    )
