"""A commit is read by the layout of the last one only if it differs in its offsets alone, in every version."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from api.kafka.apis import APIS, ApiKey
from api.kafka.commits import CommitLayout, layout_of, read_offsets
from api.kafka.messages import SIZE_BYTES, decode, read_header
from tests.support.kafka_wire import frame

VERSIONS = range(APIS[ApiKey.OFFSET_COMMIT].first, APIS[ApiKey.OFFSET_COMMIT].last + 1)
TEXTS = st.text(max_size=200)
INT32 = st.integers(-(2**31), 2**31 - 1)
NUMBERS = st.integers(0, 2**31 - 1)
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), min_size=1, max_size=200)
OFFSETS = st.integers(0, 2**63 - 1)
PARTITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "partition_index": NUMBERS,
            "committed_offset": OFFSETS,
            "committed_leader_epoch": st.integers(-1, 2**31 - 1),
            "committed_metadata": st.none() | NAMES,
        }
    ),
    max_size=4,
)
COMMITS = st.fixed_dictionaries(
    {
        "group_id": TEXTS,
        "generation_id_or_member_epoch": INT32,
        "member_id": TEXTS,
        "group_instance_id": st.none() | TEXTS,
        "topics": st.lists(st.fixed_dictionaries({"name": NAMES, "partitions": PARTITIONS}), max_size=3),
    }
)


def request(version: int, commit: dict[str, Any]) -> bytes:
    return frame(ApiKey.OFFSET_COMMIT, version, "wire", **commit)[SIZE_BYTES:]


def layout(version: int, sent: bytes) -> CommitLayout | None:
    begin = read_header(sent).size
    return layout_of(decode(ApiKey.OFFSET_COMMIT, version, sent, begin, 1_000), version, sent, begin)


def with_offsets(commit: dict[str, Any], offsets: list[int]) -> dict[str, Any]:
    """Return a commit of the same partitions with other offsets."""
    left = iter(offsets)
    topics = [
        {**topic, "partitions": [{**one, "committed_offset": next(left)} for one in topic["partitions"]]}
        for topic in commit["topics"]
    ]
    return {**commit, "topics": topics}


@pytest.mark.parametrize("version", VERSIONS)
@given(commit=COMMITS, data=st.data())
def test_offsets_of_the_next_commit_are_read(version: int, commit: dict[str, Any], data: st.DataObject) -> None:
    count = sum(len(topic["partitions"]) for topic in commit["topics"])
    first = layout(version, request(version, commit))
    if count == 0:
        assert first is None
        return
    assert first is not None
    offsets = data.draw(st.lists(OFFSETS, min_size=count, max_size=count))
    following = request(version, with_offsets(commit, offsets))
    message = decode(ApiKey.OFFSET_COMMIT, version, following, read_header(following).size, 1_000)
    _, expected, _ = read_offsets(message, version)
    assert first.offsets(following) == tuple(expected)
    offsets[data.draw(st.integers(0, count - 1))] = -1
    assert first.offsets(request(version, with_offsets(commit, offsets))) is None


@pytest.mark.parametrize("version", VERSIONS)
@given(commit=COMMITS, data=st.data())
def test_a_request_that_differs_in_another_byte_is_not_read(
    version: int, commit: dict[str, Any], data: st.DataObject
) -> None:
    sent = request(version, commit)
    begin, first = read_header(sent).size, layout(version, sent)
    assume(first is not None)
    assert first is not None
    count = sum(len(topic["partitions"]) for topic in commit["topics"])
    negated = request(version, with_offsets(commit, [~one["committed_offset"] for one in all_partitions(commit)]))
    places = [place for place, (one, other) in enumerate(zip(sent, negated, strict=True)) if one != other]
    assert len(places) == 8 * count
    other = sorted(set(range(begin, len(sent))).difference(places))
    changed = bytearray(sent)
    changed[data.draw(st.sampled_from(other))] ^= data.draw(st.integers(1, 255))
    assert first.offsets(bytes(changed)) is None


def all_partitions(commit: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for topic in commit["topics"] for one in topic["partitions"]]


def test_a_frame_with_other_offsets_than_were_decoded_has_no_layout() -> None:
    commit = {
        "group_id": "g",
        "generation_id_or_member_epoch": 1,
        "member_id": "m",
        "topics": [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 5}]}],
    }
    sent = request(6, commit)
    begin = read_header(sent).size
    message = decode(ApiKey.OFFSET_COMMIT, 6, request(6, with_offsets(commit, [6])), begin, 1_000)
    assert layout_of(message, 6, sent, begin) is None
