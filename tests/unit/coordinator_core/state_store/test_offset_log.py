"""A commit that no column can hold is refused before it is in the offset log."""

import pytest

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.state_store.offset_log import InvalidCommit, LoggedCommits, decode, encode, join, minute_ms

AT_MS = 1_764_000_000_000


def logged(
    group_id: str = "g",
    member_id: str = "m",
    topic: str = "t",
    metadata: str = "",
    partition: int = 0,
    offset: int = 7,
    expires_at_ms: int | None = None,
) -> LoggedCommits:
    offsets = (OffsetToCommit("t", 1, 7), OffsetToCommit(topic, partition, offset, -1, metadata))
    return LoggedCommits(0, group_id, (OffsetsCommitted(AT_MS, member_id, expires_at_ms, offsets),))


def test_what_is_encoded_is_decoded() -> None:
    commits = [logged(), logged("h", metadata="m")]
    encoded = [encode(each) for each in commits]
    assert [each.commits for each in encoded] == commits
    assert decode(join([each.data for each in encoded])) == tuple(commits)


def test_what_is_known_of_commits_without_decoding_them() -> None:
    commits = LoggedCommits(0, "g", (*logged(topic="u", metadata="abc").records, *logged(partition=5).records))
    known = encode(commits)
    assert (known.group_id, known.place, known.offset_count, known.metadata_chars) == ("g", None, 4, 3)
    assert known.place == commits.place
    one_record = logged(topic="u")
    assert encode(one_record).place == one_record.place == (minute_ms(AT_MS), ("t", "u"), (1, 0))


@pytest.mark.parametrize("name", ["group_id", "member_id", "topic", "metadata"])
def test_text_with_a_nul_is_refused(name: str) -> None:
    with pytest.raises(InvalidCommit, match="NUL"):
        encode(logged(**{name: "a\0b"}))  # type: ignore[arg-type]  # all of them are texts


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("partition", -1),
        ("partition", 2**31),
        ("offset", -1),
        ("offset", 2**63),
        ("offset", 2**64),
        ("expires_at_ms", 2**62),
        ("metadata", "\ud800"),
    ],
)
def test_value_that_does_not_fit_its_column_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidCommit, match="cannot be stored"):
        encode(logged(**{name: value}))  # type: ignore[arg-type]  # of the parameter's type
