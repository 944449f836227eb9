"""Reader of `__consumer_offsets` of a Kafka cluster, with aiokafka: no group, no commits, nothing that it changes."""

import asyncio
import logging
import ssl
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import time
from typing import Any, Final, Literal, NamedTuple, Protocol, Self
from uuid import UUID

from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from aiokafka.abc import AbstractTokenProvider  # type: ignore[import-untyped]  # comes without types
from aiokafka.admin import AIOKafkaAdminClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.client import AIOKafkaClient  # type: ignore[import-untyped]  # comes without types
from aiokafka.consumer import fetcher  # type: ignore[import-untyped]  # comes without types
from aiokafka.errors import (  # type: ignore[import-untyped]  # comes without types
    KafkaError,
    NodeNotReadyError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)

from mirror.partition_ends import known_ends
from mirror.topic_ids import names_of

TOPIC: Final = "__consumer_offsets"
SILENT_MAX_S: Final = 10.0
"""How long a broker may not answer before the log counts as unreachable."""
BATCH_RECORDS: Final = 20_000
"""Records of one partition that are applied at once."""
NO_LEADER: Final = -1
LEADERS_MAX_AGE_MS: Final = 1_000
"""How often the cluster is asked for leaders while partitions have none."""
CLIENT_ID: Final = "muster-mirror"

SecurityProtocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
SaslMechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Record(Protocol):
    """A record of the log."""

    @property
    def offset(self) -> int:
        """Its offset."""
        ...

    @property
    def timestamp(self) -> int:
        """Wall time of the broker in milliseconds when it was appended; negative: unknown."""
        ...

    @property
    def key(self) -> bytes | None:
        """Its key."""
        ...

    @property
    def value(self) -> bytes | None:
        """Its value."""
        ...


class Bounds(NamedTuple):
    """Where the log of a partition begins and ends."""

    start: int
    """The offset of its first record."""
    end: int
    """The offset after its last committed record."""


class Lag(NamedTuple):
    """How many offsets of a partition were not read yet."""

    offsets: int
    readable: int
    """Those before the first transaction that is open: what follows it may not be read yet."""


class KafkaUnavailable(Exception):
    """The Kafka cluster cannot be reached, or refuses; the text is the reason."""


class LogChanged(Exception):
    """The log no longer has the next offset of some partitions: it was truncated, or created again."""

    def __init__(self, partitions: Sequence[int]) -> None:
        super().__init__(f"the log of partitions {sorted(partitions)} was truncated or created again")
        self.partitions = partitions


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaConnection:
    """How the cluster is reached; the names are those of Kafka's clients."""

    bootstrap_servers: str
    security_protocol: SecurityProtocol = "PLAINTEXT"
    sasl_mechanism: SaslMechanism | None = None
    sasl_username: str | None = None
    sasl_password: str | None = None
    sasl_token_file: Path | None = None
    """A file with the bearer token for OAUTHBEARER; it is read at each connection."""
    ssl_ca_file: Path | None = None
    """None: the certificate authorities of the machine."""
    ssl_certificate_file: Path | None = None
    ssl_key_file: Path | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of an aiokafka client.

        Raises:
            KafkaUnavailable: a file cannot be read, or has no certificate or key, as while it is being replaced.
        """
        options: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "client_id": CLIENT_ID,
            "security_protocol": self.security_protocol,
        }
        if self.security_protocol in {"SSL", "SASL_SSL"}:
            options["ssl_context"] = self._ssl_context()
        if self.sasl_mechanism is not None:
            options["sasl_mechanism"] = self.sasl_mechanism
            options["sasl_plain_username"] = self.sasl_username
            options["sasl_plain_password"] = self.sasl_password
        if self.sasl_token_file is not None:
            options["sasl_oauth_token_provider"] = _TokenFile(self.sasl_token_file)
        return options

    def _ssl_context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ssl_ca_file)
            if self.ssl_certificate_file is not None:
                context.load_cert_chain(self.ssl_certificate_file, self.ssl_key_file, password=_refuse_encrypted_key)
        except OSError as failure:
            files = (self.ssl_ca_file, self.ssl_certificate_file, self.ssl_key_file)
            names = ", ".join(str(file) for file in files if file is not None)
            raise KafkaUnavailable(f"{reason_of(failure)} ({names})") from failure
        return context


def _refuse_encrypted_key() -> str:
    """Raise an error in place of OpenSSL's question at the terminal, for whose answer the event loop would wait."""
    raise OSError("the key is encrypted")


class _TokenFile(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka has no types
    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        return self._path.read_text(encoding="utf-8").strip()


class ClusterFacts(NamedTuple):
    """What a mirror has to know of a cluster before it begins."""

    cluster_id: str
    partitions: int | None
    """The number of partitions of `__consumer_offsets`; None: the cluster has had no group yet."""


async def describe_cluster(connection: KafkaConnection) -> ClusterFacts:
    """Return the facts of a cluster.

    Raises:
        KafkaUnavailable: it cannot be reached, or refuses.
    """
    admin = AIOKafkaAdminClient(**connection.options())
    try:
        await admin.start()
        cluster = await admin.describe_cluster()
        topics = await admin.list_topics()
        described = await admin.describe_topics([TOPIC]) if TOPIC in topics else []
    except (KafkaError, OSError) as failure:
        raise KafkaUnavailable(reason_of(failure)) from failure
    finally:
        await admin.close()
    partitions = next((len(topic["partitions"]) for topic in described), None)
    return ClusterFacts(cluster["cluster_id"], partitions)


class _PartitionRecords(fetcher.PartitionRecords):  # type: ignore[misc]  # aiokafka has no types
    """Records of one partition, of which aiokafka refuses to go on after a control batch without a record.

    Compaction leaves such a batch of a transactional producer that may go on. Source: `Cleaner.cleanInto` in Kafka's
    module storage, and `CompletedFetch.containsAbortMarker` in its module clients.
    """

    def _contains_abort_marker(self, next_batch: Any) -> bool:  # noqa: ANN401 - no types
        try:
            return bool(super()._contains_abort_marker(next_batch))
        except KafkaError:
            return False


fetcher.PartitionRecords = _PartitionRecords


class KafkaLog:
    """A connection that reads some partitions, each from its own offset."""

    def __init__(self, connection: KafkaConnection, partitions: int | None = None) -> None:
        """Prepare.

        Args:
            connection: how the cluster is reached.
            partitions: how many partitions the log must have, since groups are hashed to them; None: any number.
        """
        self._partitions = partitions
        self._consumer = AIOKafkaConsumer(
            **connection.options(),
            enable_auto_commit=False,
            isolation_level="read_committed",
            auto_offset_reset="none",
            exclude_internal_topics=False,
        )
        self._client = AIOKafkaClient(**connection.options())
        self._is_client_connected = False
        self._waiting_since_ms: dict[TopicPartition, float] = {}
        """The partitions that are read, and the wall time since when records of theirs are wanted."""

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        try:
            await self._consumer.start()
            await self._consumer._client.set_topics([TOPIC])  # noqa: SLF001 - `offline` needs the leaders
        except (KafkaError, OSError) as failure:
            await stop_consumer(self._consumer)
            raise KafkaUnavailable(reason_of(failure)) from failure
        return self

    async def __aexit__(self, *_: object) -> None:
        """Disconnect."""
        await self._client.close()
        await stop_consumer(self._consumer)

    def assign(self, next_offsets: Mapping[int, int]) -> None:
        """Read these partitions from now on, each from its next offset."""
        partitions = {TopicPartition(TOPIC, number): offset for number, offset in next_offsets.items()}
        self._waiting_since_ms = dict.fromkeys(partitions, time() * 1000)
        self._consumer.assign(list(partitions))
        for partition, offset in partitions.items():
            self._consumer.seek(partition, offset)

    def offline(self, partitions: Collection[int]) -> set[int]:
        """Return those of these partitions that have no leader, of which the cluster is asked again meanwhile.

        They are not to be read: the consumer would ask for the leader of one without a pause.
        """
        client = self._consumer._client  # noqa: SLF001 - aiokafka's consumer does not tell the leaders
        leaders = {number: client.cluster.leader_for_partition(TopicPartition(TOPIC, number)) for number in partitions}
        found = {number for number, leader in leaders.items() if leader == NO_LEADER}
        if found and time() * 1000 - client.cluster._last_refresh_ms > LEADERS_MAX_AGE_MS:  # noqa: SLF001 - likewise
            client.force_metadata_update()
        return found

    async def bounds(self, partitions: Collection[int]) -> dict[int, Bounds]:
        """Return where the logs of partitions begin and end.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        wanted = [TopicPartition(TOPIC, number) for number in partitions]
        try:
            starts = await self._consumer.beginning_offsets(wanted) if wanted else {}
            ends = await self._consumer.end_offsets(wanted) if wanted else {}
        except KafkaError as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        return {each.partition: Bounds(starts[each], ends[each]) for each in wanted}

    async def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Return where the logs of partitions end, with what open transactions hide, as far as brokers answer."""
        client = self._consumer._client  # noqa: SLF001 - it knows which brokers lead the partitions
        return await known_ends(client, TOPIC, partitions)

    async def poll(self, timeout_ms: int) -> dict[int, list[Record]]:
        """Return new records by partition; empty if there are none in time.

        Raises:
            LogChanged: the next offset of a partition is not in the log.
            KafkaUnavailable: the cluster cannot be reached, or refuses; the log has another number of partitions.
        """
        try:
            found = await self._consumer.getmany(timeout_ms=timeout_ms, max_records=BATCH_RECORDS)
        except OffsetOutOfRangeError as failure:
            raise LogChanged([partition.partition for partition in failure.args[0]]) from failure
        except KafkaError as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure
        self._check_answers(found)
        self._check_partitions()
        return {partition.partition: records for partition, records in found.items()}

    def _check_answers(self, found: Collection[TopicPartition]) -> None:
        """Raise KafkaUnavailable if a partition's broker has not answered for long: the client only tries again.

        The client asks for no records of a partition while it keeps some, however long those of others are applied.
        """
        now_ms = time() * 1000
        self._waiting_since_ms.update(dict.fromkeys(found, now_ms))
        kept = self._consumer._fetcher._records  # noqa: SLF001 - aiokafka does not tell which partitions it asks for
        silent_s = max(
            (
                (now_ms - max(since_ms, self._consumer.last_poll_timestamp(partition) or 0)) / 1000
                for partition, since_ms in self._waiting_since_ms.items()
                if partition not in kept
            ),
            default=0,
        )
        if silent_s > SILENT_MAX_S:
            raise KafkaUnavailable(f"a broker has not answered for {silent_s:.0f} s")

    def _check_partitions(self) -> None:
        found = len(self._consumer.partitions_for_topic(TOPIC) or ())  # None before the topic is described
        if found and self._partitions is not None and found != self._partitions:
            other = f"{TOPIC} has {found} partitions, and the database {self._partitions} shards"
            raise KafkaUnavailable(f"{other}: start the mirror on another database")

    async def position(self, partition: int) -> int:
        """Return the offset that is read next, which is beyond records that are not returned."""
        found: int = await self._consumer.position(TopicPartition(TOPIC, partition))
        return found

    async def topic_names(self, topic_ids: Collection[UUID]) -> dict[UUID, str]:
        """Return the names of topics; those that do not exist, or that the user may not describe, are left out.

        Raises:
            KafkaUnavailable: the cluster cannot be reached, or refuses.
        """
        try:
            if not self._is_client_connected:
                await self._client.bootstrap()
                self._is_client_connected = True
            return await names_of(self._client, topic_ids)
        except (KafkaError, OSError) as failure:
            raise KafkaUnavailable(reason_of(failure)) from failure

    async def lag(self) -> dict[int, Lag]:
        """Return how far each partition is behind the end of its log, as far as that is known."""
        behind: dict[int, Lag] = {}
        for partition in self._waiting_since_ms:
            end, readable_end = self._consumer.highwater(partition), self._consumer.last_stable_offset(partition)
            if end is not None and readable_end is not None:
                position = await self._consumer.position(partition)
                behind[partition.partition] = Lag(max(0, end - position), max(0, readable_end - position))
        return behind


async def stop_consumer(consumer: AIOKafkaConsumer) -> None:
    """Stop a consumer; its client as well where aiokafka lets the cancellation of a task of its own out."""
    try:
        await consumer.stop()
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        await consumer._client.close()  # noqa: SLF001 - what stop would have done next


class _ClientLog(logging.Handler):
    """Keeps why aiokafka could not connect to a broker, which only its log has, several times a second.

    Unexpected errors of the library, which it logs with tracebacks, go to the log.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.refusal = ""
        """The last reason."""

    def emit(self, record: logging.LogRecord) -> None:
        """Take what is logged."""
        if record.exc_info:
            logging.getLogger().handle(record)
        elif record.funcName in {"bootstrap", "_get_conn"}:
            assert isinstance(record.args, tuple), "the broker, and the error"
            failure = record.args[-1]
            self.refusal = record.getMessage() + ("" if str(failure) else type(failure).__name__)


_client_log: Final = _ClientLog()
_LIBRARY: Final = logging.getLogger("aiokafka")
_LIBRARY.addHandler(_client_log)
_LIBRARY.propagate = False


def reason_of(failure: BaseException) -> str:
    """Return a failure in one line; the texts of aiokafka's errors begin with their names."""
    name, text = type(failure).__name__, str(failure).removeprefix(f"{type(failure).__name__}: ")
    if isinstance(failure, NodeNotReadyError) or text.startswith("Unable to bootstrap"):
        text = _client_log.refusal
    if isinstance(failure, TopicAuthorizationFailedError):
        text += f"; the user may not read {TOPIC}: grant Read, or set MUSTER_MIRROR_SOURCE=poll"
    return f"{name}: {text}" if text else name
