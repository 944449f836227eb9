"""The broker of the tests keeps its data when it is started again, and where it cannot be had a sentence says why."""

import asyncio
from pathlib import Path

import pytest

from tests.support.kafka_broker import KafkaBroker, KafkaUnavailable, fetch_jars
from tests.support.kafka_log import admin_client, create_topics


def test_a_broker_that_is_started_again_has_its_topics(kafka: KafkaBroker) -> None:
    asyncio.run(create_topics(kafka.bootstrap, {"kept": 1}))
    before = kafka.child.pid

    kafka.stop()
    kafka.start()

    assert kafka.child.pid != before
    assert "kept" in asyncio.run(_topics(kafka.bootstrap))


def test_jars_that_cannot_be_fetched_are_named(tmp_path: Path) -> None:
    with pytest.raises(KafkaUnavailable, match=r"the jars of org.apache.kafka:kafka_2.13:\S+ cannot be fetched"):
        fetch_jars("/bin/false", tmp_path / "kafka")
    assert list(tmp_path.iterdir()) == []


async def _topics(bootstrap: str) -> list[str]:
    async with admin_client(bootstrap) as admin:
        return list(await admin.list_topics())
