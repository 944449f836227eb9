"""A node that reads a tokens file: a changed file, an expired token, an invalid file."""

import asyncio
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.errors import UserError
from muster.node.serve import bound_listener, open_store, serve_node
from muster.settings import Settings
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.no_queries import NO_QUERIES
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.tokens_file import ADA, BOB, TokensFile
from tests.support.waiting import poll_until


@pytest.fixture
def file(tmp_path: Path) -> TokensFile:
    return TokensFile(tmp_path / "tokens.json")


@pytest.fixture
def client(databases: Databases, file: TokensFile) -> Iterator[Client]:
    url = databases.create()
    file.write(ADA)
    with (
        running_node(url, tokens_file=str(file.path), cluster_secret=CLUSTER_SECRET) as node,
        closing(Client(node.url)) as client,
    ):
        yield client
    databases.drop(url)


def test_node_reads_a_changed_token_file_without_restart(client: Client, file: TokensFile) -> None:
    def status(token: str) -> int:
        return client.send("GET", "/v1/groups", None, {"Authorization": f"Bearer {token}"}).status

    assert (status("ada's"), status("bob's")) == (200, 401)
    file.write(BOB)
    poll_until(lambda: status("bob's") == 200)
    assert status("ada's") == 401
    assert client.send("GET", "/healthz").status == 200


def test_expired_token_is_reported(client: Client, file: TokensFile) -> None:
    file.write({**ADA, "expires_at": "2026-01-02T03:04:05Z"})
    bearer = {"Authorization": "Bearer ada's"}
    poll_until(lambda: client.send("GET", "/v1/groups", None, bearer).status == 401)

    for method, body in (("GET", None), ("PUT", b'{"values": {}, "reason": "why"}')):
        answer = client.send(method, "/v1/config", body, bearer)
        assert (answer.status, answer.code) == (401, "SASL_AUTHENTICATION_FAILED")
        assert answer.json["detail"] == "the bearer token expired at 2026-01-02T03:04:05+00:00; ask for a new one"
    assert client.send("GET", "/healthz", None, bearer).status == 200


@pytest.mark.parametrize(
    ("secret", "said"),
    [(CLUSTER_SECRET, "MUSTER_TOKENS_FILE: .* cannot be read"), (None, "requires MUSTER_CLUSTER_SECRET")],
)
def test_node_with_an_invalid_token_file_does_not_start(
    database_url: str, file: TokensFile, secret: str | None, said: str
) -> None:
    settings = Settings(database_url=database_url, tokens_file=file.path, cluster_secret=secret)  # type: ignore[arg-type]  # validated there
    if secret is None:
        file.write(ADA)

    with bound_listener("127.0.0.1", 0) as listener, closing(open_store(settings)) as store:
        serving_nothing = serve_node(settings, store, NO_QUERIES, listener, asyncio.Event(), lambda: None)
        with pytest.raises(UserError, match=said) as refused:
            asyncio.run(serving_nothing)
    assert refused.value.exit_code == 2
