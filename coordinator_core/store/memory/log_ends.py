"""Log ends from trusted reporters in memory, for all groups."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from coordinator_core.protocol.log_ends import LogEnd
from coordinator_core.store.committed_offsets import PastLogEnd, TimeRange, last_of_each_step
from coordinator_core.store.dirty_offsets import MINUTE_MS
from coordinator_core.store.log_ends import NEVER_REPORTED_MS, LogEndReport

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _Known:
    """A row of `log_end_offsets`, with the rows of `log_end_history` since its first report."""

    end: LogEnd
    history: dict[int, LogEnd] = field(default_factory=dict)

    def all(self) -> list[LogEnd]:
        return [*(end for _, end in sorted(self.history.items())), self.end]


class LogEnds:
    """All log ends."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, _Known] = {}

    def report(self, reports: Iterable[LogEndReport]) -> list[int]:
        """Store reports; return the times of log ends that were added to history."""
        gone_at_ms = []
        for topic, partition, offset, at_ms in reports:
            known = self._known.get((topic, partition))
            if known is None and at_ms != NEVER_REPORTED_MS:
                self._known[topic, partition] = _Known(LogEnd(at_ms, offset))
            elif known is not None and self._renew(known, LogEnd(at_ms, offset)):
                gone_at_ms.append(max(known.history))
        return gone_at_ms

    def _renew(self, known: _Known, given: LogEnd) -> bool:
        """Store a report; return whether the previous log end was added to history."""
        before = known.end
        is_over = before.at_ms < given.at_ms - given.at_ms % MINUTE_MS
        if is_over:
            known.history[before.at_ms] = before
        if given.offset >= before.offset:
            known.end = LogEnd(max(before.at_ms, given.at_ms), given.offset)
        return is_over

    def delete(self, topic: str, partition: int | None = None) -> dict[int, LogEnd]:
        """Delete the log ends of a topic, or of one partition; return them."""
        keys = [key for key in self._known if key[0] == topic and partition in {None, key[1]}]
        return {key[1]: self._known.pop(key).end for key in keys}

    def present(self, topics: Sequence[str]) -> dict[TopicPartition, LogEnd]:
        """Return the highest log end of each partition of these topics."""
        return {key: known.end for key, known in sorted(self._known.items()) if key[0] in topics}

    def present_of(self, key: TopicPartition) -> LogEnd | None:
        """Return the highest log end of a partition."""
        known = self._known.get(key)
        return None if known is None else known.end

    def since(self, key: TopicPartition, since_ms: int) -> list[LogEnd]:
        """Return a partition's log ends by time: those reported since `since_ms`, and the current one."""
        known = self._known.get(key)
        if known is None:
            return []
        return [*(end for end in known.all()[:-1] if end.at_ms >= since_ms), known.end]

    def past(self, partitions: Iterable[TopicPartition], time_range: TimeRange) -> list[PastLogEnd]:
        """Return the last log end of each partition and step."""
        found = [
            PastLogEnd(*key, end.at_ms, end.offset)
            for key in sorted(partitions)
            for end in self.since(key, time_range.from_ms)
            if end.at_ms < time_range.until_ms
        ]
        return last_of_each_step(found, time_range)
