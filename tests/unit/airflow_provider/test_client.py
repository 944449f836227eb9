"""Tests of the provider's HTTP client: fail over, repeated changes, errors, tokens and certificates."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from muster_airflow.client import Json, MusterClient, NodesUnavailable, NodesUnusable, RequestRefused, group_path
from tests.support.certificates import write_certificate
from tests.support.cutting_proxy import CuttingProxy
from tests.support.fake_maintenance_node import FakeNode, running
from tests.support.fake_node import FakeNode as AnyServer

RUN = "/v1/maintenance/runs/7"


@pytest.fixture
def nodes() -> Iterator[list[FakeNode]]:
    with ExitStack() as stack:
        yield [stack.enter_context(running(FakeNode())) for _ in range(2)]


def client_of(*nodes: FakeNode, token: str | None = None, retry_timeout_s: float = 0.0) -> MusterClient:
    return MusterClient([node.url for node in nodes], token=token, retry_timeout_s=retry_timeout_s)


def read(client: MusterClient) -> Json:
    return asyncio.run(client.get(RUN))


def apply(client: MusterClient, key: str | None = None) -> Json:
    return asyncio.run(client.post(f"{RUN}/apply", {"reason": "due"}, actor="dag:Jürgen", idempotency_key=key))


def test_request_has_token_actor_and_key(nodes: list[FakeNode]) -> None:
    assert apply(client_of(nodes[0], token="t0ken"))["status"] == "applying"
    (seen,) = nodes[0].seen
    assert (seen.method, seen.path, seen.body) == ("POST", f"{RUN}/apply", {"reason": "due"})
    assert seen.headers["Authorization"] == "Bearer t0ken"
    assert seen.headers["X-Muster-Actor"].encode("latin-1").decode() == "dag:Jürgen"
    assert UUID(seen.headers["Idempotency-Key"]).version == 4


def test_spaces_around_a_token_are_dropped(nodes: list[FakeNode]) -> None:
    read(client_of(nodes[0], token=" t0ken "))
    assert nodes[0].seen[0].headers["Authorization"] == "Bearer t0ken"


def test_request_without_token_has_no_authorization(nodes: list[FakeNode]) -> None:
    read(client_of(nodes[0]))
    assert "Authorization" not in nodes[0].seen[0].headers


@pytest.mark.parametrize("status", [408, 421, 429, 500, 503])
def test_next_node_is_asked_with_the_same_key_and_is_asked_first_from_then_on(
    nodes: list[FakeNode], status: int
) -> None:
    nodes[0].refusals = [(status, {"code": "LATER", "title": "busy"})]
    client = client_of(*nodes)
    apply(client)
    read(client)
    assert [node.calls() for node in nodes] == [["POST apply"], ["POST apply", "GET 7"]]
    assert nodes[0].seen[0].headers["Idempotency-Key"] == nodes[1].seen[0].headers["Idempotency-Key"]


def test_lost_response_is_requested_again_with_the_same_key(nodes: list[FakeNode]) -> None:
    proxy = CuttingProxy(nodes[0].url)
    proxy.lose_next_answer_to("/apply")
    with proxy.running():
        assert apply(MusterClient([proxy.url, nodes[0].url]), key="b9a8")["status"] == "applying"
    assert [seen.headers["Idempotency-Key"] for seen in nodes[0].seen] == ["b9a8", "b9a8"]


def test_nodes_are_asked_again_until_one_answers(nodes: list[FakeNode]) -> None:
    for node in nodes:
        node.refusals = [(503, {"code": "COORDINATOR_NOT_AVAILABLE", "detail": "its shards move"})]
    assert apply(client_of(*nodes, retry_timeout_s=300))["status"] == "applying"
    assert [node.calls() for node in nodes] == [["POST apply", "POST apply"], ["POST apply"]]


def test_error_names_each_node_and_its_reason(nodes: list[FakeNode]) -> None:
    with running(FakeNode()) as gone:
        pass
    nodes[0].refusals = [(503, {"code": "COORDINATOR_NOT_AVAILABLE", "detail": "its shards move"})]
    with pytest.raises(NodesUnavailable) as failure:
        apply(client_of(gone, nodes[0]))
    assert f"{gone.url}: " in str(failure.value)
    assert f"{nodes[0].url}: COORDINATOR_NOT_AVAILABLE (503): its shards move" in str(failure.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409])
def test_refusal_is_final_and_has_code_status_and_detail(nodes: list[FakeNode], status: int) -> None:
    nodes[0].refusals = [(status, {"code": "SOME_CODE", "detail": "it was decided", "action": "fix"})]
    with pytest.raises(RequestRefused, match=rf"^SOME_CODE \({status}\): it was decided$") as refusal:
        apply(client_of(*nodes))
    assert (refusal.value.code, refusal.value.status) == ("SOME_CODE", status)
    assert nodes[1].seen == []


def test_refusal_with_action_retry_is_temporary(nodes: list[FakeNode]) -> None:
    nodes[0].refusals = [(409, {"code": "REBALANCE_IN_PROGRESS", "action": "retry"})]
    assert apply(client_of(*nodes))["status"] == "applying"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificate(tmp_path_factory.mktemp("tls") / "node.pem")


def test_certificate_is_verified(certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=certificate)
    with running(FakeNode(), certificate) as node:
        with pytest.raises(NodesUnusable, match=r"^No node can be used. https.*CERTIFICATE_VERIFY_FAILED"):
            read(MusterClient([node.url], token="t0ken", retry_timeout_s=300))
        assert node.seen == []
        assert read(MusterClient([node.url], verify=trusting))["status"] == "applied"
        assert read(MusterClient([node.url], verify=False))["status"] == "applied"


def test_certificates_are_loaded_once_and_only_for_https(
    nodes: list[FakeNode], certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []
    load = ssl.create_default_context

    def counted(*args: Any, **kwargs: Any) -> ssl.SSLContext:  # noqa: ANN401 - whatever it takes
        loaded.append(args)
        return load(*args, **kwargs)

    monkeypatch.setattr(ssl, "create_default_context", counted)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    read(client_of(*nodes))
    assert loaded == []
    with running(FakeNode(), certificate) as node:
        loaded.clear()  # the node's own
        client = client_of(*nodes, node)
        for path in ("/v1/maintenance/runs/1", "/v1/maintenance/runs/2"):
            asyncio.run(client.get(path))
    assert len(loaded) == 1


def test_requests_of_one_block_share_a_connection(nodes: list[FakeNode]) -> None:
    async def read_twice() -> None:
        async with client_of(nodes[0]).connected() as client:
            await client.get(RUN)
            await client.get(RUN)

    asyncio.run(read_twice())
    assert (nodes[0].calls(), len(nodes[0].connections)) == (["GET 7", "GET 7"], 1)


@pytest.mark.parametrize("token", ["s3cret\n", "s3crét", "s3cret\x7f", "s3cret\x00"])
def test_token_that_no_header_can_have_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(ValueError, match=r"^a token is one line of printable ASCII$"):
        MusterClient(["http://127.0.0.1:1"], token=token)


@pytest.mark.parametrize(
    "node", ["http://node:65536", "http://node:0", "http://", "http://node:80a", "ftp://node", "HTTPS://node"]
)
def test_address_that_no_node_can_have_is_refused(node: str) -> None:
    with pytest.raises(ValueError, match=f"^{node} is no URL of http or https$"):
        MusterClient([node])


@pytest.mark.parametrize(
    ("node", "why"),
    [
        ("http://ada:hunter2@node:8080", "the URL of a node has no user and no password: use a token"),
        ("ada:hunter2@node:8080", "node:8080 is no URL of http or https"),
    ],
)
def test_password_in_a_url_is_refused_without_showing_it(node: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        MusterClient([node])


# -- what is no Muster node -----------------------------------------------------------------------------------


@pytest.fixture
def other() -> Iterator[AnyServer]:
    with closing(AnyServer()) as server:
        yield server


OF_A_GATEWAY = b'{"message": "no Route matched"}'


@pytest.mark.parametrize(
    ("status", "body"), [*((status, b"<html>") for status in (200, 302, 401, 404)), (404, OF_A_GATEWAY)]
)
def test_answer_that_no_node_gives_is_final(other: AnyServer, status: int, body: bytes) -> None:
    other.answers = [(status, body)]
    with pytest.raises(NodesUnusable, match=rf"^No node can be used. {other.url}: not a Muster node \(status {status}"):
        read(MusterClient([other.url], retry_timeout_s=300))
    assert len(other.seen) == 1


@pytest.mark.parametrize("status", [429, 502, 503])
def test_answer_of_a_proxy_without_nodes_is_temporary(other: AnyServer, status: int) -> None:
    other.answers = [(status, b"<html>")]
    with pytest.raises(NodesUnavailable, match=rf"not a Muster node \(status {status}\)"):
        read(MusterClient([other.url], retry_timeout_s=0))


def test_https_to_a_node_of_http_is_final(nodes: list[FakeNode]) -> None:
    with pytest.raises(NodesUnusable, match="SSL"):
        read(MusterClient([nodes[0].url.replace("http:", "https:")], retry_timeout_s=300))


def test_one_node_that_can_be_used_is_enough(nodes: list[FakeNode], other: AnyServer) -> None:
    other.answers = [(200, b"<html>")]
    assert read(MusterClient([other.url, nodes[0].url], retry_timeout_s=0))["status"] == "applied"
    with running(FakeNode()) as gone:
        pass
    with pytest.raises(NodesUnavailable):
        read(MusterClient([other.url, gone.url], retry_timeout_s=0))


@pytest.mark.parametrize(
    ("group_id", "path"),
    [("billing", "billing"), ("a/b c", "a%2Fb%20c"), ("~x", "~fng"), ("..", "~Li4"), ("", "~")],
)
def test_every_group_id_has_a_path(group_id: str, path: str) -> None:
    assert group_path(group_id, "/lag") == f"/v1/groups/{path}/lag"


def test_a_list_of_several_pages_is_read_as_a_whole() -> None:
    class PagedClient(MusterClient):
        async def get(self, path: str) -> Json:
            is_last = path.endswith("?cursor=next")
            return {"lag": 3, "partitions": [2] if is_last else [0, 1], "next_cursor": None if is_last else "next"}

    client = PagedClient(["http://127.0.0.1:1"])
    assert asyncio.run(client.get_pages("/v1/groups/g/lag", "partitions"))["partitions"] == [0, 1, 2]
