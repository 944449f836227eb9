"""The consumer agent: one member of one group, with its assigned partitions, positions and commits.

Muster stores no records. The caller reads them from its own source: files of a directory, tables, shards.

    with ConsumerAgent("http://127.0.0.1:8080", "billing", ["invoices"]) as agent:
        while running:
            for partition, offset in agent.poll(timeout_s=1.0).items():
                records = read(partition, offset)
                ...
                agent.seek(partition, offset + len(records))
            agent.commit()

An agent is for one thread at a time: a second thread gets ConcurrentUse; only wakeup() is for any thread. Callbacks run
in the caller's thread, inside poll(), unsubscribe() and close().
"""

from __future__ import annotations

import itertools
import logging
import os
import ssl
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from math import isnan
from types import TracebackType
from typing import Final, Self, Unpack, get_args

from agent.assignors import DEFAULT_ASSIGNORS, Assignor, resolve_assignors
from agent.clock import Clock, SystemClock
from agent.commit_queue import OnCommitComplete
from agent.commits import Commits
from agent.errors import AgentClosed, AgentError, RequestError
from agent.group_api import GroupApi
from agent.heartbeat import Heartbeat
from agent.node_selector import NodeSelector
from agent.partition_counts import PartitionCounts, PartitionsOf
from agent.partitions import OffsetAndMetadata, TopicPartition, whole_number
from agent.positions import EndOffsetOf, OffsetReset, Positions
from agent.rebalancer import Callbacks, OnPartitions, Rebalancer, Subscription, no_callback
from agent.settings import (
    MAX_CLIENT_ID_LENGTH,
    MAX_GROUP_ID_LENGTH,
    MAX_TOPIC_LENGTH,
    Timing,
    TimingOptions,
    check_name,
    check_token,
)
from agent.shared_state import SharedState
from agent.thread_guard import single_threaded

log = logging.getLogger("muster.agent")

MAX_TIMEOUT_S: Final = 1e9
"""The longest timeout, more than thirty years; larger ones count as this."""

_numbers = itertools.count(1)


class ConsumerAgent:
    """One member of a consumer group.

    Args:
        base_url: one or more URLs of Muster nodes or load balancers; any node accepts any request.
        group_id: the group, 1 to 255 characters.
        topics: the topics to subscribe to; if empty, call subscribe() before poll().
        client_id: the name in the console and the logs, and the prefix of the member id; 1 to 200 characters.
        group_instance_id: makes the member static: a process that restarts with this id within the session timeout
            keeps its partitions without a rebalance, and close() does not leave the group.
        assignors: names or Assignor values, the preferred one first; all members must share one. The default is that
            of Kafka's clients: range, or cooperative-sticky once a member offers only that.
        on_revoked: called with partitions that are about to be revoked; they can still be committed.
        on_assigned: called after every rebalance with the new partitions, possibly none.
        on_lost: called with partitions that another member may own already; do not commit them.
        auto_offset_reset: the position of a partition without a committed offset: the topic's log_start_offset
            ("earliest"), end_offset_of ("latest"), or none ("none": poll() raises NoOffsetForPartition until seek()).
        enable_auto_commit: commit changed positions every auto_commit_interval_ms, on revocation and on close().
        partitions_of: returns the partition count of a topic that has no topic metadata; called in another thread
            during a rebalance, and inside poll() every metadata_max_age_ms.
        end_offset_of: returns the log end offset of a partition (None: not known), from which Muster computes the lag.
            It is sent with commits. If a partition has no commit for log_end_report_interval_ms, poll() and wait()
            repeat its last one with the present log end offset, so that the lag of an idle consumer remains known.
        token: the bearer token, if the nodes require one.
        ssl_context: trusted authorities and client certificate for https URLs; None: the system's authorities.
        clock: for tests.
        **timing: timeouts and limits; see `agent.settings.Timing`.

    Raises:
        ValueError: an argument is invalid; the message names it.
    """

    def __init__(  # noqa: PLR0913  # keyword arguments with defaults: the whole configuration
        self,
        base_url: str | Sequence[str],
        group_id: str,
        topics: Iterable[str] = (),
        *,
        client_id: str | None = None,
        group_instance_id: str | None = None,
        assignors: Sequence[str | Assignor] = DEFAULT_ASSIGNORS,
        on_revoked: OnPartitions = no_callback,
        on_assigned: OnPartitions = no_callback,
        on_lost: OnPartitions = no_callback,
        auto_offset_reset: OffsetReset = "earliest",
        enable_auto_commit: bool = False,
        partitions_of: PartitionsOf | None = None,
        end_offset_of: EndOffsetOf | None = None,
        token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        clock: Clock | None = None,
        **timing: Unpack[TimingOptions],
    ) -> None:
        self._timing = Timing(**timing)
        self._clock = clock or SystemClock()
        self._process_id = os.getpid()
        _check_reset(auto_offset_reset, end_offset_of)
        base_urls = [base_url] if isinstance(base_url, str) else base_url
        node_selector = NodeSelector(base_urls, self._clock.now_ms, self._timing.coordinator_retry_ms)
        api = _checked_api(group_id, group_instance_id)
        token = None if token is None else check_token(token)
        self._shared = SharedState(api, node_selector, self._timing, self._clock, token=token, ssl_context=ssl_context)
        client_id = check_name("client_id", client_id or _default_client_id(group_id), MAX_CLIENT_ID_LENGTH)
        self._is_static = group_instance_id is not None
        self._auto_offset_reset = auto_offset_reset
        self._thread_lock = threading.RLock()
        self._connection = self._shared.new_connection()
        self._counts = PartitionCounts(self._shared.api, partitions_of, self._timing.request_timeout_ms)
        self._positions = Positions(end_offset_of)
        self._subscription = Subscription(client_id, resolve_assignors(assignors), _checked_topics(topics))
        callbacks = Callbacks(on_revoked, on_assigned, on_lost, self._commit_before_revoking)
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
        self._next_metadata_check_at_ms = self._clock.now_ms() + self._timing.metadata_max_age_ms

    # Membership

    @single_threaded
    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription; the next poll() rejoins the group if it has changed.

        Raises:
            ValueError: no topic, or an invalid topic name.
        """
        self._check_open()
        checked = _checked_topics(topics)
        if not checked:
            raise ValueError("subscribe() needs at least one topic; call unsubscribe() for none")
        if checked != self._subscription.topics:
            self._subscription.topics = checked
            self._rebalancer.request_rejoin("the subscription has changed")

    @single_threaded
    def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group; subscribe() and poll() rejoin it."""
        self._check_open()
        try:
            self._revoke_and_leave(self._clock.now_ms() + self._timing.request_timeout_ms, "the consumer unsubscribed")
        finally:
            self._subscription.topics = ()

    @single_threaded
    def poll(self, timeout_s: float = 0.0) -> Mapping[TopicPartition, int]:
        """Take part in the group, and return the partitions to consume, sorted, each with the next offset to read.

        Returns at once if there are any, else waits for some until timeout_s or wakeup(). Call it at least every
        max_poll_interval_ms; otherwise the agent leaves the group. Two requests run in the caller's thread and can
        exceed timeout_s by request_timeout_ms each: an auto-commit before a rebalance, and the topic metadata every
        metadata_max_age_ms.

        Raises:
            RequestError: the group cannot be joined; FencedInstanceId is final, after others poll() tries again.
            NoOffsetForPartition: see auto_offset_reset; call seek().
            AgentClosed: close() was called.
            Exception: an error raised by a callback, partitions_of, end_offset_of or an assignor.
        """
        self._check_open()
        if not self._subscription.topics:
            raise RequestError("subscribe to at least one topic before poll()")
        deadline_ms = self._deadline_ms(timeout_s)
        self._record_poll()
        self._heartbeat.start()
        while True:
            self._run_due_work()
            self._check_open()
            ready = self._positions.fetchable()
            if ready or self._is_woken or self._clock.now_ms() >= deadline_ms:
                self._is_woken = False
                return ready
            self._wait(deadline_ms)

    @single_threaded
    def wait(self, timeout_s: float) -> bool:
        """Wait while there is nothing to read; return True if poll() has work before timeout_s has passed.

        Unlike time.sleep() it ends when the group rebalances.
        """
        self._check_open()
        has_work = self._wait(self._deadline_ms(timeout_s))
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

    @single_threaded
    def close(self, timeout_s: float = 5.0) -> None:
        """Revoke the partitions, leave the group unless the member is static, and end all threads.

        Commits only if enable_auto_commit is on. If the coordinator does not answer within timeout_s, the member is
        evicted when its session expires. A second call does nothing, and neither does a call in a forked process,
        since the member belongs to the parent.

        Raises:
            Exception: an error raised by on_revoked or on_lost; the agent is closed nevertheless.
        """
        if self._shared.is_closed or os.getpid() != self._process_id:
            return
        deadline_ms = self._deadline_ms(timeout_s)
        try:
            self._revoke_and_leave(deadline_ms, "the consumer is closing")
        finally:
            with self._shared.changed:
                self._shared.is_closed = True
                self._shared.changed.notify_all()
            self._heartbeat.stop()
            self._connection.close()
            self._commits.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Positions

    @single_threaded
    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to read.

        Raises:
            ValueError: the partition is not assigned.
            NoOffsetForPartition: nothing is committed, and auto_offset_reset is "none".
        """
        if self._positions.position(partition) is None:
            self._positions.reset([partition], self._auto_offset_reset)
        position = self._positions.position(partition)
        assert position is not None
        return position

    @single_threaded
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record to read.

        Raises:
            ValueError: the partition is not assigned, or the offset is negative or not a whole number.
        """
        self._positions.seek(partition, offset)

    @single_threaded
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Exclude partitions from what poll() returns; the member keeps owning them.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._positions.pause(partitions, is_paused=True)

    @single_threaded
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Include paused partitions in what poll() returns again.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._positions.pause(partitions, is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._positions.paused()

    # Commits

    @single_threaded
    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        asynchronous: bool = False,
        on_complete: OnCommitComplete | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Commit offsets; by default the positions of all assigned partitions.

        Args:
            offsets: the next offset to read, by partition.
            asynchronous: return without waiting; on_complete runs in a later poll(), commit(), unsubscribe() or
                close(). Without on_complete a failure is only logged.
            on_complete: called with the offsets, and None or the error; only with asynchronous.
            timeout_s: how long to retry (None: api_timeout_ms); only without asynchronous.

        Raises:
            CommitFailed: another member may own the partitions. Do not repeat the commit; call poll().
            RebalanceInProgress: call poll(), then commit the partitions that are still assigned.
            OffsetsRefused: some partitions were rejected, the others are stored.
            FencedInstanceId: another process uses the group_instance_id.
            RetryError: not answered in time; repeat it. The offsets may be stored already.
            ValueError: an offset is negative or not a whole number.
            Exception: an error raised by on_complete or end_offset_of.
        """
        self._check_open()
        wanted = self._positions.all() if offsets is None else _as_offsets(offsets)
        if asynchronous and wanted:
            self._commits.commit_async(wanted, on_complete)
        elif wanted:
            try:
                self._commits.commit_sync(wanted, self._deadline_ms(timeout_s))
            finally:
                self._commits.run_callbacks()

    @single_threaded
    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return the committed offsets of partitions (None: of those assigned); None where nothing is committed.

        Args:
            partitions: of any topic.
            timeout_s: how long to retry (None: api_timeout_ms).

        Raises:
            RetryError: not answered in time.
        """
        self._check_open()
        wanted = sorted(self._positions.owned() if partitions is None else partitions)
        return self._shared.committed(self._connection, wanted, self._deadline_ms(timeout_s), lambda: False)

    # Internals

    def _deadline_ms(self, timeout_s: float | None) -> int:
        """Return the deadline of a call that begins now; None stands for api_timeout_ms."""
        if timeout_s is None:
            return self._clock.now_ms() + self._timing.api_timeout_ms
        if isnan(timeout_s):
            raise ValueError("timeout_s must be a number of seconds, and is nan")
        return self._clock.now_ms() + int(min(timeout_s, MAX_TIMEOUT_S) * 1000)

    def _run_due_work(self) -> None:
        """Do all due work that needs no waiting."""
        self._commits.run_callbacks()
        self._check_partition_counts()
        self._rebalancer.run_due()
        self._commits.auto_commit()
        self._commits.report_log_ends()
        self._positions.reset(self._positions.owned(), self._auto_offset_reset)

    def _wait(self, deadline_ms: int) -> bool:
        """Wait until there is work or the deadline; return True if there is work. Waiting counts as polling."""
        metadata_check_at_ms = (
            self._next_metadata_check_at_ms if self._rebalancer.leader_partition_counts is not None else None
        )
        wakes = (self._rebalancer.next_wakeup_ms(), self._commits.next_wakeup_ms(), metadata_check_at_ms)
        wake_at_ms = min([deadline_ms, *(each for each in wakes if each is not None)])
        self._record_poll(is_polling=True)
        try:
            self._shared.wait_until(wake_at_ms, self._has_work)
        finally:
            self._record_poll()
        return self._clock.now_ms() < deadline_ms and not self._is_woken

    def _has_work(self) -> bool:
        return self._is_woken or self._rebalancer.has_work() or self._commits.has_results()

    def _record_poll(self, *, is_polling: bool = False) -> None:
        with self._shared.changed:
            self._shared.is_polling = is_polling
            self._shared.polled_at_ms = self._clock.now_ms()

    def _check_partition_counts(self) -> None:
        """Rejoin if this member is the leader and partition counts have changed since its assignment."""
        now_ms = self._clock.now_ms()
        known = self._rebalancer.leader_partition_counts
        if known is None or now_ms < self._next_metadata_check_at_ms:
            return
        self._next_metadata_check_at_ms = now_ms + self._timing.metadata_max_age_ms
        try:
            counts = self._counts.of(self._connection, known)
        except AgentError as error:
            log.debug("partition counts could not be read: %s", error)
            return
        if counts != known:
            self._rebalancer.request_rejoin("partition counts have changed")

    def _commit_before_revoking(self) -> None:
        self._commits.commit_before_revocation(self._clock.now_ms() + self._timing.request_timeout_ms)

    def _revoke_and_leave(self, deadline_ms: int, reason: str) -> None:
        """Revoke all partitions and leave; each step runs even if a callback raised in one before it."""
        with ExitStack() as steps:  # in reverse order
            steps.callback(self._leave, reason, deadline_ms)
            steps.callback(self._commits.finish_pending, deadline_ms)
            steps.callback(self._rebalancer.revoke_all)
            steps.callback(self._commits.finish_pending, deadline_ms)
            self._commits.commit_before_revocation(deadline_ms)

    def _leave(self, reason: str, deadline_ms: int) -> None:
        """Discard the membership, and send a leave unless the member is static."""
        self._rebalancer.cancel_round()
        with self._shared.changed:
            member_id = self._shared.membership.identity.member_id
            self._shared.membership.leave()
        if not member_id or self._is_static:
            return

        def send() -> None:
            timeout_ms = self._shared.answer_timeout_ms(deadline_ms)
            self._shared.api.leave(self._connection, member_id, reason, timeout_ms=timeout_ms)

        try:
            self._shared.send_with_retries(send, deadline_ms, lambda: False)
        except AgentError as error:
            log.info("no response to the leave; the member is evicted when its session expires: %s", error)

    def _check_open(self) -> None:
        if self._shared.is_closed:
            raise AgentClosed("this agent is closed; create another one")


def _checked_api(group_id: str, group_instance_id: str | None) -> GroupApi:
    check_name("group id", group_id, MAX_GROUP_ID_LENGTH)
    if group_instance_id is not None:
        check_name("group_instance_id", group_instance_id, MAX_CLIENT_ID_LENGTH)
    return GroupApi(group_id, group_instance_id)


def _checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise ValueError(f"topics must be a collection of names, and is the string {topics!r}")
    return tuple(sorted({check_name("topic", topic, MAX_TOPIC_LENGTH) for topic in topics}))


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
