"""Any node takes any request: one for a group of another node's is passed on to that node, over connections kept open.

* A request is passed on only if the runtime refused it before anything was decided (it names the owner then), so
  nothing is done twice; and only once. Whoever sends `X-Muster-Forward: false` is told the owner's address instead.
* Long polls have connections of their own, so that they never keep others waiting. They end when the shard's epoch
  moves, for whoever was to answer can no longer, and when this node stops; the rest are answered in time, or told to
  come again.
* When the other node's fate is unknown, so is the request's: the caller gets a retriable error.

Source: ARCHITECTURE.md "Ownership, and losing a node"; http-api.md "When the answer is no".
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final

import aiohttp
import msgspec
import structlog
from yarl import URL

from api.http.call import Call
from api.http.problems import PROBLEM_JSON
from api.http.reply import NO_ERROR, Reply
from coordinator_core.protocol.errors import CoordinatorNotAvailable, InvalidRequest, NotCoordinator

log = structlog.get_logger("muster.http")

FORWARD_HEADER: Final = b"x-muster-forward"
PASSED_ON: Final = frozenset({b"accept", b"content-type", b"idempotency-key", b"x-muster-actor"})
"""What of a request's headers goes on with it, beside its id and its mark; never a token."""
PASSED_BACK: Final = frozenset({"allow", "retry-after", "x-muster-change-id"})
"""What of a reply's headers comes back with it."""
OTHERS_AUTOMATIC: Final = frozenset({"accept", "accept-encoding", "content-type", "user-agent"})
"""What the HTTP client would add of its own accord."""
STOPPING: Final = "this node is stopping"
"""What a caller is told whom nobody here answers any more."""
KEEP_OPEN_S: Final = 60
"""How long an idle connection to another node is kept: shorter than that node keeps it."""


class Forwarder:
    """What this node passes on to the others."""

    def __init__(self, *, is_on: bool, timeout_ms: int, max_connections: int) -> None:
        """Prepare; nothing is connected before the first request.

        Args:
            is_on: whether requests are passed on at all.
            timeout_ms: how long a request may take that is no long poll, and every connection.
            max_connections: how many of these requests may be under way to one node at once; the others wait.
        """
        self._is_on = is_on
        self._timeout_s = timeout_ms / 1000
        self._max_connections = max_connections
        self._stopping = asyncio.Event()
        self._sessions: dict[bool, aiohttp.ClientSession] = {}
        """Of long polls, and of the rest."""

    async def pass_on(self, call: Call, refused: NotCoordinator) -> Reply:
        """Return the answer of the node that owns the call's group.

        Args:
            call: a request with its body read.
            refused: why this node does not answer it.

        Raises:
            NotCoordinator: it is not to be passed on, or the owner lost the group while the caller waited.
            CoordinatorNotAvailable: the owner did not answer, or this node stops; what was asked may have been done or
                not.
        """
        owner = refused.coordinator
        if owner is None or not self._is_on or call.is_forwarded or call.header(FORWARD_HEADER) == b"false":
            raise refused
        call.change_id = None  # the owner makes the change, and names it
        asking = self._ask(call, owner)
        return await (self._until_moved(call, asking) if call.is_long_poll else asking)

    def let_go(self) -> None:
        """Let no long poll wait for another node's answer any more, for this node is stopping."""
        self._stopping.set()

    async def close(self) -> None:
        """Close every connection."""
        for session in self._sessions.values():
            await session.close()

    async def _ask(self, call: Call, owner: str) -> Reply:
        url = URL(owner.rstrip("/") + call.target.partition(b" ")[2].decode("ascii"), encoded=True)
        headers = _headers(call, owner)
        session = self._session(is_long_poll=call.is_long_poll)
        try:
            async with session.request(call.scope["method"], url, data=call.body, headers=headers) as answer:
                return _reply(answer, await answer.read())
        except (aiohttp.ClientError, TimeoutError) as failure:
            log.warning("owner_not_reached", owner=owner, group=call.group_id, why=str(failure) or "no answer in time")
            raise CoordinatorNotAvailable("the node that owns the group does not answer") from None

    async def _until_moved(self, call: Call, asking: Coroutine[Any, Any, Reply]) -> Reply:
        """Wait for the answer as long as the same owner can give it, and this node pass it back."""
        assert call.group_id is not None
        moved = asyncio.ensure_future(call.coordinator.shard_moved(call.group_id))
        stopping = asyncio.ensure_future(self._stopping.wait())
        answer = asyncio.ensure_future(asking)
        try:
            await asyncio.wait({answer, moved, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if answer.done():
                return answer.result()
            if stopping.done():
                raise CoordinatorNotAvailable(STOPPING)
            raise NotCoordinator(
                "the group has moved to another node", call.coordinator.coordinator_of(call.group_id).url
            )
        finally:
            for waiting in (answer, moved, stopping):
                waiting.cancel()

    def _session(self, *, is_long_poll: bool) -> aiohttp.ClientSession:
        if is_long_poll not in self._sessions:
            self._sessions[is_long_poll] = self._new_session(is_long_poll=is_long_poll)
        return self._sessions[is_long_poll]

    def _new_session(self, *, is_long_poll: bool) -> aiohttp.ClientSession:
        limit = 0 if is_long_poll else self._max_connections
        total_s = None if is_long_poll else self._timeout_s
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=limit, keepalive_timeout=KEEP_OPEN_S),
            timeout=aiohttp.ClientTimeout(total=total_s, sock_connect=self._timeout_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=OTHERS_AUTOMATIC,
        )


def _headers(call: Call, owner: str) -> list[tuple[str, str]]:
    """Return the headers that a request is forwarded with; the HTTP client writes them in UTF-8.

    Raises:
        InvalidRequest: one of the client's is not UTF-8.
    """
    given = [(name, value) for name, value in call.scope["headers"] if name in PASSED_ON]
    marks = call.door.forward_marks.headers(
        call.target, call.body, call.headers, call.client_host, call.identity, node_url=owner
    )
    try:
        return [(name.decode(), value.decode()) for name, value in (*given, (b"x-request-id", call.request_id), *marks)]
    except UnicodeDecodeError:
        raise InvalidRequest("a header of a request that is forwarded to another node is not UTF-8") from None


def _reply(answer: aiohttp.ClientResponse, body: bytes) -> Reply:
    content_type = answer.headers.get("content-type", "").encode("latin-1")
    headers = tuple(
        (name.lower().encode("latin-1"), value.encode("latin-1"))
        for name, value in answer.headers.items()
        if name.lower() in PASSED_BACK
    )
    return Reply(answer.status, content_type, body, headers, _code(content_type, body))


class _Problem(msgspec.Struct):
    code: str = NO_ERROR


def _code(content_type: bytes, body: bytes) -> str:
    """Return Kafka's name of the error that the owner's reply tells of."""
    return msgspec.json.decode(body, type=_Problem).code if content_type == PROBLEM_JSON else NO_ERROR
