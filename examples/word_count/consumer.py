"""A consumer that counts the words of the files assigned to it.

The callbacks and `run` use the agent; the rest reads files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent import ConsumerAgent, RejoinError, RetryError, TopicPartition
from examples.word_count.access import Access
from examples.word_count.counts import Counts
from examples.word_count.topic import Topic

IDLE_S = 0.5
"""How long to wait for new lines; a rebalance ends the wait."""

COMMIT_TIMEOUT_S = 5.0
"""How long a commit may take, and so how long `run` may continue after `stop`."""


class WordCounter:
    """A member of the group `group_id` that counts until `stop`.

    Args:
        is_from_start: count every file from its start when it is first assigned to this consumer.
    """

    def __init__(
        self,
        urls: Sequence[str],
        access: Access,
        group_id: str,
        topic: Topic,
        session_timeout_ms: int,
        *,
        is_from_start: bool,
    ) -> None:
        self._topic = topic
        self._is_from_start = is_from_start
        self._begun: set[TopicPartition] = set()
        self._counts: dict[TopicPartition, Counts] = {}
        self._is_stopping = False
        self._agent = ConsumerAgent(
            urls,
            group_id,
            [topic.name],
            token=access.token,
            ssl_context=access.ssl_context,
            session_timeout_ms=session_timeout_ms,
            on_assigned=self._acquire,
            on_revoked=self._release,
            on_lost=self._release,
            partitions_of=lambda _: topic.partitions,
            end_offset_of=lambda partition: topic.end(partition.partition),
        )

    def stop(self) -> None:
        """Make `run` return; for signal handlers."""
        self._is_stopping = True
        self._agent.wakeup()

    def run(self) -> None:
        """Join the group, count and commit until `stop`, then leave.

        Raises:
            RequestError: the group cannot be joined.
            UserError: a file of counts cannot be read.
        """
        with self._agent as agent:
            while not self._is_stopping:
                if not self._count(agent.poll(timeout_s=IDLE_S)):
                    agent.wait(timeout_s=IDLE_S)

    def _count(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Count the next lines of each file; return whether there were any."""
        new_lines = 0
        for partition, offset in positions.items():
            batch = self._topic.read(partition.partition, offset)
            if batch.lines:
                self._counts[partition].add(batch)
                self._agent.seek(partition, batch.end)
                new_lines += len(batch.lines)
        if new_lines:
            self._commit(new_lines)
        return new_lines > 0

    def _commit(self, new_lines: int) -> None:
        try:
            self._agent.commit(timeout_s=COMMIT_TIMEOUT_S)
        except (RejoinError, RetryError) as problem:
            print(f"not committed; the counts are saved, and their owner continues from them: {problem}", flush=True)
        else:
            print(f"counted {new_lines} lines", flush=True)

    def _acquire(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Continue at the offset saved with the counts, which is the committed offset or a later one."""
        for partition in partitions:
            counts = Counts.load(self._topic.path(partition.partition))
            if self._is_from_start and partition not in self._begun:
                counts = Counts(counts.path)
            self._begun.add(partition)
            self._counts[partition] = counts
            self._agent.seek(partition, counts.offset)
        self._log("owns", tuple(sorted(self._counts)))

    def _release(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Drop the counts from memory; the next owner loads the saved ones. Some may never have been loaded."""
        for partition in partitions:
            self._counts.pop(partition, None)
        self._log("released", partitions)

    def _log(self, event: str, partitions: tuple[TopicPartition, ...]) -> None:
        names = " ".join(str(partition) for partition in partitions) or "nothing"
        print(f"generation {self._agent.generation}: {event} {names}", flush=True)
