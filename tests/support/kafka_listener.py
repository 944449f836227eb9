"""What tests of the Kafka listener do over the wire."""

from contextlib import closing
from datetime import timedelta
from http import HTTPStatus
from typing import Any, Final

from api.kafka.apis import APIS, ApiKey
from coordinator_core.protocol.errors import MemberIdRequired
from tests.support.http_client import Client
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import Node
from tests.support.waiting import poll_until

TOPIC: Final = "orders"
PARTITIONS: Final = 6
PATIENT: Final = timedelta(minutes=5)
"""A timeout that no test waits for."""
SUBSCRIPTION: Final = b"a subscription"
ASSIGNMENT: Final = b"an assignment"


def put_topic(node: Node, topic: str = TOPIC, partitions: int = PARTITIONS) -> None:
    """Set the number of partitions of a topic; a node that starts beside busy ones may be too late at first."""
    with closing(Client(node.url)) as client:

        def status_but_late() -> int | None:
            status = client.call("PUT", f"/v1/topics/{topic}", {"partitions": partitions}).status
            return None if status == HTTPStatus.SERVICE_UNAVAILABLE else status

        assert poll_until(status_but_late) == HTTPStatus.OK


def wait_until_ready(node: Node) -> None:
    """Wait until a node owns its shards: clients that ask before have to ask again."""
    client = Client(node.url)
    poll_until(lambda: client.call("GET", "/readyz").status == 200)
    client.close()


def wait_until_serving(node: Node) -> None:
    """Wait until a node that is alone serves every shard: it is ready with the first ones."""
    active = f'muster_num_shards{{state="active"}} {node.settings.shards}'
    client = Client(node.url)
    poll_until(lambda: active in client.call("GET", "/metrics").body.decode())
    client.close()


def join_alone(wire: KafkaWire, group_id: str, version: int = 9, **options: Any) -> str:  # noqa: ANN401  # fields of JoinGroup
    """Join a group as its only member and leader, sync, and return the member id; the generation is 1."""
    fields = {
        "group_id": group_id,
        "session_timeout": PATIENT,
        "rebalance_timeout": PATIENT,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
        **options,
    }
    answer = wire.call(ApiKey.JOIN_GROUP, version, **fields)
    if answer.error_code == MemberIdRequired.kafka_code:
        answer = wire.call(ApiKey.JOIN_GROUP, version, **{**fields, "member_id": answer.member_id})
    assert (answer.error_code, answer.leader) == (0, answer.member_id)
    assignments = [{"member_id": answer.member_id, "assignment": ASSIGNMENT}]
    synced = wire.call(
        ApiKey.SYNC_GROUP,
        5,
        group_id=group_id,
        generation_id=answer.generation_id,
        member_id=answer.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=assignments,
    )
    assert (synced.error_code, synced.assignment) == (0, ASSIGNMENT)
    return str(answer.member_id)


def versions(key: ApiKey) -> range:
    """Return the versions of an API."""
    return range(APIS[key].first, APIS[key].last + 1)


def commit(
    wire: KafkaWire,
    group_id: str,
    partition: int,
    offset: int,
    leader_epoch: int = -1,
    version: int = 9,
    topic: str = TOPIC,
    **who: Any,  # noqa: ANN401
) -> int:
    """Commit one offset, by default without a member; return the error code."""
    fields = {"generation_id_or_member_epoch": -1, "member_id": "", "retention_time": timedelta(milliseconds=-1), **who}
    offset_fields = {"committed_offset": offset, "committed_leader_epoch": leader_epoch, "committed_metadata": ""}
    topics = [{"name": topic, "partitions": [{"partition_index": partition, **offset_fields}]}]
    answer = wire.call(ApiKey.OFFSET_COMMIT, version, group_id=group_id, topics=topics, **fields)
    return int(answer.topics[0].partitions[0].error_code)


def committed(wire: KafkaWire, group_id: str, version: int, topics: Any) -> Any:  # noqa: ANN401
    """Fetch offsets of a group, and return the part of the response that has its topics."""
    asked = {"group_id": group_id, "topics": topics}
    answer = wire.call(ApiKey.OFFSET_FETCH, version, **asked, groups=[asked])
    return answer.groups[0] if version >= 8 else answer
