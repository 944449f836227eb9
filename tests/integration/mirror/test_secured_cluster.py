"""A mirror reads a cluster that wants TLS, authentication and rights, with no more rights than are documented."""

import asyncio
import gc
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition  # type: ignore[import-untyped]  # comes without types
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from coordinator_core.protocol.states import GroupState
from mirror.kafka_groups import KafkaGroups
from mirror.kafka_log import TOPIC, KafkaConnection, KafkaLog, KafkaUnavailable, describe_cluster
from mirror.kafka_topics import KafkaTopics
from muster.errors import UserError
from muster.node.mirror import prepare_database
from muster.settings import Settings
from tests.support.certificates import write_certificate
from tests.support.http_client import Client
from tests.support.kafka_broker import QUICK, KafkaBroker
from tests.support.kafka_broker import KafkaUnavailable as BrokerUnavailable
from tests.support.kafka_log import create_topics
from tests.support.nodes import running_node
from tests.support.waiting import poll_until

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

ORDERS = "secured-orders"
PASSWORD = "watching"
LISTENER = "listener.name.sasl_ssl"
MODULES = "org.apache.kafka.common.security"
RIGHTS = (
    ("watcher", ResourceType.TOPIC, TOPIC, AclOperation.READ),
    ("watcher", ResourceType.TOPIC, ORDERS, AclOperation.DESCRIBE),
    ("watcher", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
    ("describer", ResourceType.TOPIC, TOPIC, AclOperation.DESCRIBE),
    ("poller", ResourceType.GROUP, "secured", AclOperation.DESCRIBE),
    ("poller", ResourceType.TOPIC, ORDERS, AclOperation.DESCRIBE),
    ("poller", ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
)
"""The rights of docs/mirror.md, with the log and without it (of one group), and too few; Read on a topic includes
Describe, and Describe on the cluster lists all groups."""


@pytest.fixture(autouse=True)
def _collect_sockets() -> Iterator[None]:
    """Collect sockets while their warnings are ignored: aiokafka does not wait for the end of a TLS connection.

    Where the event loop ends before a broker has said that it closes too, the socket is left to the collector.
    """
    yield
    gc.collect()


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("secured")


@pytest.fixture(scope="module")
def kafka(directory: Path) -> Iterator[KafkaBroker]:
    """Run a broker with a listener that wants TLS and SASL, a topic, and a group."""
    properties = {
        **QUICK,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(write_certificate(directory / "broker.pem")),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{LISTENER}.plain.sasl.jaas.config": (
            f"{MODULES}.plain.PlainLoginModule required"
            f' user_watcher="{PASSWORD}" user_poller="{PASSWORD}" user_other="{PASSWORD}"'
            f' user_describer="{PASSWORD}";'
        ),
        f"{LISTENER}.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        f"{LISTENER}.oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    scram = f"SCRAM-SHA-256=[name=watcher,password={PASSWORD}]"
    try:
        broker = KafkaBroker(directory, properties, secure_listener="SASL_SSL", scram_users=[scram])
    except BrokerUnavailable as why:
        pytest.skip(str(why))
    broker.start()
    try:
        asyncio.run(_use(broker))
        _allow(broker)
        yield broker
    finally:
        broker.stop()


async def _use(broker: KafkaBroker) -> None:
    await create_topics(broker.bootstrap, {ORDERS: 3})
    for group_id in ("secured", "denied"):
        async with AIOKafkaConsumer(ORDERS, bootstrap_servers=broker.bootstrap, group_id=group_id):
            pass


def _allow(broker: KafkaBroker) -> None:
    """Give the mirrors' users the documented rights."""
    rights = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
        for user, kind, name, operation in RIGHTS
    ]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for created in admin.create_acls(rights).values():
        created.result()


@pytest.fixture
def plain(kafka: KafkaBroker, directory: Path) -> KafkaConnection:
    return KafkaConnection(
        bootstrap_servers=kafka.secure_bootstrap,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="watcher",
        sasl_password=PASSWORD,
        ssl_ca_file=directory / "broker.pem",
    )


def token(directory: Path) -> Path:
    """Write an unsecured token, as a broker takes it by default."""
    claims = {"sub": "watcher", "iat": int(time()), "exp": int(time()) + 3_600}
    parts = (urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in ({"alg": "none"}, claims))
    file = directory / "token"
    file.write_bytes(b".".join(parts) + b".")
    return file


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_log_and_topics_are_read(plain: KafkaConnection, directory: Path, mechanism: str) -> None:
    connection = replace(plain, sasl_mechanism=mechanism)  # type: ignore[arg-type]  # each is one
    if mechanism == "OAUTHBEARER":
        connection = replace(connection, sasl_username=None, sasl_password=None, sasl_token_file=token(directory))

    async def read() -> tuple[int, dict[tuple[str, int], int]]:
        partitions = (await describe_cluster(connection)).partitions or 0
        async with KafkaLog(connection) as log:
            bounds = await log.bounds(range(partitions))
            log.assign({number: each.start for number, each in bounds.items()})
            records = 0
            while any([await log.position(number) < each.end for number, each in bounds.items()]):
                records += sum(map(len, (await log.poll(500)).values()))
        async with KafkaTopics(connection) as topics:
            found = await topics.partitions([ORDERS])
            return records, {each: end async for ends in topics.log_ends(found) for each, end in ends.items()}

    records, log_ends = asyncio.run(read())

    assert records >= 2
    assert log_ends == {(ORDERS, number): 0 for number in range(3)}


def test_groups_in_a_rebalance_are_listed(plain: KafkaConnection) -> None:
    async def listed() -> dict[str, GroupState]:
        async with KafkaGroups(plain) as groups:
            return await groups.rebalancing()

    assert asyncio.run(listed()) == {}


def test_log_that_may_not_be_read_names_the_setting(plain: KafkaConnection) -> None:
    async def read() -> None:
        async with KafkaLog(replace(plain, sasl_username="describer")) as log:
            log.assign({0: (await log.bounds([0]))[0].start})
            while True:
                await log.poll(500)

    with pytest.raises(KafkaUnavailable, match="MUSTER_MIRROR_SOURCE=poll"):
        asyncio.run(read())


def test_mirror_that_may_not_read_the_log_polls(
    kafka: KafkaBroker, plain: KafkaConnection, empty_database_url: str
) -> None:
    options: dict[str, Any] = {
        "mirror_bootstrap_servers": plain.bootstrap_servers,
        "mirror_security_protocol": plain.security_protocol,
        "mirror_sasl_mechanism": plain.sasl_mechanism,
        "mirror_sasl_username": "poller",
        "mirror_sasl_password": PASSWORD,
        "mirror_ssl_ca_file": plain.ssl_ca_file,
    }
    with pytest.raises(UserError, match="MUSTER_MIRROR_SOURCE=poll"):
        prepare_database(Settings(database_url=empty_database_url, **options), empty_database_url)  # type: ignore[arg-type]

    options |= {"mirror_source": "poll", "mirror_poll_interval_ms": 100}
    prepare_database(Settings(database_url=empty_database_url, **options), empty_database_url)  # type: ignore[arg-type]
    with running_node(empty_database_url, **options) as node, closing(Client(node.url)) as client:
        poll_until(lambda: client.call("GET", "/readyz").status == 200)
        poll_until(lambda: state_of(client) == "Empty")
        asyncio.run(_commit(kafka, client))
        poll_until(lambda: state_of(client) == "Empty")
        poll_until(
            lambda: [each["lag"] for each in client.ok("GET", "/v1/groups/secured/lag")["partitions"]] == [0, 0, 0]
        )
        rows = client.ok("GET", "/v1/groups/secured/rebalances")["rebalances"]
        assert client.call("GET", "/v1/groups/denied").status == 404

    assert [(row["trigger"], row["outcome"]) for row in rows] == [
        ("member_left_or_expired", "emptied"),
        ("member_joined", "completed"),
    ]
    assert all(row["is_trigger_inferred"] for row in rows)


def state_of(client: Client) -> str | None:
    """Return the state of the group; None: it is not known."""
    found = client.call("GET", "/v1/groups/secured")
    return None if found.status == 404 else str(found.json["state"])


def lags(client: Client) -> list[int | None]:
    """Return the lag of each partition of the group."""
    return [each["lag"] for each in client.ok("GET", "/v1/groups/secured/lag")["partitions"]]


async def _commit(broker: KafkaBroker, client: Client) -> None:
    """Let a member commit, and stay until the mirror has its generation."""
    async with AIOKafkaConsumer(ORDERS, bootstrap_servers=broker.bootstrap, group_id="secured") as member:
        await asyncio.to_thread(poll_until, lambda: state_of(client) == "Stable")
        await member.commit({TopicPartition(ORDERS, number): 0 for number in range(3)})


def test_wrong_password_is_a_reason(plain: KafkaConnection) -> None:
    with pytest.raises(KafkaUnavailable):
        asyncio.run(describe_cluster(replace(plain, sasl_password="wrong")))


def test_missing_right_is_a_reason(plain: KafkaConnection) -> None:
    async def read() -> None:
        async with KafkaLog(replace(plain, sasl_username="other")) as log:
            await log.bounds([0])

    with pytest.raises(KafkaUnavailable):
        asyncio.run(read())


def test_certificate_that_is_not_trusted_is_a_reason(plain: KafkaConnection) -> None:
    with pytest.raises(KafkaUnavailable):
        asyncio.run(describe_cluster(replace(plain, ssl_ca_file=None)))
