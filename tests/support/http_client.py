"""An HTTP client for tests that sends paths, headers and bodies unchanged."""

import http.client
import json
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from tests.support.waiting import PATIENCE_S, poll_until

AS_JSON = {"Content-Type": "application/json"}
OPERATOR = {"X-Muster-Actor": "ada"}
SHARED_TOPIC = "orders"
WITHOUT_COORDINATOR = {"COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS"}
"""Codes of requests that came before the owner of a group has acquired or loaded its shard."""
Json = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """Return the error code; fails if there is none."""
        assert self.headers["content-type"] == "application/problem+json", self
        code: str = self.json["code"]
        return code


class Client:
    """Asks one node; every request on a connection of its own."""

    def __init__(self, url: str, ssl_context: ssl.SSLContext | None = None) -> None:
        self.url = url
        self._ssl_context = ssl_context
        self.address = urlsplit(url).netloc
        self._threads = ThreadPoolExecutor(32, thread_name_prefix="client")

    def close(self) -> None:
        self._threads.shutdown()

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send these bytes and wait for the response."""
        connection = self.connect()
        try:
            connection.request(method, path, body, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
        finally:
            connection.close()

    def connect(self) -> http.client.HTTPConnection:
        """Return a connection, which is made by its first request."""
        if self._ssl_context is None:
            return http.client.HTTPConnection(self.address, timeout=PATIENCE_S)
        return http.client.HTTPSConnection(self.address, timeout=PATIENCE_S, context=self._ssl_context)

    def call(self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send JSON as an operator does."""
        content = None if body is None else self.encoded(body)
        kind = {} if body is None else AS_JSON
        return self.send(method, path, content, {**OPERATOR, **kind, **(headers or {})})

    def call_when_served(
        self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send JSON, again while the group has no coordinator, as every client does: its node has just started."""

        def answer_of_owner() -> Answer | None:
            answer = self.call(method, path, body, headers)
            return None if answer.status == 503 and answer.code in WITHOUT_COORDINATOR else answer

        answer = poll_until(answer_of_owner)
        assert answer is not None, "it was waited for"
        return answer

    def encoded(self, body: Json) -> bytes:
        """Return a body as it goes over the wire."""
        return json.dumps(body).encode()

    def ok(self, method: str, path: str, body: Json = None, headers: Mapping[str, str] | None = None) -> Json:
        """Send JSON, and return the JSON of a response that must be a success."""
        answer = self.call_when_served(method, path, body, headers)
        assert answer.status < 300, answer
        return answer.json if answer.body else None

    def group(self, group_id: str) -> "Group":
        """Return the calls about one group."""
        return Group(self, group_id)

    def later(self, group: "Group", action: str, body: Json) -> "Future[Answer]":
        """Send a POST in a thread of its own."""
        return self._threads.submit(group.post, action, body)


@dataclass(frozen=True, slots=True)
class Member:
    """A member in one generation."""

    group: "Group"
    member_id: str
    generation: int
    joined: Json

    def post(self, action: str, **more: Json) -> Answer:
        """Post as this member."""
        return self.group.post(action, {"generation": self.generation, "member_id": self.member_id, **more})

    def sync(self, *assignments: Json) -> Answer:
        """Sync; a leader passes assignments."""
        return self.post("sync", assignments=list(assignments))

    def commit(self, *offsets: Json) -> Answer:
        """Commit positions."""
        return self.post("offsets", offsets=list(offsets))


@dataclass(frozen=True, slots=True)
class Group:
    """The calls about one group."""

    client: Client
    group_id: str

    @property
    def path(self) -> str:
        return f"/v1/groups/{quote(self.group_id, safe='')}"

    def post(self, action: str, body: Json) -> Answer:
        """Post to the group."""
        return self.client.call("POST", f"{self.path}/{action}", body)

    def describe(self) -> Json:
        """Return the group's description."""
        return self.client.ok("GET", self.path)

    def handshake(self, **changes: Json) -> str:
        """Return the id of a pending member."""
        answer = self.client.call_when_served("POST", f"{self.path}/join", join_body(**changes))
        assert answer.code == "MEMBER_ID_REQUIRED", answer
        member_id: str = answer.json["member_id"]
        return member_id

    def join(self, **changes: Json) -> Member:
        """Join with the id of a handshake, and wait for the generation."""
        answer = self.post("join", join_body(member_id=self.handshake(**changes), **changes))
        return self.member(answer)

    def member(self, answer: Answer) -> Member:
        """Return the member of a join response."""
        assert answer.status == 200, answer
        return Member(self, answer.json["member_id"], answer.json["generation"], answer.json)

    def stable(self, topic: str = SHARED_TOPIC, **changes: Json) -> Member:
        """Return the one member of a group that is Stable, with one partition."""
        member = self.join(topic=topic, **changes)
        answer = member.sync(gives(member.member_id, 0, topic=topic))
        assert answer.status == 200, answer
        return member


def join_body(topic: str = SHARED_TOPIC, **changes: Json) -> Json:
    """Return a join as the contract shows it, but for the topic and what is changed."""
    return {
        "member_id": "",
        "client_id": "agent-1",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": [topic]}}],
        **changes,
    }


def gives(member_id: str, *partitions: int, topic: str = SHARED_TOPIC) -> Json:
    """Return one member's part of an assignment of a topic."""
    assignment = {"partitions": [{"topic": topic, "partitions": list(partitions)}]}
    return {"member_id": member_id, "assignment": assignment}


def position(offset: int, *, topic: str = SHARED_TOPIC, partition: int = 0, **more: Json) -> Json:
    """Return a position to commit; where tests share a node, one with a log's end names a topic of the test's own."""
    return {"topic": topic, "partition": partition, "offset": offset, **more}


_numbers = iter(range(10**9))
_numbers_lock = threading.Lock()


def fresh_id(prefix: str = "group") -> str:
    """Return an id that no other test of this process uses."""
    with _numbers_lock:
        return f"{prefix}-{next(_numbers)}"
