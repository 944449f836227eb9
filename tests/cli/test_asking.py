"""Which node is asked, as whom, and what is said when it refuses, is busy, or is not there."""

import getpass
import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from muster.commands import asking
from muster.data_dir import DataDir
from muster.database import own_database
from muster.settings import load_settings
from tests.api.client import Group, position
from tests.cli.conftest import Muster, commit
from tests.nodes import Node

NOT_NOW = {"code": "COORDINATOR_NOT_AVAILABLE", "action": "retry", "detail": "the shard is between two owners"}


class FakeNode:
    """A node that answers what a test wants, in this order, and then the last of it for ever."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bytes]] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                fake.seen.append((self.path, dict(self.headers)))
                status, body = fake.answers[0] if len(fake.answers) == 1 else fake.answers.pop(0)
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("Retry-After", "0.01")
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    def says(self, status: int, body: object) -> None:
        self.answers.append((status, json.dumps(body).encode()))

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def fake() -> Iterator[FakeNode]:
    fake = FakeNode()
    yield fake
    fake.close()


def test_nobody_at_the_address_is_one_sentence_and_an_exit_code_of_its_own(bare_muster: Muster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

    said = bare_muster.refused(3, "groups", "list", "--url", url)

    assert said == f"No node answers at {url} (Connection refused); muster up starts one, and --url names another."


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"3"])
def test_whoever_is_no_node_is_told_apart(bare_muster: Muster, fake: FakeNode, body: bytes) -> None:
    fake.answers = [(200, body)]

    said = bare_muster.refused(3, "groups", "list", "--url", fake.url)

    assert said == f"What answers at {fake.url} (status 200) is no Muster node."


def test_a_busy_node_is_asked_again_under_the_same_key(fake: FakeNode) -> None:
    fake.says(503, NOT_NOW)
    fake.says(429, {**NOT_NOW, "code": "THROTTLING_QUOTA_EXCEEDED"})
    fake.answers.append((204, b""))

    asking.Node(fake.url, "ada").delete("/v1/groups/g", "a test")

    keys = {headers["Idempotency-Key"] for _, headers in fake.seen}
    assert (len(fake.seen), len(keys)) == (3, 1)


def test_a_node_that_stays_busy_is_given_up(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking.Node.__init__, "__defaults__", (None, None, 0.05))
    fake.says(503, NOT_NOW)

    assert bare_muster.refused(3, "groups", "list", "--url", fake.url) == (
        "The shard is between two owners (COORDINATOR_NOT_AVAILABLE)."
    )


def test_the_token_goes_along_and_names_the_actor(
    bare_muster: Muster, fake: FakeNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.says(200, {"groups": [], "next_cursor": None, "values": {}})
    monkeypatch.setenv("MUSTER_TOKEN", "t0ken")
    monkeypatch.setenv("MUSTER_URL", fake.url)

    bare_muster.ok("groups", "list")
    bare_muster("config", "set", "group_max_size=1")
    bare_muster("config", "set", "group_max_size=1", "--actor", "Jürgen")
    monkeypatch.delenv("MUSTER_TOKEN")
    bare_muster("config", "set", "group_max_size=1")

    puts = [headers for path, headers in fake.seen if "Idempotency-Key" in headers]
    assert fake.seen[0][1]["Authorization"] == "Bearer t0ken"
    assert [headers.get("X-Muster-Actor", "").encode("latin-1").decode() for headers in puts] == [
        "",
        "Jürgen",
        getpass.getuser(),
    ]
    assert "Authorization" not in puts[-1]


def test_the_node_of_the_run_in_the_data_directory_is_found(
    bare_muster: Muster, node: Node, group: Group, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit(group, position(1))
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path))
    data_dir = DataDir(tmp_path)
    data_dir.create()
    with data_dir.locked("up") as lock:
        lock.publish_node_url(node.url)
        assert group.group_id in bare_muster.ok("groups", "list").out


def test_the_node_of_muster_serve_is_found_too(tmp_path: Path) -> None:
    settings = load_settings(data_dir=tmp_path, http_port=9_999)

    with own_database(settings, "serve", node_url=settings.node_url):
        holder = DataDir(tmp_path).holder()

    assert holder is not None
    assert holder.node_url == "http://127.0.0.1:9999"


def test_a_refusal_is_told_in_the_nodes_words_and_cannot_command_the_terminal(
    bare_muster: Muster, fake: FakeNode
) -> None:
    fake.says(403, {"code": "GROUP_AUTHORIZATION_FAILED", "action": "fix", "detail": "the token \x1b[2J is not"})

    said = bare_muster.refused(1, "groups", "list", "--url", fake.url)

    assert said == "The token �[2J is not (GROUP_AUTHORIZATION_FAILED)."
