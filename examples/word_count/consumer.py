"""One consumer of the group: it counts the words of the files that are its own at this moment.

Everything that concerns the group is in the callbacks and in `run`; the rest is reading files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent import ConsumerAgent, RejoinError, RetryError, TopicPartition
from examples.word_count.counts import Counts
from examples.word_count.topic import Topic

IDLE_S = 0.5
"""How long to wait for new lines; a rebalance ends the wait."""

COMMIT_TIMEOUT_S = 5.0
"""How long a commit may take, and so how much later than asked for `run` may end."""


class WordCounter:
    """A member of the group `group_id` that counts until `stop`.

    Args:
        is_from_start: count every file anew when this consumer is first given it.
    """

    def __init__(
        self, urls: Sequence[str], group_id: str, topic: Topic, session_timeout_ms: int, *, is_from_start: bool
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
            session_timeout_ms=session_timeout_ms,
            on_assigned=self._take_over,
            on_revoked=self._give_back,
            on_lost=self._give_back,
            partitions_of=lambda _: topic.partitions,
            end_offset_of=lambda partition: topic.end(partition.partition),
        )

    def stop(self) -> None:
        """Let `run` come to its end; for signal handlers."""
        self._is_stopping = True
        self._agent.wakeup()

    def run(self) -> None:
        """Join, count, commit, and leave in the end.

        Raises:
            RequestError: the group cannot be joined so.
            UserError: a file of counts cannot be read.
        """
        with self._agent as agent:
            while not self._is_stopping:
                if not self._count(agent.poll(timeout_s=IDLE_S)):
                    agent.wait(timeout_s=IDLE_S)

    def _count(self, positions: Mapping[TopicPartition, int]) -> bool:
        """Count the next lines of each file, and tell whether there were any."""
        news = 0
        for partition, offset in positions.items():
            batch = self._topic.read(partition.partition, offset)
            if batch.lines:
                self._counts[partition].add(batch)
                self._agent.seek(partition, batch.end)
                news += len(batch.lines)
        if news:
            self._commit(news)
        return news > 0

    def _commit(self, news: int) -> None:
        try:
            self._agent.commit(timeout_s=COMMIT_TIMEOUT_S)
        except (RejoinError, RetryError) as problem:
            print(f"not committed, so whoever goes on looks into the counts: {problem}", flush=True)
        else:
            print(f"counted {news} lines", flush=True)

    def _take_over(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Go on where the counts end, which is where the group has committed or a little further."""
        for partition in partitions:
            counts = Counts.load(self._topic.path(partition.partition))
            if self._is_from_start and partition not in self._begun:
                counts = Counts(counts.path)
            self._begun.add(partition)
            self._counts[partition] = counts
            self._agent.seek(partition, counts.offset)
        self._say("owns", tuple(sorted(self._counts)))

    def _give_back(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Forget the counts: they are saved, and the next owner loads them. Some may never have been loaded."""
        for partition in partitions:
            self._counts.pop(partition, None)
        self._say("gives back", partitions)

    def _say(self, what: str, partitions: tuple[TopicPartition, ...]) -> None:
        names = " ".join(str(partition) for partition in partitions) or "nothing"
        print(f"generation {self._agent.generation}: {what} {names}", flush=True)
