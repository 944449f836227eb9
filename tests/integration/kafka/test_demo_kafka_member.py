"""The demonstration consumer that is a Kafka client stays in its group."""

import asyncio
import contextlib
from argparse import Namespace
from functools import partial

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types

from muster.local import demo_kafka_member
from tests.support.http_client import SHARED_TOPIC, Client
from tests.support.nodes import Node
from tests.support.waiting import poll_until

MAX_POLL_INTERVAL_MS = 1_500
COMMITS = 4
"""So many, one a second, take longer than the poll interval, and the heartbeat after it."""


def test_member_that_commits_for_longer_than_its_poll_interval_is_still_a_member(
    kafka_node: Node, group_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    impatient = partial(AIOKafkaConsumer, max_poll_interval_ms=MAX_POLL_INTERVAL_MS, heartbeat_interval_ms=500)
    monkeypatch.setattr(demo_kafka_member, "AIOKafkaConsumer", impatient)
    address = kafka_node.settings.kafka_address
    options = Namespace(bootstrap=address, group=group_id, topic=SHARED_TOPIC, client_id="labels-1")

    async def consume_for_some_commits() -> list[str]:
        consuming = asyncio.create_task(demo_kafka_member._consume(options))
        with contextlib.closing(Client(kafka_node.url)) as client:
            group = client.group(group_id)
            seen: set[str] = set()

            def has_committed_often() -> bool:
                offsets = client.ok("GET", f"{group.path}/offsets")["offsets"]
                seen.update(each["committed_at"] for each in offsets)
                return len(seen) >= COMMITS

            await asyncio.to_thread(poll_until, has_committed_often)
            members = [each["client_id"] for each in group.describe()["members"]]
        consuming.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await consuming
        return members

    assert [name.startswith("labels-1") for name in asyncio.run(consume_for_some_commits())] == [True]
