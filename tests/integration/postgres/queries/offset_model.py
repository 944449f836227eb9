"""What queries of committed offsets and log ends should return, computed from the commits and reports of a test."""

from collections import defaultdict
from itertools import groupby
from typing import TypeVar

from coordinator_core.protocol.log_ends import (
    LogEnd,
    latest_log_end,
    monotonic_log_ends,
    reported_log_end,
)
from coordinator_core.protocol.retention import NO_GROUP
from coordinator_core.queries.committed_offsets import (
    COARSE_FACTOR,
    GroupOffsets,
    LaggingOffset,
    PartitionOffset,
    PastLogEnd,
    PastOffset,
    TimeRange,
)
from coordinator_core.queries.offset_totals import OffsetTotal
from tests.support.log_ends import relevant_log_ends

Past = TypeVar("Past", PastOffset, PastLogEnd)
MINUTE_MS = 60_000


class OffsetModel:
    """The offsets of one group in one topic; every commit and report is at the start of a minute."""

    def __init__(self, group_id: str, topic: str) -> None:
        self.group_id = group_id
        self.topic = topic
        self._commits: dict[int, dict[int, tuple[int, int | None]]] = defaultdict(dict)
        """Partition → time → the last offset committed then, and the end that came with it."""
        self._trusted: list[LogEnd] = []
        """The log ends of partition 0 from trusted reporters, the last of each minute."""

    def commit(self, partition: int, offset: int, end: int | None, at_ms: int) -> None:
        """Commit an offset."""
        self._commits[partition][at_ms] = (offset, end)

    def report(self, offset: int, at_ms: int | None) -> None:
        """Report a log end of partition 0; without a time, only if one is known."""
        if not self._trusted:
            self._trusted += [] if at_ms is None else [LogEnd(at_ms, offset)]
            return
        before = self._trusted[-1]
        if offset < before.offset:
            return
        if at_ms is None or before.at_ms == at_ms:
            self._trusted.pop()
        self._trusted.append(LogEnd(max(before.at_ms, at_ms or 0), offset))

    def group_offsets(self, since_ms: int) -> GroupOffsets:
        """Return what `read_group_offsets` should return."""
        found = [
            PartitionOffset(
                self.topic, partition, None, None, offset, at_ms, None, tuple(self._ends(partition, offset, since_ms))
            )
            for partition in sorted(self._commits)
            for at_ms, (offset, _) in [self._present(partition)]
        ]
        return GroupOffsets(NO_GROUP, found)

    def lagging(self, since_ms: int) -> list[LaggingOffset]:
        """Return what `read_lagging` should return of the group."""
        return [
            LaggingOffset(self.group_id, each.topic, each.partition, each.offset, each.ends)
            for each in self.group_offsets(since_ms).partitions
            if each.offset is not None and each.ends and each.ends[-1].offset > each.offset
        ]

    def totals(self, fresh_since_ms: int) -> list[OffsetTotal]:
        """Return what `read_offset_totals` should return of the group, whose only partition is 0."""
        if not self._commits:
            return []
        at_ms, (offset, end) = self._present(0)
        known = latest_log_end(reported_log_end(offset, end, at_ms), *self._trusted[-1:])
        lag = None if known is None else max(0, known.offset - offset)
        is_unknown = known is not None and not lag and known.at_ms < fresh_since_ms
        return [
            OffsetTotal(
                self.group_id, self.topic, None, 1, offset, None if is_unknown else lag, at_ms, known and known.at_ms
            )
        ]

    def past_offsets(self, time_range: TimeRange) -> list[PastOffset]:
        """Return what `read_past_offsets` should return."""
        found = []
        for partition, commits in sorted(self._commits.items()):
            every = [
                PastOffset(self.topic, partition, at_ms, offset, None if end is None else max(end, offset))
                for at_ms, (offset, end) in commits.items()
            ]
            before = [each for each in every if each.at_ms < time_range.from_ms]
            within = [each for each in every if time_range.from_ms <= each.at_ms < time_range.until_ms]
            found += [*before[-1:], *within]
        return _last_of_each_step(found, time_range)

    def past_log_ends(self, time_range: TimeRange) -> list[PastLogEnd]:
        """Return what `read_past_log_ends` should return."""
        ends = self._trusted if self._commits else []
        found = [PastLogEnd(self.topic, 0, *end) for end in ends if end.at_ms < time_range.until_ms]
        past = [
            each
            for each in found
            if each.at_ms >= time_range.from_ms or each == found[-1] == PastLogEnd(self.topic, 0, *ends[-1])
        ]
        return _last_of_each_step(past, time_range)

    def _present(self, partition: int) -> tuple[int, tuple[int, int | None]]:
        return list(self._commits[partition].items())[-1]

    def _ends(self, partition: int, offset: int, since_ms: int) -> list[LogEnd]:
        at_ms, (_, end) = self._present(partition)
        trusted: list[LogEnd] = []
        if partition == 0:
            trusted = [each for each in self._trusted[:-1] if each.at_ms >= since_ms] + self._trusted[-1:]
        known = latest_log_end(reported_log_end(offset, end, at_ms), *trusted[-1:])
        own: list[LogEnd] = []
        if end is not None and known is not None:
            reported = [
                reported_log_end(*commit, reported_ms)
                for reported_ms, commit in self._commits[partition].items()
                if reported_ms >= since_ms or reported_ms == at_ms
            ]
            own = [each for each in reported if each is not None and each.offset <= known.offset]
        return monotonic_log_ends([*relevant_log_ends(own, offset), *relevant_log_ends(trusted, offset)])


def _last_of_each_step(in_order: list[Past], time_range: TimeRange) -> list[Past]:
    def step_of(one: Past) -> tuple[int, bool, int]:
        is_coarse = one.at_ms < time_range.coarse_until_ms
        step_ms = time_range.step_ms * (COARSE_FACTOR if is_coarse else 1)
        return one.partition, is_coarse, one.at_ms // step_ms

    return [list(same)[-1] for _, same in groupby(in_order, step_of)]
