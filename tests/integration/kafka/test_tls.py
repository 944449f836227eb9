"""Kafka clients over SASL_SSL, with a token, and over SSL, with a certificate as their identity."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from api.kafka.apis import ApiKey
from tests.support.certificates import Authority
from tests.support.databases import Databases
from tests.support.http_client import OPERATOR, Client, fresh_id
from tests.support.kafka_listener import PARTITIONS, TOPIC
from tests.support.kafka_members import kafka_members
from tests.support.kafka_wire import KafkaWire, frame
from tests.support.nodes import CLUSTER_SECRET, Node, running_kafka_node
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import poll_until

GROUP_AUTHORIZATION_FAILED = 30
BILLING = {"certificate": "CN=billing", "actor": "billing", "role": "agent", "prefixes": ["billing-"]}
ALL = {(TOPIC, partition) for partition in range(PARTITIONS)}
PATIENT_MS = 45_000
LIBRARIES = ["kafka-python", "aiokafka", "confluent-kafka"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def secure(databases: Databases, authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Serve a node with TLS, tokens, and one name of a certificate."""
    tokens = TokensFile(tmp_path_factory.mktemp("tokens") / "tokens.json")
    tokens.write(ADA, BILLING)
    url = databases.create()
    options: dict[str, int | str] = {
        "group_initial_rebalance_delay_ms": 0,
        "tokens_file": str(tokens.path),
        "cluster_secret": CLUSTER_SECRET,
        "tls_certificate_file": str(authority.issue("node")),
        "tls_client_ca_file": str(authority.path),
    }
    with running_kafka_node(url, **options) as node:
        client = Client(node.url, authority.trusted())
        as_ada = OPERATOR | {"Authorization": "Bearer ada's"}
        client.ok("PUT", f"/v1/topics/{TOPIC}", {"partitions": PARTITIONS}, as_ada)
        poll_until(lambda: client.call("GET", "/readyz").status == 200)
        client.close()
        yield node
    databases.drop(url)


def _options(library: str, authority: Authority, certificate: Path | None) -> dict[str, object]:
    """Return the options of a library for SSL with a certificate, or for SASL_SSL with ada's token."""
    is_confluent = library == "confluent-kafka"
    options: dict[str, object] = {
        "client_id": "one",
        "session_timeout_ms": PATIENT_MS,
        "security_protocol": "SASL_SSL" if certificate is None else "SSL",
        "ssl_ca_location" if is_confluent else "ssl_cafile": str(authority.path),
    }
    if certificate is None:
        user, password = ("username", "password") if is_confluent else ("plain_username", "plain_password")
        return options | {"sasl_mechanism": "PLAIN", f"sasl_{user}": "ada", f"sasl_{password}": "ada's"}
    if is_confluent:
        return options | {"ssl_certificate_location": str(certificate), "ssl_key_location": str(certificate)}
    return options | {"ssl_certfile": str(certificate)}


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_member_joins_and_commits(
    library: str, protocol: str, secure: Node, authority: Authority, tmp_path: Path
) -> None:
    certificate = authority.issue("billing", file=f"{fresh_id()}.pem") if protocol == "SSL" else None
    group_id = fresh_id("billing-")
    with kafka_members(tmp_path, secure.settings.kafka_address) as members:
        member = members.join(library, group_id, TOPIC, **_options(library, authority, certificate))
        member.wait_until(lambda member: member.owned() == ALL)
        member.commit(7, "a-note")
        member.leave()


def test_prefixes_of_the_certificates_entry_hold(secure: Node, authority: Authority) -> None:
    with KafkaWire(secure.settings.kafka_address, ssl_context=authority.trusted(authority.issue("billing"))) as wire:
        fields = {"generation_id": 1, "member_id": "m"}
        denied = wire.call(ApiKey.HEARTBEAT, 4, group_id="orders", **fields).error_code
        allowed = wire.call(ApiKey.HEARTBEAT, 4, group_id="billing-1", **fields).error_code

    assert denied == GROUP_AUTHORIZATION_FAILED
    assert allowed not in {0, GROUP_AUTHORIZATION_FAILED}


def test_certificate_without_an_entry_needs_a_token(secure: Node, authority: Authority) -> None:
    with KafkaWire(secure.settings.kafka_address, ssl_context=authority.trusted(authority.issue("stray"))) as wire:
        wire.send(frame(ApiKey.LIST_GROUPS, 0))
        assert wire.is_closed()


def test_plaintext_client_is_closed(secure: Node) -> None:
    with structlog.testing.capture_logs() as logged, KafkaWire(secure.settings.kafka_address) as plain:
        plain.send(frame(ApiKey.API_VERSIONS, 0))
        assert plain.is_closed()
        poll_until(lambda: logged)

    assert {each["event"] for each in logged if each["log_level"] != "info"} == {"tls_handshakes_failed"}


def test_client_that_trusts_another_authority_ends_the_handshake(secure: Node, tmp_path: Path) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        KafkaWire(secure.settings.kafka_address, ssl_context=Authority(tmp_path, "other").trusted())
