"""Changes and refusals name the token and the address of the client, on whatever node they arrive."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import sha256

import pytest
from structlog.testing import capture_logs

from tests.integration.http.node_pair import OPTIONS
from tests.support.databases import Databases
from tests.support.http_client import Answer, Client, Json, fresh_id
from tests.support.nodes import running_node
from tests.support.tokens_file import ADA, BOB, TokensFile
from tests.support.waiting import PATIENCE_S, poll_until

ADAS_ID = ADA["sha256"][:16]
FORWARDED = {"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}
SETTING = {"values": {"group_min_session_timeout_ms": "7000"}, "reason": "why"}


@pytest.fixture(scope="module")
def clients(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Client]]:
    """Serve two nodes; only the first trusts this machine as a proxy."""
    file = TokensFile(tmp_path_factory.mktemp("tokens") / "tokens.json")
    file.write(ADA, BOB)
    url = databases.create()
    options = OPTIONS | {"tokens_file": str(file.path), "request_timeout_ms": 1_000 * PATIENCE_S}
    with ExitStack() as stack:
        nodes = [
            stack.enter_context(running_node(url, **options, trusted_proxies=proxies))
            for proxies in ("127.0.0.0/8", "192.0.2.1")
        ]
        yield [stack.enter_context(closing(Client(node.url))) for node in nodes]
    databases.drop(url)


def send(client: Client, token: str, method: str, path: str, body: Json = None) -> Answer:
    kind = {} if body is None else {"Content-Type": "application/json"}
    headers = {"Authorization": f"Bearer {token}", **FORWARDED, **kind}
    return client.send(method, path, None if body is None else client.encoded(body), headers)


def origin_of_change(client: Client, group_id: str) -> tuple[str, str]:
    answer = send(client, "ada's", "PUT", f"/v1/groups/{group_id}/config", {"values": {}, "reason": "why"})
    assert answer.status == 200, answer
    change = send(client, "ada's", "GET", f"/v1/changes/{answer.headers['x-muster-change-id']}").json
    return change["token_id"], change["client_address"]


def test_a_change_names_the_token_and_the_address_that_a_trusted_proxy_gave(clients: list[Client]) -> None:
    first, second = clients

    def owner(group_id: str) -> str | None:
        url: str | None = send(first, "ada's", "GET", f"/v1/groups/{group_id}/coordinator").json["url"]
        return url

    def groups_of_both() -> list[str]:
        groups = {owner(group_id): group_id for group_id in (fresh_id() for _ in range(20))}
        return [groups[url] for url in (first.url, second.url)] if {first.url, second.url} == groups.keys() else []

    for group_id in poll_until(groups_of_both):
        assert origin_of_change(first, group_id) == (ADAS_ID, "203.0.113.9")
        assert origin_of_change(second, group_id) == (ADAS_ID, "127.0.0.1"), "this node does not trust the proxy"


@pytest.mark.parametrize(("token", "status"), [("bob's", 403), ("nobody's", 401)], ids=["not allowed", "unknown"])
def test_a_refusal_is_logged_with_the_token_and_the_address(clients: list[Client], token: str, status: int) -> None:
    with capture_logs() as logs:
        assert send(clients[0], token, "PUT", "/v1/config", SETTING).status == status

    (refusal,) = [each for each in logs if each["event"] == "request_refused"]
    assert (refusal["status"], refusal["client"]) == (status, "203.0.113.9")
    assert refusal["token_id"] == sha256(token.encode()).hexdigest()[:16]
