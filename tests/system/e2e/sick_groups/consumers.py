"""Consumers of the simulated hour: each sends an agent's requests, and some are faulty.

A log grows evenly. A consumer reads everything up to its end at once, and reports that end with its commits.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

HEARTBEAT_S: Final = 3.0
COMMIT_EVERY: Final = 3
"""Heartbeats between two commits."""
RETRY_S: Final = 1.0
Json = Any


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic whose partitions grow by `rate` records a second."""

    name: str
    partitions: int
    rate: float = 20.0

    def end(self, partition: int, since_start_s: float) -> int:
        """Return the log end offset of a partition."""
        return int((since_start_s + 60) * self.rate) + partition


SendRequest = Callable[[str, str, Json], Awaitable[tuple[int, Json]]]
"""Sends a method, a path and a body; returns the status and the response body."""


class Refused(Exception):
    """The coordinator refused; `code` is Kafka's."""

    def __init__(self, code: str, member_id: str) -> None:
        super().__init__(code)
        self.code = code
        self.member_id = member_id


class Consumer:
    """One consumer process. Cancelling its task is `kill -9`; `leave` ends its membership."""

    def __init__(
        self,
        send_request: SendRequest,
        group_id: str,
        client_id: str,
        topic: Topic,
        *,
        session_ms: int = 10_000,
        rebalance_ms: int = 60_000,
        joins_late_s: float = 0.0,
        never_rejoins: bool = False,
    ) -> None:
        self.client_id = client_id
        self.member_id = ""
        self._commits = True
        self._commit_under_way = asyncio.Lock()
        self._send_request = send_request
        self._group_id = group_id
        self._topic = topic
        self._session_ms = session_ms
        self._rebalance_ms = rebalance_ms
        self._joins_late_s = joins_late_s
        self._never_rejoins = never_rejoins
        self._generation = -1

    async def run(self, started_s: float) -> None:
        """Consume until the task is cancelled.

        Args:
            started_s: loop time at which the hour began; the ends of logs count from it.
        """
        must_rejoin = False
        while True:
            try:
                if must_rejoin:
                    await self._be_late()
                partitions = await self._join_and_sync()
                await self._consume(partitions, started_s)
            except Refused as refused:
                must_rejoin = refused.code == "REBALANCE_IN_PROGRESS"
                if refused.code == "MEMBER_ID_REQUIRED":
                    self.member_id = refused.member_id
                elif refused.code == "UNKNOWN_MEMBER_ID":
                    self.member_id = ""
                elif not must_rejoin:
                    await asyncio.sleep(RETRY_S)

    async def leave(self) -> None:
        """Leave the group."""
        await self._post("leave", {"members": [{"member_id": self.member_id}]})

    async def stop_committing(self) -> None:
        """Return when the last commit has been answered; from now on it only heartbeats."""
        async with self._commit_under_way:
            self._commits = False

    async def _be_late(self) -> None:
        """Heartbeat while the batch before is worked on, as a Kafka client's background thread does."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._joins_late_s
        while self._never_rejoins or loop.time() < until_s:
            await asyncio.sleep(HEARTBEAT_S)
            try:
                await self._heartbeat()
            except Refused as refused:
                if refused.code != "REBALANCE_IN_PROGRESS":
                    raise

    async def _join_and_sync(self) -> list[int]:
        joined = await self._post(
            "join",
            {
                "member_id": self.member_id,
                "client_id": self.client_id,
                "session_timeout_ms": self._session_ms,
                "rebalance_timeout_ms": self._rebalance_ms,
                "protocol_type": "consumer",
                "protocols": [{"name": "range", "metadata": {"topics": [self._topic.name]}}],
            },
        )
        self.member_id, self._generation = joined["member_id"], joined["generation"]
        synced = await self._post(
            "sync", {"generation": self._generation, "member_id": self.member_id, "assignments": self._shares(joined)}
        )
        return [number for each in synced["assignment"]["partitions"] for number in each["partitions"]]

    def _shares(self, joined: Json) -> Json:
        members = [each["member_id"] for each in joined["members"]]
        return [
            {
                "member_id": member_id,
                "assignment": {
                    "partitions": [
                        {
                            "topic": self._topic.name,
                            "partitions": list(range(place, self._topic.partitions, len(members))),
                        }
                    ]
                },
            }
            for place, member_id in enumerate(members)
        ]

    async def _consume(self, partitions: list[int], started_s: float) -> None:
        beats = 0
        while True:
            if partitions and beats % COMMIT_EVERY == 0:
                async with self._commit_under_way:
                    if self._commits:
                        await self._commit(partitions, started_s)
            await asyncio.sleep(HEARTBEAT_S)
            await self._heartbeat()
            beats += 1

    async def _heartbeat(self) -> None:
        await self._post("heartbeat", {"generation": self._generation, "member_id": self.member_id})

    async def _commit(self, partitions: list[int], started_s: float) -> None:
        since_s = asyncio.get_running_loop().time() - started_s
        ends = [(partition, self._topic.end(partition, since_s)) for partition in partitions]
        offsets = [
            {"topic": self._topic.name, "partition": partition, "offset": end, "log_end_offset": end}
            for partition, end in ends
        ]
        await self._post("offsets", {"generation": self._generation, "member_id": self.member_id, "offsets": offsets})

    async def _post(self, action: str, body: Json) -> Json:
        status, answer = await self._send_request("POST", f"/v1/groups/{self._group_id}/{action}", body)
        if status >= 400:
            raise Refused(answer["code"], answer.get("member_id", ""))
        return answer


def in_process(app: Any) -> SendRequest:  # noqa: ANN401  # an ASGI application, whose types are dictionaries
    """Return a function that sends requests to an ASGI application without a socket."""

    async def send_request(method: str, path: str, body: Json) -> tuple[int, Json]:
        sent: list[Json] = []

        async def receive() -> Json:
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        async def send(message: Json) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path.partition("?")[0],
            "raw_path": path.partition("?")[0].encode(),
            "query_string": path.partition("?")[2].encode(),
            "headers": [
                (b"host", b"127.0.0.1"),
                (b"content-type", b"application/json"),
                (b"x-muster-actor", b"tests"),
            ],
            "client": ("127.0.0.1", 1),
        }
        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"] or b"null")

    return send_request
