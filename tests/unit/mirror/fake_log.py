"""The log of a cluster in memory: each partition is a list of records, of which some may be gone."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from uuid import UUID

from mirror.group_records import GroupRecord
from mirror.kafka_log import Bounds, KafkaUnavailable, Lag, LogChanged
from mirror.observed import Observed
from tests.unit.mirror.encoded import LogRecord, record

BATCH = 3


class FakeLog:
    """A log that a mirror reads; `say` appends to it."""

    def __init__(self, partitions: int = 1) -> None:
        self.failure: str | None = None
        """Why it cannot be reached."""
        self.error: Exception | None = None
        """What is raised that no reader of a log should raise."""
        self.topics: dict[UUID, str] = {}
        """The names of the topics."""
        self.without_leader: set[int] = set()
        """Partitions that are not read."""
        self._records: dict[int, list[LogRecord]] = {number: [] for number in range(partitions)}
        self._starts = dict.fromkeys(self._records, 0)
        self._ends = dict.fromkeys(self._records, 0)
        self._transactions: dict[int, int] = {}
        """Where a transaction is open: what follows it is hidden."""
        self._positions: dict[int, int] = {}
        self._ends_held: tuple[asyncio.Event, asyncio.Event] | None = None
        self.connections = 0
        """How often it was connected to."""
        self.idle_polls = 0
        """How many polls of all partitions have found nothing."""

    def say(self, at_ms: int, seen: Observed | GroupRecord, partition: int = 0) -> None:
        """Append what the broker would write."""
        self._records[partition].append(record(self._ends[partition], at_ms, seen))
        self._ends[partition] += 1

    def say_bytes(self, key: bytes, value: bytes, partition: int = 0) -> None:
        """Append a record with any bytes."""
        self._records[partition].append(LogRecord(self._ends[partition], 0, key, value))
        self._ends[partition] += 1

    def skip(self, partition: int = 0) -> None:
        """Append what readers do not see, such as the end of a transaction."""
        self._ends[partition] += 1

    def begin_transaction(self, partition: int = 0) -> None:
        """Hide what follows until the transaction ends."""
        self._transactions[partition] = self._ends[partition]
        self.skip(partition)

    def end_transaction(self, partition: int = 0) -> None:
        """Show what has followed the transaction."""
        del self._transactions[partition]
        self.skip(partition)

    def recreate(self, partition: int = 0) -> None:
        """Delete all records, and begin at 0 again."""
        self._records[partition].clear()
        self._starts[partition] = self._ends[partition] = 0

    def truncate(self, count: int, partition: int = 0) -> None:
        """Lose the last records, as after an unclean election."""
        del self._records[partition][-count:]
        self._ends[partition] -= count

    def delete_records(self, before: int, partition: int = 0) -> None:
        """Delete the records before an offset."""
        self._records[partition] = [each for each in self._records[partition] if each.offset >= before]
        self._starts[partition] = before

    def compact(self, partition: int = 0) -> None:
        """Keep the last record of each key."""
        last = {each.key: each for each in self._records[partition]}
        self._records[partition] = sorted(last.values(), key=lambda each: each.offset)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator["FakeLog"]:
        """Connect."""
        self._check()
        self.connections += 1
        yield self

    def assign(self, next_offsets: Mapping[int, int]) -> None:
        """Read these partitions."""
        self._positions = dict(next_offsets)

    def offline(self, partitions: Collection[int]) -> set[int]:
        """Return those of these partitions that have no leader."""
        return self.without_leader.intersection(partitions)

    async def bounds(self, partitions: Collection[int]) -> dict[int, Bounds]:
        """Return where the logs of partitions begin and end, which those without a leader do not answer."""
        self._check()
        assert not self.offline(partitions)
        return {number: Bounds(self._starts[number], self._readable_end(number)) for number in partitions}

    def hold_ends(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold the next answer about log ends; return an event that says it was asked for, and one that releases it."""
        self._ends_held = asyncio.Event(), asyncio.Event()
        return self._ends_held

    async def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Return where the logs of partitions end, with what transactions hide."""
        self._check()
        found = {number: self._ends[number] for number in partitions if number not in self.without_leader}
        if found and self._ends_held is not None:
            (is_asked, may_answer), self._ends_held = self._ends_held, None
            is_asked.set()
            await may_answer.wait()
        return found

    async def topic_names(self, topic_ids: Collection[UUID]) -> dict[UUID, str]:
        """Return the names of topics."""
        self._check()
        return {topic_id: self.topics[topic_id] for topic_id in topic_ids if topic_id in self.topics}

    async def poll(self, timeout_ms: int) -> Mapping[int, Sequence[LogRecord]]:
        """Return some records; the timeout is no longer than a turn of the event loop."""
        del timeout_ms
        await asyncio.sleep(0)
        self._check()
        found: dict[int, list[LogRecord]] = {}
        for number, position in self._positions.items():
            if number in self.without_leader:
                continue
            end = self._readable_end(number)
            if not self._starts[number] <= position <= end:
                raise LogChanged([number])
            some = [each for each in self._records[number] if position <= each.offset < end][:BATCH]
            self._positions[number] = some[-1].offset + 1 if len(some) == BATCH else end
            if some:
                found[number] = some
        ends = {number: self._readable_end(number) for number in self._ends.keys() - self.without_leader}
        self.idle_polls += not found and self._positions == ends
        return found

    async def position(self, partition: int) -> int:
        """Return the offset that is read next."""
        return self._positions[partition]

    async def lag(self) -> dict[int, Lag]:
        """Return how many offsets are left to read."""
        return {
            number: Lag(self._ends[number] - position, self._readable_end(number) - position)
            for number, position in self._positions.items()
        }

    def _readable_end(self, partition: int) -> int:
        return self._transactions.get(partition, self._ends[partition])

    def _check(self) -> None:
        if self.failure is not None:
            raise KafkaUnavailable(self.failure)
        if self.error is not None:
            raise self.error
