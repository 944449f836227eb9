"""A fake coordinator on a loopback port: one group, with configured failures."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from tests.support.waiting import PATIENCE_S

Json = dict[str, Any]

MORE = {"something_newer": {"than": "the agent"}}
"""A field that every response has and the agent does not know."""


@dataclass(frozen=True)
class Problem:
    """A refusal."""

    code: str
    status: int
    action: str
    more: Json = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Drop:
    """Close the connection, before the request is handled or after it."""

    is_handled: bool


@dataclass(frozen=True)
class Raw:
    """A response that no Muster node sends."""

    status: int
    body: bytes


@dataclass(frozen=True)
class Hold:
    """Handle the request only when the event is set, or refuse it then."""

    until: threading.Event
    then: Problem | None = None


Fault = Problem | Drop | Raw | Hold


@dataclass(frozen=True)
class Seen:
    """A request that came in."""

    call: str
    path: str
    body: Json
    headers: dict[str, str]


class FakeCoordinator:
    """One group with one member under test, the leader, and other members that the test defines."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.seen: list[Seen] = []
        self.topics: dict[str, Json] = {"orders": {"partitions": 3, "log_start_offset": 0}}
        self.others: list[Json] = []
        self.leader: str | None = None
        self.assigned: list[Json] | None = None
        self.skips_assignment = False
        self.member_id = ""
        self.generation = 0
        self.offsets: dict[tuple[str, int], Json] = {}
        self.given: dict[str, Json] = {}
        self.heartbeat_interval_ms = 1_000
        self.headers: dict[str, str] = {}
        self.answers: dict[str, Json] = {}
        """Responses that a test defines, by call."""
        self._ids = 0
        self._pending: set[str] = set()
        self._faults: dict[str, deque[Fault]] = defaultdict(deque)
        self._changed = threading.Condition(threading.RLock())
        self._connections: set[socket.socket] = set()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = False
        self._scheme = "http" if certificate is None else "https"
        if certificate is not None:
            self._server.socket = _over_tls(self._server.socket, certificate)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="fake-coordinator")

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._thread.join()
        with self._changed:
            for connection in self._connections:
                _shut_down_socket(connection)
        self._server.server_close()

    def next(self, call: str, *faults: Fault) -> None:
        """Apply these faults to the next requests of this call, one each."""
        with self._changed:
            self._faults[call].extend(faults)

    def count(self, call: str) -> int:
        with self._changed:
            return sum(seen.call == call for seen in self.seen)

    def bodies(self, call: str) -> list[Json]:
        with self._changed:
            return [seen.body for seen in self.seen if seen.call == call]

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so, judged after every request."""
        with self._changed:
            assert self._changed.wait_for(is_so, PATIENCE_S), f"did not come; seen: {[each.call for each in self.seen]}"

    def wait_for_calls(self, call: str, count: int) -> None:
        self.wait_for(lambda: self.count(call) >= count)

    def forget_member(self) -> None:
        """Put the member out, as if its session had expired."""
        with self._changed:
            self.member_id = ""

    # One request

    def receive(self, handler: _Handler, call: str, body: Json) -> None:
        with self._changed:
            self.seen.append(Seen(call, handler.path, body, dict(handler.headers.items())))
            self._connections.add(handler.connection)
            fault = self._faults[call].popleft() if self._faults[call] else None
            self._changed.notify_all()
        if isinstance(fault, Hold):
            assert fault.until.wait(PATIENCE_S)
            fault = fault.then
        match fault:
            case None:
                handler.answer(*self._handled(call, body))
            case Drop(is_handled):
                if is_handled:
                    self._handled(call, body)
                handler.hang_up()
            case Problem():
                handler.answer(fault.status, _problem_body(fault), fault.headers)
            case Raw(status, content):
                handler.send(status, content, "text/html", {})

    def _handled(self, call: str, body: Json) -> tuple[int, Json, dict[str, str]]:
        with self._changed:
            try:
                answer: Json = self.answers.get(call) or getattr(self, f"_on_{call}")(body)
            except _Refused as refused:
                return refused.problem.status, _problem_body(refused.problem), {}
            finally:
                self._changed.notify_all()
            return 200, answer | MORE, dict(self.headers)

    def _on_join(self, body: Json) -> Json:
        member_id, instance_id = body["member_id"], body["group_instance_id"]
        if not member_id:
            self._ids += 1
            member_id = f"{instance_id or body['client_id']}-{self._ids}"
            if instance_id is None:
                self._pending.add(member_id)
                raise _Refused(Problem("MEMBER_ID_REQUIRED", 409, "rejoin", {"member_id": member_id}))
        elif member_id != self.member_id and member_id not in self._pending:
            raise _Refused(Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
        self._pending.discard(member_id)
        self.member_id = member_id
        self.generation += 1
        me = {"member_id": member_id, "group_instance_id": instance_id, "metadata": body["protocols"][0]["metadata"]}
        leader = self.leader or member_id
        return {
            "generation": self.generation,
            "protocol_type": "consumer",
            "protocol_name": body["protocols"][0]["name"],
            "leader": leader,
            "member_id": member_id,
            "skip_assignment": self.skips_assignment,
            "members": [me | MORE, *self.others] if leader == member_id else [],
            "rebalance_timeout_ms": 60_000,
        } | self._times()

    def _on_sync(self, body: Json) -> Json:
        self._check_member(body)
        self.given = {each["member_id"]: each["assignment"] for each in body["assignments"]}
        mine = {"partitions": self.assigned} if self.assigned is not None else self.given.get(self.member_id)
        return {"protocol_type": "consumer", "protocol_name": body["protocol_name"], "assignment": mine}

    def _on_heartbeat(self, body: Json) -> Json:
        self._check_member(body)
        return self._times()

    def _on_leave(self, body: Json) -> Json:
        results = []
        for entry in body["members"]:
            is_member = entry["member_id"] == self.member_id != ""
            if is_member:
                self.member_id = ""
            code = "NONE" if is_member or entry["member_id"] in self._pending else "UNKNOWN_MEMBER_ID"
            self._pending.discard(entry["member_id"])
            results.append({"member_id": entry["member_id"], "group_instance_id": None, "code": code})
        return {"members": results}

    def _on_commit(self, body: Json) -> Json:
        self._check_member(body)
        for entry in body["offsets"]:
            self.offsets[entry["topic"], entry["partition"]] = entry
        return {"offsets": [_named(entry) | {"code": "NONE"} for entry in body["offsets"]]}

    def _on_query(self, body: Json) -> Json:
        asked = [(each["topic"], number) for each in body["partitions"] for number in each["partitions"]]
        nothing = {"offset": -1, "leader_epoch": -1, "metadata": "", "committed_at": None, "log_end_offset": None}
        return {
            "offsets": [
                {"topic": topic, "partition": number} | nothing | self.offsets.get((topic, number), {})
                for topic, number in asked
            ]
        }

    def _on_topics(self, _: Json) -> Json:
        return {"topics": [{"topic": topic} | info | MORE for topic, info in self.topics.items()]}

    def _times(self) -> Json:
        return {"session_timeout_ms": 30_000, "heartbeat_interval_ms": self.heartbeat_interval_ms}

    def _check_member(self, body: Json) -> None:
        if not body["member_id"] or body["member_id"] != self.member_id:
            raise _Refused(Problem("UNKNOWN_MEMBER_ID", 404, "rejoin"))
        if body["generation"] != self.generation:
            raise _Refused(Problem("ILLEGAL_GENERATION", 409, "rejoin"))

    def _handler(self) -> type[_Handler]:
        return type("Handler", (_Handler,), {"coordinator": self})


class _Refused(Exception):
    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.code)
        self.problem = problem


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    coordinator: FakeCoordinator
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self.coordinator.receive(self, "topics", {})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        *_, last_but_one, last = unquote(self.path).split("/")
        if last == "offsets":
            self.coordinator.receive(self, "commit", body)
        else:
            self.coordinator.receive(self, "query" if last_but_one == "offsets" else last, body)

    def answer(self, status: int, body: Json, headers: dict[str, str]) -> None:
        kind = "application/json" if status < 400 else "application/problem+json"
        self.send(status, json.dumps(body).encode(), kind, headers)

    def send(self, status: int, content: bytes, kind: str, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True

    def hang_up(self) -> None:
        self.close_connection = True
        _shut_down_socket(self.connection)

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class calls it so
        """Log nothing."""


def _shut_down_socket(connection: socket.socket) -> None:
    try:
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
    except OSError:
        return


def _over_tls(listener: socket.socket, certificate: Path) -> ssl.SSLSocket:
    """Return the listener over TLS; each connection shakes hands in its own thread, when it is first read."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context.wrap_socket(listener, server_side=True, do_handshake_on_connect=False)


def _problem_body(problem: Problem) -> Json:
    return (
        {
            "type": "about:blank",
            "title": problem.code,
            "status": problem.status,
            "code": problem.code,
            "kafka_code": 0,
            "action": problem.action,
            "detail": "as the test says",
        }
        | problem.more
        | MORE
    )


def _named(entry: Json) -> Json:
    return {"topic": entry["topic"], "partition": entry["partition"]}


def numbers(partitions: Iterable[tuple[str, int]]) -> list[int]:
    """Return the partitions' numbers, for tests with one topic."""
    return [number for _, number in partitions]
