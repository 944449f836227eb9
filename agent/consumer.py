"""A consumer agent is one member of one group: it says which partitions to consume and from where, and commits.

Muster holds no records. The caller reads them from wherever its partitions live: files of a directory, tables, shards.

    with ConsumerAgent("http://127.0.0.1:8080", "billing", ["invoices"]) as agent:
        while running:
            for partition, offset in agent.poll(timeout_s=1.0).items():
                records = read(partition, offset)
                ...
                agent.seek(partition, offset + len(records))
            agent.commit()

An agent is for one thread at a time, wakeup() aside: a second one is refused with ConcurrentUse. Callbacks run in that
thread, inside poll(), unsubscribe() and close().
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

from agent.assignors import DEFAULT_ASSIGNORS, Assignor, chosen
from agent.clock import Clock, SystemClock
from agent.commit_queue import OnDone
from agent.commits import Commits
from agent.coordinators import Coordinators
from agent.errors import AgentClosed, AgentError, RequestError
from agent.group_api import GroupApi
from agent.heartbeat import Heartbeat
from agent.one_thread import by_one_thread
from agent.partitions import OffsetAndMetadata, TopicPartition, whole_number
from agent.positions import EndOffsetOf, OffsetReset, Positions
from agent.rebalancer import Callbacks, OnPartitions, Rebalancer, Subscription, nothing
from agent.session import Session
from agent.settings import (
    MAX_CLIENT_ID_LENGTH,
    MAX_GROUP_ID_LENGTH,
    MAX_TOPIC_LENGTH,
    Timing,
    TimingOptions,
    check_name,
    check_token,
)
from agent.topic_counts import PartitionsOf, TopicCounts

log = logging.getLogger("muster.agent")

FOR_EVER_S: Final = 1e9
"""The longest time that is waited for; it is more than thirty years."""

_numbers = itertools.count(1)


class ConsumerAgent:
    """One member of a consumer group.

    Args:
        base_url: a Muster node or load balancer, or several; any of them will do.
        group_id: the group, 1 to 255 characters.
        topics: what to subscribe to; none waits for subscribe().
        client_id: what people see of this agent, and how its member id begins.
        group_instance_id: makes the member static: whoever comes back under this id gets the partitions it had, with
            no rebalance. close() does not leave the group then.
        assignors: names or Assignor values, the preferred one first; all members must share one. The default is
            Kafka's: range, and cooperative-sticky as soon as a member offers that alone.
        on_revoked: told of partitions that are about to be given up: still this member's, so commit() now.
        on_assigned: told of partitions that are new, after every rebalance, even if there are none.
        on_lost: told of partitions that may be another's already: it is too late to commit.
        auto_offset_reset: where to begin when nothing is committed: at the topic's log_start_offset ("earliest"), at
            end_offset_of ("latest"), or not at all ("none": poll() raises NoOffsetForPartition until seek()).
        enable_auto_commit: commit changed positions every auto_commit_interval_ms, on revocation and on close().
        partitions_of: the partition count of a topic that is not in Muster's catalogue; called in another thread while
            the group rebalances, and inside poll() every metadata_max_age_ms.
        end_offset_of: where a partition ends (None: not known); sent along with commits of positions, so that the lag
            is known. Where nothing is committed for log_end_report_interval_ms, poll() and wait() commit what was
            committed last once more, with the end as it is then: the lag of a consumer that is idle stays known.
        token: the bearer token, where the nodes want one.
        ssl_context: for https URLs: whom to trust, and with which certificate to come; None: the system's authorities.
        clock: for tests.
        **timing: see `agent.settings.Timing`.

    Raises:
        ValueError: naming the argument that cannot be.
    """

    def __init__(  # noqa: PLR0913  # keyword arguments, each with a default: this is the whole of the configuration
        self,
        base_url: str | Sequence[str],
        group_id: str,
        topics: Iterable[str] = (),
        *,
        client_id: str | None = None,
        group_instance_id: str | None = None,
        assignors: Sequence[str | Assignor] = DEFAULT_ASSIGNORS,
        on_revoked: OnPartitions = nothing,
        on_assigned: OnPartitions = nothing,
        on_lost: OnPartitions = nothing,
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
        coordinators = Coordinators(base_urls, self._clock.now_ms, self._timing.coordinator_retry_ms)
        api = _checked_api(group_id, group_instance_id)
        token = None if token is None else check_token(token)
        self._session = Session(api, coordinators, self._timing, self._clock, token=token, ssl_context=ssl_context)
        client_id = check_name("client_id", client_id or _default_client_id(group_id), MAX_CLIENT_ID_LENGTH)
        self._is_static = group_instance_id is not None
        self._auto_offset_reset = auto_offset_reset
        self._door = threading.RLock()
        self._lane = self._session.new_lane()
        self._counts = TopicCounts(self._session.api, partitions_of, self._timing.request_timeout_ms)
        self._positions = Positions(end_offset_of)
        self._subscription = Subscription(client_id, chosen(assignors), _checked_topics(topics))
        callbacks = Callbacks(on_revoked, on_assigned, on_lost, self._commit_before_revoking)
        self._rebalancer = Rebalancer(self._session, self._subscription, self._positions, callbacks, self._counts)
        self._heartbeat = Heartbeat(self._session, client_id, is_static=self._is_static)
        self._commits = Commits(
            self._session,
            self._lane,
            self._positions,
            client_id,
            is_automatic=enable_auto_commit,
            is_reporting=end_offset_of is not None,
        )
        self._is_woken = False
        self._next_watch_at_ms = self._clock.now_ms() + self._timing.metadata_max_age_ms

    # Membership

    @by_one_thread
    def subscribe(self, topics: Iterable[str]) -> None:
        """Consume these topics from the next poll() on, instead of those before.

        Raises:
            ValueError: no topic, or a name that cannot be one.
        """
        self._check_open()
        checked = _checked_topics(topics)
        if not checked:
            raise ValueError("subscribe() wants at least one topic; unsubscribe() is for none")
        if checked != self._subscription.topics:
            self._subscription.topics = checked
            self._rebalancer.want_join("the subscription has changed")

    @by_one_thread
    def unsubscribe(self) -> None:
        """Leave the group, giving all partitions back; subscribe() and poll() join it again."""
        self._check_open()
        try:
            self._go(self._clock.now_ms() + self._timing.request_timeout_ms, "the consumer unsubscribed")
        finally:
            self._subscription.topics = ()

    @by_one_thread
    def poll(self, timeout_s: float = 0.0) -> Mapping[TopicPartition, int]:
        """Take part in the group, and return the partitions to consume, sorted, each with the next offset to read.

        Returns at once when there are any, else waits for some: at most timeout_s, or until wakeup(). It must be
        called at least every max_poll_interval_ms, or the partitions go to others. Beyond timeout_s it goes on only
        for what is asked in the caller's thread, request_timeout_ms each: an auto-commit before a rebalance, and the
        catalogue every metadata_max_age_ms.

        Raises:
            RequestError: the group cannot be joined so; FencedInstanceId is final, after others poll() tries again.
            NoOffsetForPartition: see auto_offset_reset; seek() and go on.
            AgentClosed: close() was called.
            Exception: whatever a callback, partitions_of, end_offset_of or an assignor raised.
        """
        self._check_open()
        if not self._subscription.topics:
            raise RequestError("subscribe to at least one topic before poll()")
        deadline_ms = self._deadline_ms(timeout_s)
        self._polled()
        self._heartbeat.start()
        while True:
            self._keep_house()
            self._check_open()
            ready = self._positions.to_consume()
            if ready or self._is_woken or self._clock.now_ms() >= deadline_ms:
                self._is_woken = False
                return ready
            self._wait(deadline_ms)

    @by_one_thread
    def wait(self, timeout_s: float) -> bool:
        """Wait when there is nothing to read; tell whether poll() has something to do before timeout_s is over.

        Better than sleeping: a rebalance is not kept waiting.
        """
        self._check_open()
        has_work = self._wait(self._deadline_ms(timeout_s))
        self._is_woken = False
        return has_work

    def wakeup(self) -> None:
        """Make the poll() or wait() under way, or the next one, return at once; from any thread or signal handler."""
        with self._session.changed:
            self._is_woken = True
            self._session.changed.notify_all()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this member owns."""
        return frozenset(self._positions.owned())

    @property
    def generation(self) -> int:
        """Return the group's generation that this member is part of; -1 when none."""
        return self._session.membership.identity.generation

    @property
    def member_id(self) -> str:
        """Return the id that the coordinator gave; "" when none."""
        return self._session.membership.identity.member_id

    @by_one_thread
    def close(self, timeout_s: float = 5.0) -> None:
        """Give the partitions back, leave the group unless the member is static, and end all threads.

        Commits nothing, unless enable_auto_commit is on. Never waits much longer than timeout_s for a coordinator
        that does not answer: the session's expiry does the rest. May be called twice. In a process that was forked
        off it does nothing, since the member is its parent's.

        Raises:
            Exception: whatever on_revoked or on_lost raised; the agent is closed all the same.
        """
        if self._session.is_closed or os.getpid() != self._process_id:
            return
        deadline_ms = self._deadline_ms(timeout_s)
        try:
            self._go(deadline_ms, "the consumer is closing")
        finally:
            with self._session.changed:
                self._session.is_closed = True
                self._session.changed.notify_all()
            self._heartbeat.stop()
            self._lane.close()
            self._commits.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Positions

    @by_one_thread
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

    @by_one_thread
    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record to read: forward past what was read, or wherever you like.

        Raises:
            ValueError: the partition is not assigned, or the offset is negative or no whole number.
        """
        self._positions.seek(partition, offset)

    @by_one_thread
    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Leave partitions out of what poll() returns; they stay this member's.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._positions.pause(partitions, is_paused=True)

    @by_one_thread
    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Have poll() return partitions again.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._positions.pause(partitions, is_paused=False)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._positions.paused()

    # Commits

    @by_one_thread
    def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        asynchronous: bool = False,
        on_done: OnDone | None = None,
        timeout_s: float | None = None,
    ) -> None:
        """Store offsets; without any, the positions of all assigned partitions.

        Args:
            offsets: the next offset to read, by partition.
            asynchronous: do not wait; the outcome, whatever it is, goes to on_done in a later poll(), commit(),
                unsubscribe() or close(). Without on_done a failure is only logged.
            on_done: called with the offsets and None, or the error; only with asynchronous.
            timeout_s: how long to keep trying (None: api_timeout_ms); only without asynchronous.

        Raises:
            CommitFailed: the group has moved on; the partitions may be another's. Do not repeat it; poll().
            RebalanceInProgress: poll(), then commit what is still assigned.
            OffsetsRefused: single partitions were refused, the others are stored.
            FencedInstanceId: another process has taken the instance id over.
            RetryError: not answered in time; it may be repeated, and may be stored already.
            ValueError: an offset that is negative or no whole number.
            Exception: whatever on_done or end_offset_of raised.
        """
        self._check_open()
        wanted = self._positions.all() if offsets is None else _as_offsets(offsets)
        if asynchronous and wanted:
            self._commits.later(wanted, on_done)
        elif wanted:
            try:
                self._commits.now(wanted, self._deadline_ms(timeout_s))
            finally:
                self._commits.tell()

    @by_one_thread
    def committed(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """Return what the group has committed for partitions (None: those assigned); None where nothing is.

        Args:
            partitions: of any topic.
            timeout_s: how long to keep trying (None: api_timeout_ms).

        Raises:
            RetryError: not answered in time.
        """
        self._check_open()
        wanted = sorted(self._positions.owned() if partitions is None else partitions)
        return self._session.committed(self._lane, wanted, self._deadline_ms(timeout_s), lambda: False)

    # Behind them

    def _deadline_ms(self, timeout_s: float | None) -> int:
        """Return when a call that begins now has to be over; None: when api_timeout_ms is."""
        if timeout_s is None:
            return self._clock.now_ms() + self._timing.api_timeout_ms
        if isnan(timeout_s):
            raise ValueError("timeout_s is a number of seconds, and not nan")
        return self._clock.now_ms() + int(min(timeout_s, FOR_EVER_S) * 1000)

    def _keep_house(self) -> None:
        """Do all that is due and needs no waiting."""
        self._commits.tell()
        self._watch_counts()
        self._rebalancer.drive()
        self._commits.automatically()
        self._commits.report_log_ends()
        self._positions.reset(self._positions.owned(), self._auto_offset_reset)

    def _wait(self, deadline_ms: int) -> bool:
        """Wait until there is something to do or the deadline; tell which. Waiting here counts as polling."""
        watch_at_ms = self._next_watch_at_ms if self._rebalancer.leads_by is not None else None
        wakes = (self._rebalancer.wakes_at_ms(), self._commits.wakes_at_ms(), watch_at_ms)
        wake_at_ms = min([deadline_ms, *(each for each in wakes if each is not None)])
        self._polled(is_polling=True)
        try:
            self._session.wait_until(wake_at_ms, self._has_work)
        finally:
            self._polled()
        return self._clock.now_ms() < deadline_ms and not self._is_woken

    def _has_work(self) -> bool:
        return self._is_woken or self._rebalancer.has_work() or self._commits.has_outcomes()

    def _polled(self, *, is_polling: bool = False) -> None:
        with self._session.changed:
            self._session.is_polling = is_polling
            self._session.polled_at_ms = self._clock.now_ms()

    def _watch_counts(self) -> None:
        """Rejoin, as the group's leader, when the partition counts are no longer those it assigned by."""
        now_ms = self._clock.now_ms()
        known = self._rebalancer.leads_by
        if known is None or now_ms < self._next_watch_at_ms:
            return
        self._next_watch_at_ms = now_ms + self._timing.metadata_max_age_ms
        try:
            counts = self._counts.of(self._lane, known)
        except AgentError as error:
            log.debug("partition counts could not be asked for: %s", error)
            return
        if counts != known:
            self._rebalancer.want_join("partition counts have changed")

    def _commit_before_revoking(self) -> None:
        self._commits.before_giving_up(self._clock.now_ms() + self._timing.request_timeout_ms)

    def _go(self, deadline_ms: int, reason: str) -> None:
        """Give everything back and leave; each step is taken whatever the caller's own functions raised before it."""
        with ExitStack() as steps:  # the last one first
            steps.callback(self._leave, reason, deadline_ms)
            steps.callback(self._commits.settle, deadline_ms)
            steps.callback(self._rebalancer.hand_back)
            steps.callback(self._commits.settle, deadline_ms)
            self._commits.before_giving_up(deadline_ms)

    def _leave(self, reason: str, deadline_ms: int) -> None:
        """Be nobody from here on, and tell the coordinator so unless the member is static."""
        self._rebalancer.abandon()
        with self._session.changed:
            member_id = self._session.membership.identity.member_id
            self._session.membership.leave()
        if not member_id or self._is_static:
            return

        def ask() -> None:
            timeout_ms = self._session.answer_timeout_ms(deadline_ms)
            self._session.api.leave(self._lane, member_id, reason, timeout_ms=timeout_ms)

        try:
            self._session.until_answered(ask, deadline_ms, lambda: False)
        except AgentError as error:
            log.info("the leave was not answered, so the session has to expire: %s", error)

    def _check_open(self) -> None:
        if self._session.is_closed:
            raise AgentClosed("this agent is closed; make another one")


def _checked_api(group_id: str, group_instance_id: str | None) -> GroupApi:
    check_name("group id", group_id, MAX_GROUP_ID_LENGTH)
    if group_instance_id is not None:
        check_name("group_instance_id", group_instance_id, MAX_CLIENT_ID_LENGTH)
    return GroupApi(group_id, group_instance_id)


def _checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise ValueError(f"topics is a collection of names, and not the string {topics!r}")
    return tuple(sorted({check_name("topic", topic, MAX_TOPIC_LENGTH) for topic in topics}))


def _check_reset(to: str, end_offset_of: EndOffsetOf | None) -> None:
    if to not in get_args(OffsetReset):
        raise ValueError(f"auto_offset_reset is one of {', '.join(get_args(OffsetReset))}, and not {to!r}")
    if to == "latest" and end_offset_of is None:
        raise ValueError("auto_offset_reset 'latest' needs end_offset_of, since Muster does not hold the records")


def _default_client_id(group_id: str) -> str:
    """Return Kafka's default: the group's name and a number."""
    return f"consumer-{group_id}"[: MAX_CLIENT_ID_LENGTH - 10] + f"-{next(_numbers)}"


def _as_offsets(offsets: Mapping[TopicPartition, int | OffsetAndMetadata]) -> dict[TopicPartition, OffsetAndMetadata]:
    wanted = {(each := TopicPartition(*named)): _as_offset(each, offset) for named, offset in offsets.items()}
    negative = [partition for partition, offset in wanted.items() if offset.offset < 0]
    if negative:
        raise ValueError(f"an offset is 0 or more; that of {negative[0]} is {wanted[negative[0]].offset}")
    return wanted


def _as_offset(partition: TopicPartition, offset: int | OffsetAndMetadata) -> OffsetAndMetadata:
    """Return the offset with nothing in it but what can stand in a request."""
    if not isinstance(offset, OffsetAndMetadata):
        return OffsetAndMetadata(whole_number(f"the offset of {partition}", offset))
    end = offset.log_end_offset
    return replace(
        offset,
        offset=whole_number(f"the offset of {partition}", offset.offset),
        leader_epoch=whole_number(f"the leader_epoch of {partition}", offset.leader_epoch),
        log_end_offset=None if end is None else whole_number(f"the log_end_offset of {partition}", end),
    )
