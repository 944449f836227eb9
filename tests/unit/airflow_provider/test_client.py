"""Tests of the provider's HTTP client: fail over, repeated changes, errors, tokens and certificates."""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import UUID

import pytest

from muster_airflow.client import Json, MusterClient, NodesUnavailable, RequestRefused, group_path
from tests.support.certificates import write_certificate
from tests.support.cutting_proxy import CuttingProxy
from tests.support.fake_maintenance_node import FakeNode, running

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
        with pytest.raises(NodesUnavailable, match="CERTIFICATE_VERIFY_FAILED"):
            read(MusterClient([node.url], token="t0ken", retry_timeout_s=0))
        assert node.seen == []
        assert read(MusterClient([node.url], verify=trusting))["status"] == "applied"
        assert read(MusterClient([node.url], verify=False))["status"] == "applied"


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
