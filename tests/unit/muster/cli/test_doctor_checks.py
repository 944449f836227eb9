"""Checks of `muster doctor` on ports, tokens and the addresses of nodes."""

import socket
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Self, cast

import pytest
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from muster.cli.doctor import command
from muster.cli.doctor.nodes import check_nodes
from muster.settings import Settings
from tests.support.fake_node import FakeNode
from tests.support.ports import free_port


class FakeConnection:
    """A connection, and its cursor, whose queries have these rows."""

    def __init__(self, *rows: tuple[Any, ...]) -> None:
        self._rows = rows

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def execute(self, _query: str) -> None:
        pass

    def fetchall(self) -> list[tuple[Any, ...]]:
        return list(self._rows)


@pytest.fixture
def node() -> Iterator[FakeNode]:
    """Give a node that is alive."""
    with closing(FakeNode()) as fake:
        fake.says(200, {"status": "alive"})
        yield fake


def nodes_at(*urls: str) -> PsycopgConnection:
    return cast(PsycopgConnection, FakeConnection(*((url.partition("://")[2], url) for url in urls)))


def test_nodes_that_answer_at_their_addresses_are_counted(node: FakeNode) -> None:
    assert check_nodes(nodes_at(node.url))[:3] == ("nodes", "ok", "1 node answers at the advertised addresses")
    assert check_nodes(nodes_at())[:3] == ("nodes", "ok", "0 nodes answer at the advertised addresses")
    assert node.seen[0][0] == "/healthz"


def test_node_that_advertises_a_wrong_address_is_named(node: FakeNode) -> None:
    absent = f"http://127.0.0.1:{free_port()}"

    found = check_nodes(nodes_at(node.url, absent))

    assert found[:3] == ("nodes", "warning", f"no answer from here of {absent} (Connection refused)")
    assert "MUSTER_ADVERTISED_URL" in (found.advice or "")


def test_other_server_at_the_address_of_a_node_is_no_node(node: FakeNode) -> None:
    node.answers = [(404, b"{}")]

    assert check_nodes(nodes_at(node.url)).message == f"no answer from here of {node.url} (status 404)"


def test_node_that_runs_is_not_advised_to_be_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = Settings(http_port=server.getsockname()[1])
        found = next(each for each in command._ports(settings) if each.check == "node's port")

    assert found.status == "warning"
    assert (found.advice or "").startswith("unless it is to be there, as a node that runs, ")


def test_host_of_another_machine_is_no_taken_port() -> None:
    settings = Settings(http_host="192.0.2.1", require_tokens=True)
    found = next(each for each in command._ports(settings) if each.check == "node's port")

    assert (found.status, found.message) == (
        "error",
        "no server can listen on 192.0.2.1 (Cannot assign requested address)",
    )


def test_required_tokens_without_a_cluster_secret_are_an_error() -> None:
    """A node refuses to start so."""
    assert command._tokens(Settings(require_tokens=True))[:3] == ("tokens", "error", "MUSTER_CLUSTER_SECRET is not set")
    assert command._tokens(Settings(require_tokens=True, cluster_secret="s" * 32)).status == "ok"  # type: ignore[arg-type]  # validated there
