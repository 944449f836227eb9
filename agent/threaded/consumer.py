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

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self, Unpack

from agent.core.consumer import Consumer, ConsumerOptions, OnCommitComplete
from agent.core.runtime import run_blocking
from agent.partitions import OffsetAndMetadata, TopicPartition
from agent.threaded.runtime import ThreadRuntime


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
        partitions_of: returns the partition count of a topic that has no topic metadata (None: not known); called in
            another thread during a rebalance, and inside poll() every metadata_max_age_ms.
        end_offset_of: returns the log end offset of a partition (None: not known), from which Muster computes the lag.
            It is sent with commits. If a partition has no commit for log_end_report_interval_ms, poll() and wait()
            repeat its last one with the present log end offset, so that the lag of an idle consumer remains known.
        token: the bearer token, if the nodes require one, or a function that returns it: called before each request, by
            several threads, so that a new token takes effect without a new agent. It must not wait.
        ssl_context: trusted authorities and client certificate for https URLs; None: the system's authorities.
        runtime: time, threads and HTTP; for tests.
        **options: the arguments from client_id on; timeouts and limits of `agent.settings.Timing` are among them.

    Raises:
        ValueError: an argument is invalid; the message names it.
        TypeError: an unknown option; the message lists the known ones.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        group_id: str,
        topics: Iterable[str] = (),
        *,
        runtime: ThreadRuntime | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        self._runtime = runtime or ThreadRuntime()
        self._consumer = Consumer(self._runtime, base_url, group_id, topics, **options)

    # Membership

    def subscribe(self, topics: Iterable[str]) -> None:
        """Replace the subscription; the next poll() rejoins the group if it has changed.

        Raises:
            ValueError: no topic, or an invalid topic name.
        """
        self._consumer.subscribe(topics)

    def unsubscribe(self) -> None:
        """Revoke all partitions and leave the group; subscribe() and poll() rejoin it."""
        run_blocking(self._consumer.unsubscribe())

    def poll(self, timeout_s: float = 0.0) -> Mapping[TopicPartition, int]:
        """Take part in the group, and return the partitions to consume, sorted, each with the next offset to read.

        Returns at once if there are any, else waits for some until timeout_s or wakeup(). Call it at least every
        max_poll_interval_ms; otherwise the agent leaves the group. Three waits in the caller's thread can exceed
        timeout_s by request_timeout_ms each: for commits before and after on_revoked, and for the topic metadata every
        metadata_max_age_ms.

        Raises:
            RequestError: the group cannot be joined; FencedInstanceId is final, after others poll() tries again.
            NoOffsetForPartition: see auto_offset_reset; call seek().
            AgentClosed: close() was called.
            Exception: an error raised by a callback, partitions_of, end_offset_of or an assignor.
        """
        return run_blocking(self._consumer.poll(timeout_s))

    def wait(self, timeout_s: float) -> bool:
        """Wait while there is nothing to read; return True if poll() has work before timeout_s has passed.

        Unlike time.sleep() it ends when the group rebalances.
        """
        return run_blocking(self._consumer.wait(timeout_s))

    def wakeup(self) -> None:
        """Make the current or next poll() or wait() return at once; for any thread or signal handler."""
        self._consumer.wakeup()

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that this member owns."""
        return self._consumer.assignment()

    @property
    def generation(self) -> int:
        """The generation that this member is part of; -1 if none."""
        return self._consumer.generation

    @property
    def member_id(self) -> str:
        """The member id that the coordinator issued; "" if none."""
        return self._consumer.member_id

    def close(self, timeout_s: float = 5.0) -> None:
        """Revoke the partitions, leave the group unless the member is static, and end all threads.

        Commits only if enable_auto_commit is on. If the coordinator does not answer within timeout_s, in which the time
        of on_revoked and on_lost does not count, the member is evicted when its session expires. A second call does
        nothing, and neither does a call in a fork of the process that uses the agent, since that has the member.

        Raises:
            Exception: an error raised by on_revoked or on_lost; the agent is closed nevertheless.
        """
        if not self._runtime.is_forked:
            run_blocking(self._consumer.close(timeout_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Positions

    def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record to read.

        Raises:
            ValueError: the partition is not assigned.
            NoOffsetForPartition: nothing is committed, and auto_offset_reset is "none".
        """
        return run_blocking(self._consumer.position(partition))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Set the offset of the next record to read.

        Raises:
            ValueError: the partition is not assigned, or the offset is negative or not a whole number.
        """
        self._consumer.seek(partition, offset)

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Exclude partitions from what poll() returns; the member keeps owning them.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._consumer.pause(partitions)

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Include paused partitions in what poll() returns again.

        Raises:
            ValueError: one of them is not assigned.
        """
        self._consumer.resume(partitions)

    def paused(self) -> frozenset[TopicPartition]:
        """Return the partitions that are paused."""
        return self._consumer.paused()

    # Commits

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
        run_blocking(
            self._consumer.commit(offsets, asynchronous=asynchronous, on_complete=on_complete, timeout_s=timeout_s)
        )

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
        return run_blocking(self._consumer.committed(partitions, timeout_s=timeout_s))
