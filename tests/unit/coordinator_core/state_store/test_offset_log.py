"""A commit that no column can hold is refused before it is in the offset log."""

import pytest

from coordinator_core.protocol.records import OffsetsCommitted
from coordinator_core.protocol.requests import OffsetToCommit
from coordinator_core.state_store.dirty_offsets import LoggedCommits
from coordinator_core.state_store.offset_log import InvalidCommit, decode, encode


def logged(
    group_id: str = "g", member_id: str = "m", topic: str = "t", metadata: str = "", partition: int = 0, offset: int = 7
) -> LoggedCommits:
    offsets = (OffsetToCommit("t", 1, 7), OffsetToCommit(topic, partition, offset, -1, metadata))
    return LoggedCommits(0, group_id, (OffsetsCommitted(1_764_000_000_000, member_id, None, offsets),))


def test_what_is_encoded_is_decoded() -> None:
    assert decode(encode([logged(), logged("h")])) == (logged(), logged("h"))


@pytest.mark.parametrize("name", ["group_id", "member_id", "topic", "metadata"])
def test_text_with_a_nul_is_refused(name: str) -> None:
    with pytest.raises(InvalidCommit, match="NUL"):
        encode([logged(), logged(**{name: "a\0b"})])  # type: ignore[arg-type]  # all of them are texts


@pytest.mark.parametrize(("partition", "offset"), [(-1, 7), (2**31, 7), (0, -1), (0, 2**63)])
def test_number_that_does_not_fit_its_column_is_refused(partition: int, offset: int) -> None:
    with pytest.raises(InvalidCommit, match="cannot be stored"):
        encode([logged(partition=partition, offset=offset)])
