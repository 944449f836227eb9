"""A mirror reads a cluster that wants TLS, authentication and rights, with no more rights than are documented."""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from time import time

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from coordinator_core.protocol.states import GroupState
from mirror.kafka_groups import KafkaGroups
from mirror.kafka_log import TOPIC, KafkaConnection, KafkaLog, KafkaUnavailable, describe_cluster
from mirror.kafka_topics import KafkaTopics
from tests.support.certificates import write_certificate
from tests.support.kafka_broker import QUICK, KafkaBroker
from tests.support.kafka_broker import KafkaUnavailable as BrokerUnavailable
from tests.support.kafka_log import create_topics

pytestmark = pytest.mark.slow

ORDERS = "secured-orders"
PASSWORD = "watching"
LISTENER = "listener.name.sasl_ssl"
MODULES = "org.apache.kafka.common.security"
RIGHTS = (
    (ResourceType.TOPIC, TOPIC, AclOperation.READ),
    (ResourceType.TOPIC, ORDERS, AclOperation.DESCRIBE),
    (ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE),
)
"""The rights of docs/mirror.md; Read on a topic includes Describe."""


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
            f'{MODULES}.plain.PlainLoginModule required user_watcher="{PASSWORD}" user_other="{PASSWORD}";'
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
    async with AIOKafkaConsumer(ORDERS, bootstrap_servers=broker.bootstrap, group_id="secured"):
        pass


def _allow(broker: KafkaBroker) -> None:
    """Give the mirror's user the documented rights."""
    rights = [
        AclBinding(kind, name, ResourcePatternType.LITERAL, "User:watcher", "*", operation, AclPermissionType.ALLOW)
        for kind, name, operation in RIGHTS
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
            return records, await topics.log_ends(await topics.partitions([ORDERS]))

    records, log_ends = asyncio.run(read())

    assert records >= 2
    assert log_ends == {(ORDERS, number): 0 for number in range(3)}


def test_groups_in_a_rebalance_are_listed(plain: KafkaConnection) -> None:
    async def listed() -> dict[str, GroupState]:
        async with KafkaGroups(plain) as groups:
            return await groups.rebalancing()

    assert asyncio.run(listed()) == {}


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
