"""Dirty offsets are the last commits of their partitions, in whatever order they are added, taken and put back."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.protocol.retention import MINUTE_MS
from coordinator_core.state_store.dirty_offsets import CommitOrigin, DirtyOffsets
from coordinator_core.state_store.offset_log import EncodedCommits, LoggedCommits, encode

Key = tuple[str, str, int]
Entry = tuple[int, int]
"""When an offset was committed, and the minute of the first commit of its partition that the table lacks."""


class EachAlone:
    """The same offsets, of which each is added alone."""

    def __init__(self) -> None:
        self.commits: dict[Key, Entry] = {}
        self.superseded: list[tuple[Key, int]] = []

    def add(self, key: Key, at_ms: int) -> None:
        minute_ms = at_ms // MINUTE_MS * MINUTE_MS
        before = self.commits.get(key)
        if before is not None and before[0] < minute_ms:
            self.superseded.append((key, before[0]))
        self.commits[key] = at_ms, minute_ms if before is None else before[1]


def check(dirty: DirtyOffsets, alone: EachAlone) -> None:
    assert len(dirty) == len(alone.commits) + len(alone.superseded)
    found = {key: (commit.record.at_ms, commit.first_minute_ms) for key, (commit, _) in dirty.commits.items()}
    assert found == alone.commits
    for key, (commit, offset) in dirty.commits.items():
        assert key == (commit.group_id, offset.topic, offset.partition)
        assert offset in commit.record.offsets
        assert commit.origin == CommitOrigin(f"token {offset.offset}")
    superseded = [((it.group_id, one.topic, one.partition), it.record.at_ms) for it, one in dirty.superseded]
    assert sorted(superseded) == sorted(alone.superseded)
    assert len(dirty.all()) == len(dirty)


def as_loaded(commits: LoggedCommits) -> LoggedCommits:
    return commits


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("commit"),
            st.sampled_from("ggggh"),
            st.sampled_from([("t0", "t1"), ("t0", "t1"), ("t0", "t1"), ("t0", "t2"), ("t0",), ("t0", "t0")]),
            st.sampled_from([10, 10, 10, 10, 10, MINUTE_MS]),
            st.sampled_from([encode, encode, encode, as_loaded]),
        ),
        st.sampled_from([("read",), ("take",), ("begin",), ("put back",)]),
    ),
    min_size=10,
    max_size=25,
)


@given(STEPS)
@example([("commit", "g", ("t0", "t1"), later_ms, encode) for later_ms in (10, 10, MINUTE_MS)])
@example([("commit", "g", ("t0", "t1"), later_ms, as_loaded) for later_ms in (10, 10, MINUTE_MS)])
def test_last_commits_are_kept_whatever_was_committed_together(steps: list[tuple[Any, ...]]) -> None:
    dirty, under_way, alone, at_ms = DirtyOffsets(), DirtyOffsets(), EachAlone(), MINUTE_MS
    for version, step in enumerate(steps):
        match step:
            case ("commit", group_id, names, later_ms, encoded):
                at_ms += later_ms
                offsets = tuple(OffsetToCommit(name[0], int(name[1]), version) for name in names)
                before = dirty.size
                commits = LoggedCommits(0, group_id, (OffsetsCommitted(at_ms, "m", None, offsets),))
                grew = dirty.add(encoded(commits), version, CommitOrigin(f"token {version}"))
                assert dirty.size == before + grew == len(dirty)
                for topic, partition in {(one.topic, one.partition) for one in offsets}:
                    alone.add((group_id, topic, partition), at_ms)
            case ("begin",) if not under_way:
                under_way, dirty = dirty, under_way
            case ("take",) if not under_way:
                taken = dirty.take(2)
                for commit, one in taken.superseded:
                    alone.superseded.remove(((commit.group_id, one.topic, one.partition), commit.record.at_ms))
                for key, (commit, _) in taken.commits.items():
                    assert alone.commits.pop(key) == (commit.record.at_ms, commit.first_minute_ms)
            case ("read",) if not under_way:
                check(dirty, alone)
            case ("put back",):
                under_way.add_newer(dirty)
                under_way, dirty = DirtyOffsets(), under_way
            case _:
                pass  # while a checkpoint is under way
    under_way.add_newer(dirty)
    check(under_way, alone)


@pytest.mark.parametrize("encoded", [encode, as_loaded])
def test_repeated_commits_with_several_times_keep_the_last_of_each_minute(
    encoded: Callable[[LoggedCommits], LoggedCommits | EncodedCommits],
) -> None:
    dirty = DirtyOffsets()
    times_ms = (2 * MINUTE_MS, MINUTE_MS)  # a clock may be set back
    records = [OffsetsCommitted(at_ms, "m", None, (OffsetToCommit("t", 0, at_ms),)) for at_ms in times_ms]
    for version in (1, 2):
        dirty.add(encoded(LoggedCommits(0, "g", tuple(records))), version)
    assert [(commit.commit_version, one.offset) for commit, one in dirty.all()] == [(1, MINUTE_MS), (2, MINUTE_MS)]
