"""What only some clients want: an end of metadata; and how refusals are logged."""

from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from structlog.testing import capture_logs

from api.kafka.apis import ApiKey
from api.kafka.messages import load_all
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from coordinator_core.runtime.coordinator import Coordinator
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.unit.api.kafka.wire import Wire
from tests.unit.coordinator_core.runtime.nodes import running, until

pytestmark = pytest.mark.anyio


@pytest.fixture
async def node() -> AsyncIterator[Coordinator]:
    load_all()
    async with running(MemoryStore()) as coordinator:
        yield coordinator


@pytest.fixture
async def wire(node: Coordinator) -> AsyncIterator[Wire]:
    wire = Wire(NodeContext(node, NO_QUERIES, ListenerLimits()))
    yield wire
    wire.close()


@pytest.mark.parametrize("topics", [None, [{"name": "t", "partition_indexes": (0, 1)}]], ids=["all", "named"])
@pytest.mark.parametrize(
    ("software", "read"), [("confluent-kafka-python", ["note\0", ""]), ("apache-kafka-java", ["note", ""])]
)
async def test_metadata_ends_as_the_client_reads_it(
    wire: Wire, software: str, read: list[str], topics: list[object] | None
) -> None:
    partitions = [
        {"partition_index": number, "committed_offset": 1, "committed_metadata": metadata}
        for number, metadata in enumerate(("note\0", ""))
    ]
    commit = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
    await wire.call(ApiKey.API_VERSIONS, 3, {"client_software_name": software, "client_software_version": "2.0"})
    await wire.call(ApiKey.OFFSET_COMMIT, 8, {**commit, "topics": [{"name": "t", "partitions": partitions}]})
    found = await wire.call(ApiKey.OFFSET_FETCH, 8, {"groups": [{"group_id": "g", "topics": topics}]})

    assert [each.metadata for each in found.groups[0].topics[0].partitions] == read


async def test_one_line_is_logged_for_a_request_whose_parts_are_refused(wire: Wire) -> None:
    deleted = [f"g{number}" for number in range(9)]
    with capture_logs() as lines:
        answer = await wire.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": deleted})
        await wire.call(ApiKey.DELETE_GROUPS, 2, {"groups_names": ["another"]})

    assert {each.error_code.name for each in answer.results} == {"group_id_not_found"}
    refused = [line for line in lines if line["event"] == "kafka_request_refused"]
    first, second = (line["group"] for line in refused)
    assert first in deleted, "they are deleted at once"
    assert second == "another"


@pytest.mark.parametrize("acks", [0, 1])
async def test_refused_records_are_logged_and_counted(node: Coordinator, acks: int) -> None:
    context = NodeContext(node, NO_QUERIES, ListenerLimits())
    wire = Wire(context)
    data = [{"name": "t", "partition_data": [{"index": 0, "records": b""}]}]
    fields = {"transactional_id": None, "acks": acks, "timeout": timedelta(seconds=1), "topic_data": data}
    with capture_logs() as lines:
        wire.send(ApiKey.PRODUCE, 9, fields)
        await until(lambda: bool(context.metrics.times_s), "the request is answered")
    wire.close()

    assert context.metrics.errors["Produce", "TOPIC_AUTHORIZATION_FAILED"] == 1
    assert [line["reason"] for line in lines] == ["a node has no records"]
