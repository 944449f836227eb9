"""Reader of the log: a broker counts as silent only while records are wanted of it."""

import asyncio
import logging
import struct
from collections.abc import Iterator
from logging.handlers import BufferingHandler
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.consumer import fetcher  # type: ignore[import-untyped]  # comes without types
from aiokafka.record.memory_records import MemoryRecords  # type: ignore[import-untyped]  # comes without types
from aiokafka.record.util import calc_crc32c  # type: ignore[import-untyped]  # comes without types
from cryptography.hazmat.primitives import serialization

from mirror import kafka_log
from mirror.kafka_log import SILENT_MAX_S, TOPIC, KafkaConnection, KafkaLog, KafkaUnavailable, describe_cluster
from tests.support.certificates import Authority
from tests.support.ports import free_port

pytestmark = pytest.mark.anyio

FIRST, SECOND = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)
TRANSACTIONAL, CONTROL = 0x10, 0x20
LONG_S = SILENT_MAX_S + 5


class FakeConsumer:
    """A consumer that keeps what brokers have answered until it is polled, and asks for no more meanwhile."""

    def __init__(self, **_: object) -> None:
        self.now_s = 1_000_000.0
        self._fetcher = SimpleNamespace(_records={})
        self.leaders = {FIRST: 1, SECOND: 2}
        self.metadata_updates = 0
        self._cluster = SimpleNamespace(leader_for_partition=self.leaders.get, _last_refresh_ms=self.now_s * 1000)
        self._client = SimpleNamespace(cluster=self._cluster, force_metadata_update=self._update_metadata)
        self._answered_ms: dict[TopicPartition, int] = {}

    def assign(self, partitions: list[TopicPartition]) -> None:
        """Read partitions."""

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from an offset."""

    def answer(self, partition: TopicPartition, *records: object) -> None:
        """Receive the answer of a broker."""
        self._answered_ms[partition] = int(self.now_s * 1000)
        if records:
            self._fetcher._records[partition] = list(records)

    def _update_metadata(self) -> None:
        self.metadata_updates += 1
        self._cluster._last_refresh_ms = self.now_s * 1000

    async def getmany(self, **_: object) -> dict[TopicPartition, list[object]]:
        """Return the records of one partition."""
        kept = self._fetcher._records
        return {partition: kept.pop(partition) for partition in list(kept)[:1]}

    def partitions_for_topic(self, _: str) -> set[int]:
        """Return the partitions of the log."""
        return {0, 1}

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when the broker of a partition has answered last."""
        return self._answered_ms.get(partition)


@pytest.fixture
def consumer(monkeypatch: pytest.MonkeyPatch) -> FakeConsumer:
    fake = FakeConsumer()

    def consumer_of(**_: Any) -> FakeConsumer:  # noqa: ANN401 - as aiokafka's
        return fake

    monkeypatch.setattr(kafka_log, "AIOKafkaConsumer", consumer_of)
    monkeypatch.setattr(kafka_log, "time", lambda: fake.now_s)
    return fake


async def test_broker_is_not_silent_while_its_records_wait_to_be_applied(consumer: FakeConsumer) -> None:
    log = KafkaLog(KafkaConnection(bootstrap_servers="kafka:9092"))
    log.assign({0: 0, 1: 0})
    consumer.answer(FIRST, "a")
    consumer.answer(SECOND, "b")

    assert list(await log.poll(0)) == [0]
    consumer.now_s += LONG_S
    consumer.answer(FIRST)
    assert list(await log.poll(0)) == [1]
    consumer.now_s += SILENT_MAX_S / 2
    consumer.answer(FIRST)
    assert list(await log.poll(0)) == []


@pytest.mark.parametrize("has_answered", [True, False])
async def test_broker_that_does_not_answer_is_noticed_beside_one_that_does(
    consumer: FakeConsumer, has_answered: bool
) -> None:
    log = KafkaLog(KafkaConnection(bootstrap_servers="kafka:9092"))
    log.assign({0: 0, 1: 0})
    if has_answered:
        consumer.answer(SECOND)
    consumer.now_s += LONG_S
    consumer.answer(FIRST, "a")

    with pytest.raises(KafkaUnavailable, match="a broker has not answered for 15 s"):
        await log.poll(0)


async def test_leaders_are_asked_for_at_intervals_while_a_partition_has_none(consumer: FakeConsumer) -> None:
    log = KafkaLog(KafkaConnection(bootstrap_servers="kafka:9092"))
    consumer.leaders[SECOND] = -1
    assert [log.offline({0, 1}) for _ in range(2)] == [{1}, {1}]
    assert consumer.metadata_updates == 0
    consumer.now_s += 2
    assert [log.offline({0, 1}) for _ in range(2)] == [{1}, {1}]
    assert consumer.metadata_updates == 1
    consumer.leaders[SECOND] = 2
    assert log.offline({0, 1}) == set()


def test_control_batch_whose_marker_was_compacted_away_is_skipped() -> None:
    """Kafka keeps the batch, without a record, while the transactional producer may go on."""
    content = struct.pack(">hiqqqhii", TRANSACTIONAL | CONTROL, 0, 0, 0, 7, 0, -1, 0)
    batch = struct.pack(">ibI", 0, 2, calc_crc32c(content)) + content
    data = MemoryRecords(struct.pack(">qi", 5, len(batch)) + batch)
    records = fetcher.PartitionRecords(FIRST, data, [], 5, None, None, True, fetcher.READ_COMMITTED)

    assert list(records) == []
    assert records.next_fetch_offset == 6


async def test_log_with_another_number_of_partitions_is_a_reason(consumer: FakeConsumer) -> None:
    """Its groups have other partitions, of which the mirror would miss some."""
    assert await KafkaLog(KafkaConnection(bootstrap_servers="kafka:9092"), 2).poll(0) == {}

    with pytest.raises(KafkaUnavailable, match="__consumer_offsets has 2 partitions, and the database 4 shards"):
        await KafkaLog(KafkaConnection(bootstrap_servers="kafka:9092"), 4).poll(0)


@pytest.fixture
def logged() -> Iterator[list[logging.LogRecord]]:
    """Return what reaches the log of the process."""
    handler = BufferingHandler(100)
    logging.getLogger().addHandler(handler)
    yield handler.buffer
    logging.getLogger().removeHandler(handler)


async def test_reason_is_why_no_connection_was_made_and_the_library_logs_nothing(
    logged: list[logging.LogRecord],
) -> None:
    closed = f"127.0.0.1:{free_port()}"

    with pytest.raises(KafkaUnavailable) as failure:
        await describe_cluster(KafkaConnection(bootstrap_servers=closed))

    assert str(failure.value).startswith(f'KafkaConnectionError: Unable connect to "{closed}": [Errno 111]')
    assert not logged


async def test_reason_without_a_text_is_the_name_of_the_error() -> None:
    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)  # A connection that is closed with unread bytes is reset.
        writer.close()

    server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(KafkaUnavailable, match=rf'"127.0.0.1:{port}": ConnectionResetError$'):
        await describe_cluster(KafkaConnection(bootstrap_servers=f"127.0.0.1:{port}", security_protocol="SSL"))
    server.close()
    await server.wait_closed()


def test_unexpected_errors_of_the_library_are_logged(logged: list[logging.LogRecord]) -> None:
    try:
        raise ValueError
    except ValueError:
        logging.getLogger("aiokafka.consumer.fetcher").exception("Unexpected error in fetcher routine")

    assert [each.getMessage() for each in logged] == ["Unexpected error in fetcher routine"]


def test_encrypted_key_is_a_reason_and_no_question_at_the_terminal(tmp_path: Path) -> None:
    """The event loop would wait for its answer, at every connection."""
    certificate, encrypted = Authority(tmp_path).issue("mirror"), tmp_path / "encrypted.pem"
    key = serialization.load_pem_private_key(certificate.read_bytes(), None)
    encryption = serialization.BestAvailableEncryption(b"secret")
    encrypted.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption))
    connection = KafkaConnection(
        bootstrap_servers="kafka-1:9093",
        security_protocol="SSL",
        ssl_certificate_file=certificate,
        ssl_key_file=encrypted,
    )

    with pytest.raises(KafkaUnavailable, match=f"the key is encrypted .*{encrypted}"):
        connection.options()
