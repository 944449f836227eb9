"""The responses that are encoded by hand are those of kio, byte by byte, in every version."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict

from api.kafka import hot_responses
from api.kafka.apis import APIS, ApiKey
from api.kafka.hot_responses import DescribedTopic
from api.kafka.messages import encode
from coordinator_core.protocol.responses import JoinGroupResponseMember

TEXTS = st.text(max_size=300)
NULLABLE_TEXTS = st.none() | TEXTS
INT32 = st.integers(-(2**31), 2**31 - 1)
CODES = st.sampled_from([-1, 0, 16, 25, 79])
DATA = st.binary(max_size=300)


def versions(key: ApiKey) -> range:
    """Return the versions of an API."""
    return range(APIS[key].first, APIS[key].last + 1)


MEMBERS = st.lists(st.builds(JoinGroupResponseMember, TEXTS, NULLABLE_TEXTS, DATA), max_size=3)
JOINED = st.fixed_dictionaries(
    {
        "generation": INT32,
        "protocol_type": NULLABLE_TEXTS,
        "protocol_name": NULLABLE_TEXTS,
        "leader": TEXTS,
        "skip_assignment": st.booleans(),
        "members": MEMBERS,
    }
)


@pytest.mark.parametrize("version", versions(ApiKey.JOIN_GROUP))
@given(code=CODES, member_id=TEXTS, joined=JOINED)
def test_join_group(version: int, code: int, member_id: str, joined: dict[str, Any]) -> None:
    name = joined["protocol_name"]
    values = {
        **joined,
        "error_code": code,
        "generation_id": joined["generation"],
        "protocol_name": name if version >= 7 else name or "",
        "member_id": member_id,
        "members": [asdict(each) for each in joined["members"]],
    }
    by_hand = hot_responses.join_group(version, code, member_id, **joined)
    assert by_hand == encode(ApiKey.JOIN_GROUP, version, values)


@pytest.mark.parametrize("version", versions(ApiKey.SYNC_GROUP))
@given(code=CODES, kind=NULLABLE_TEXTS, name=NULLABLE_TEXTS, assignment=DATA)
def test_sync_group(version: int, code: int, kind: str | None, name: str | None, assignment: bytes) -> None:
    values = {"error_code": code, "protocol_type": kind, "protocol_name": name, "assignment": assignment}
    by_hand = hot_responses.sync_group(version, code, kind, name, assignment)
    assert by_hand == encode(ApiKey.SYNC_GROUP, version, values)


@pytest.mark.parametrize("version", versions(ApiKey.HEARTBEAT))
@given(code=CODES)
def test_heartbeat(version: int, code: int) -> None:
    assert hot_responses.heartbeat(version, code) == encode(ApiKey.HEARTBEAT, version, {"error_code": code})


@pytest.mark.parametrize("version", versions(ApiKey.LEAVE_GROUP))
@given(code=CODES, members=st.lists(st.tuples(TEXTS, NULLABLE_TEXTS, CODES), max_size=3))
def test_leave_group(version: int, code: int, members: list[tuple[str, str | None, int]]) -> None:
    named = [{"member_id": one, "group_instance_id": two, "error_code": three} for one, two, three in members]
    by_hand = hot_responses.leave_group(version, code, members)
    assert by_hand == encode(ApiKey.LEAVE_GROUP, version, {"error_code": code, "members": named})


COMMITTED = st.lists(st.tuples(TEXTS, st.lists(st.tuples(INT32, CODES), max_size=3)), max_size=3)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
@given(topics=COMMITTED)
def test_offset_commit(version: int, topics: list[tuple[str, list[tuple[int, int]]]]) -> None:
    named = [
        {"name": topic, "partitions": [{"partition_index": one, "error_code": code} for one, code in errors]}
        for topic, errors in topics
    ]
    assert hot_responses.offset_commit(version, topics) == encode(ApiKey.OFFSET_COMMIT, version, {"topics": named})


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
@given(topics=st.lists(st.tuples(TEXTS, st.lists(INT32, max_size=200).map(tuple)), max_size=3))
def test_stored_offset_commit(version: int, topics: list[tuple[str, tuple[int, ...]]]) -> None:
    named = [{"name": topic, "partitions": [{"partition_index": one} for one in parts]} for topic, parts in topics]
    by_hand = hot_responses.stored_offset_commit(version, topics)
    assert by_hand == encode(ApiKey.OFFSET_COMMIT, version, {"topics": named})


FETCHED = st.lists(
    st.tuples(TEXTS, st.lists(st.tuples(INT32, st.integers(-1, 2**63 - 1), INT32, TEXTS, CODES), max_size=3)),
    max_size=3,
)


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
@given(group_id=TEXTS, code=CODES, topics=FETCHED)
def test_offset_fetch(version: int, group_id: str, code: int, topics: list[Any]) -> None:
    named = [
        {
            "name": topic,
            "partitions": [
                {
                    "partition_index": one,
                    "committed_offset": offset,
                    "committed_leader_epoch": epoch,
                    "metadata": text,
                    "error_code": error,
                }
                for one, offset, epoch, text, error in partitions
            ],
        }
        for topic, partitions in topics
    ]
    group = {"group_id": group_id, "topics": named, "error_code": code}
    values = {"groups": [group]} if version >= 8 else group
    assert hot_responses.offset_fetch(version, [(group_id, topics, code)]) == encode(
        ApiKey.OFFSET_FETCH, version, values
    )


WITHOUT_RECORDS = st.lists(st.tuples(INT32, CODES, st.integers(-(2**63), 2**63 - 1)), max_size=3)


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
@given(data=st.data())
def test_fetch(version: int, data: st.DataObject) -> None:
    names = TEXTS if version < 13 else st.none() | st.uuids()
    topics = data.draw(st.lists(st.tuples(names, WITHOUT_RECORDS), max_size=3))
    named = [
        {
            "topic": topic,
            "topic_id": topic,
            "partitions": [
                {
                    "partition_index": number,
                    "error_code": code,
                    "high_watermark": end,
                    "last_stable_offset": end,
                    "aborted_transactions": None,
                    "records": b"",
                }
                for number, code, end in partitions
            ],
        }
        for topic, partitions in topics
    ]
    assert hot_responses.fetch(version, topics) == encode(ApiKey.FETCH, version, {"responses": named, "session_id": 0})


TOPICS = st.lists(
    st.builds(DescribedTopic, NULLABLE_TEXTS, st.none() | st.uuids(), CODES, INT32, st.lists(INT32, max_size=200)),
    max_size=3,
)


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
@given(
    brokers=st.lists(st.tuples(INT32, TEXTS, INT32), max_size=3), cluster_id=NULLABLE_TEXTS, number=INT32, topics=TOPICS
)
def test_metadata(
    version: int, brokers: list[Any], cluster_id: str | None, number: int, topics: list[DescribedTopic]
) -> None:
    if version < 12:
        topics = [each._replace(name=each.name or "") for each in topics]
    described = [
        {
            "error_code": each.error_code,
            "name": each.name,
            "topic_id": each.topic_id,
            "topic_authorized_operations": each.authorized_operations,
            "partitions": [
                {
                    "partition_index": partition,
                    "leader_id": leader,
                    "leader_epoch": 0,
                    "replica_nodes": (leader,),
                    "isr_nodes": (leader,),
                }
                for partition, leader in enumerate(each.leaders)
            ],
        }
        for each in topics
    ]
    values = {
        "brokers": [{"node_id": one, "host": host, "port": port} for one, host, port in brokers],
        "cluster_id": cluster_id,
        "controller_id": number,
        "topics": described,
        "cluster_authorized_operations": number,
    }
    by_hand = hot_responses.metadata(
        version, brokers, cluster_id=cluster_id, controller_id=number, topics=topics, authorized_operations=number
    )
    assert by_hand == encode(ApiKey.METADATA, version, values)
