"""Tokens of Kafka clients that are revoked, narrowed or expire while the connection is open."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from api.kafka.apis import ApiKey
from tests.support.http_client import Client, Json
from tests.support.kafka_listener import PATIENT, SUBSCRIPTION, join_alone
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import CLUSTER_SECRET, Node, running_kafka_node
from tests.support.tokens_file import ADA, DAN, DAN_ELSEWHERE, TokensFile
from tests.support.waiting import poll_until

GROUP_AUTHORIZATION_FAILED: Final = 30
JOIN: Final[dict[str, Any]] = {
    "group_id": "orders",
    "session_timeout": PATIENT,
    "rebalance_timeout": PATIENT,
    "protocol_type": "consumer",
    "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
}


@pytest.fixture
def file(tmp_path: Path) -> TokensFile:
    return TokensFile.written(tmp_path, ADA, DAN)


@pytest.fixture
def node(database_url: str, file: TokensFile) -> Iterator[Node]:
    with serving(database_url, file) as node:
        yield node


@contextmanager
def serving(database_url: str, file: TokensFile) -> Iterator[Node]:
    options: dict[str, int | str] = {
        "tokens_file": str(file.path),
        "cluster_secret": CLUSTER_SECRET,
        "group_initial_rebalance_delay_ms": 0,
    }
    with running_kafka_node(database_url, **options) as node:
        yield node


def logged_in(node: Node, token: str) -> KafkaWire:
    wire = KafkaWire(node.settings.kafka_address)
    log_in(wire, token)
    return wire


def log_in(wire: KafkaWire, token: str) -> timedelta:
    """Send a token, and return after which time the client has to send another one; 0: never."""
    assert wire.call(ApiKey.SASL_HANDSHAKE, 1, mechanism="PLAIN").error_code == 0
    answer = wire.call(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=b"\x00anybody\x00" + token.encode())
    assert answer.error_code == 0
    lifetime: timedelta = answer.session_lifetime
    return lifetime


def is_unknown(node: Node, token: str) -> bool:
    """Return whether the node refuses a token."""
    answer = Client(node.url).send("GET", "/v1/groups", headers={"Authorization": f"Bearer {token}"})
    return answer.status == 401


def code_of_heartbeat(wire: KafkaWire) -> int | None:
    """Return the error code of a heartbeat of no member; None: the node closes the connection instead."""
    try:
        answer = wire.call(ApiKey.HEARTBEAT, 4, group_id="orders", generation_id=1, member_id="m")
    except ConnectionError:
        return None
    return int(answer.error_code)


@pytest.mark.parametrize("entry", [None, DAN_ELSEWHERE], ids=["revoked", "narrowed"])
def test_a_parked_join_is_not_answered_once_its_token_does_not_allow_it(
    node: Node, file: TokensFile, entry: Json
) -> None:
    with logged_in(node, "ada's") as ada, logged_in(node, "dan's") as dan, logged_in(node, "dan's") as probe:
        leader = join_alone(ada, "orders")
        member_id = dan.call(ApiKey.JOIN_GROUP, 9, **JOIN, member_id="").member_id
        dan.ask(ApiKey.JOIN_GROUP, 9, **JOIN, member_id=member_id)
        described = {"groups": ("orders",)}
        poll_until(lambda: len(ada.call(ApiKey.DESCRIBE_GROUPS, 5, **described).groups[0].members) == 2)
        file.write(ADA, *([entry] if entry else []))
        poll_until(lambda: code_of_heartbeat(probe) in {None, GROUP_AUTHORIZATION_FAILED})
        assert ada.call(ApiKey.JOIN_GROUP, 9, **JOIN, member_id=leader).error_code == 0

        assert dan.is_closed()


def test_a_request_that_waits_for_a_quota_is_not_carried_out_once_its_token_is_revoked(
    database_url: str, file: TokensFile
) -> None:
    file.write(ADA, {**DAN, "quotas": {"client_quota_bytes_per_s": 1}})
    with (
        serving(database_url, file) as node,
        logged_in(node, "ada's") as ada,
        logged_in(node, "dan's") as dan,
    ):
        join_alone(ada, "orders")
        dan.call(ApiKey.DESCRIBE_GROUPS, 5, groups=("orders",) * 100)
        dan.ask(ApiKey.DELETE_GROUPS, 2, groups_names=("orders",))
        file.write(ADA)
        poll_until(lambda: is_unknown(node, "dan's"))

        assert dan.is_closed()


def test_every_request_after_a_token_was_narrowed_is_refused_and_the_connection_goes_on(
    node: Node, file: TokensFile
) -> None:
    with logged_in(node, "dan's") as dan:
        assert code_of_heartbeat(dan) != GROUP_AUTHORIZATION_FAILED
        file.write(ADA, DAN_ELSEWHERE)
        poll_until(lambda: code_of_heartbeat(dan) == GROUP_AUTHORIZATION_FAILED)
        assert {code_of_heartbeat(dan) for _ in range(100)} == {GROUP_AUTHORIZATION_FAILED}
        file.write(ADA, DAN)
        poll_until(lambda: code_of_heartbeat(dan) != GROUP_AUTHORIZATION_FAILED)


def test_a_token_that_expires_ends_the_open_connection(node: Node, file: TokensFile) -> None:
    with logged_in(node, "dan's") as dan:
        expires_at = datetime.now(UTC) + timedelta(seconds=3)
        file.write(ADA, {**DAN, "expires_at": expires_at.isoformat()})
        poll_until(lambda: code_of_heartbeat(dan) is None)
        assert datetime.now(UTC) >= expires_at


def test_a_client_learns_when_its_token_expires_and_sends_another_one_before(
    database_url: str, file: TokensFile
) -> None:
    soon = datetime.now(UTC) + timedelta(minutes=1)
    longer, newest = ({**DAN, "sha256": sha256(each).hexdigest()} for each in (b"longer", b"newest"))
    ends = {"expires_at": "9999-12-31T23:59:59Z"}
    file.write(ADA, {**DAN, "expires_at": soon.isoformat()}, {**longer, **ends}, newest)
    with serving(database_url, file) as node, KafkaWire(node.settings.kafka_address) as wire:
        lifetimes = [log_in(wire, token) for token in ("dan's", "longer", "newest")]
        assert timedelta(0) < lifetimes[0] < timedelta(minutes=1)
        assert timedelta(days=20) < lifetimes[1] < timedelta(days=30)
        assert lifetimes[2] == timedelta(0)
