"""Log ends from trusted reporters in memory, for all groups."""

from collections.abc import Iterable, Sequence

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.protocol.retention import MINUTE_MS
from coordinator_core.state_store.log_ends import NEVER_REPORTED_MS, LogEndReport

TopicPartition = tuple[str, int]


class LogEnds:
    """All log ends."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, LogEnd] = {}

    def report(self, reports: Iterable[LogEndReport]) -> list[int]:
        """Store reports; return the times of log ends that were added to history."""
        past_at_ms = []
        for topic, partition, offset, at_ms in reports:
            before = self._ends.get((topic, partition))
            if before is None:
                if at_ms != NEVER_REPORTED_MS:
                    self._ends[topic, partition] = LogEnd(at_ms, offset)
                continue
            if before.at_ms < at_ms - at_ms % MINUTE_MS:
                past_at_ms.append(before.at_ms)
            if offset >= before.offset:
                self._ends[topic, partition] = LogEnd(max(before.at_ms, at_ms), offset)
        return past_at_ms

    def delete(self, topic: str, partition: int | None = None) -> dict[int, LogEnd]:
        """Delete the log ends of a topic, or of one partition; return them."""
        keys = [key for key in self._ends if key[0] == topic and partition in {None, key[1]}]
        return {key[1]: self._ends.pop(key) for key in keys}

    def present(self, topics: Sequence[str]) -> dict[TopicPartition, LogEnd]:
        """Return the highest log end of each partition of these topics."""
        return {key: end for key, end in sorted(self._ends.items()) if key[0] in topics}
