"""Checks of `muster doctor` on ports and tokens."""

import socket

from muster.cli.doctor import command
from muster.settings import Settings


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
