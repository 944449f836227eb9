"""Stable groups of one member each, created over HTTP."""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

import msgspec

from bench.bench_servers import ask

CONCURRENCY: Final = 32
SESSION_TIMEOUT_MS: Final = 600_000
REBALANCE_TIMEOUT_MS: Final = 60_000
RETRY_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class Member:
    """The only member of its group."""

    url: str
    """URL of the group on the node that serves it."""
    generation: int
    member_id: str

    @property
    def path(self) -> str:
        """The group's path."""
        return self.url[self.url.index("/v1/") :]

    def body(self, **more: object) -> bytes:
        """Return a body with the member's identity."""
        return msgspec.json.encode({"generation": self.generation, "member_id": self.member_id, **more})


def join_groups(node_urls: Sequence[str], count: int, token: str = "") -> list[Member]:
    """Create Stable groups of one member each through the nodes in turn, which forward to the owners."""
    name = f"bench-{uuid4().hex[:8]}"
    urls = [f"{node_urls[number % len(node_urls)]}/v1/groups/{name}-{number}" for number in range(count)]
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        return list(pool.map(partial(_join, token=token), urls))


def join_body(member_id: str, topic: str = "orders") -> dict[str, object]:
    """Return the body of a join."""
    return {
        "member_id": member_id,
        "client_id": "bench",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "rebalance_timeout_ms": REBALANCE_TIMEOUT_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": [topic]}}],
        "require_known_member_id": False,
    }


def _join(group_url: str, token: str) -> Member:
    # Shards may still be moving: retry.
    while "generation" not in (joined := ask("POST", f"{group_url}/join", join_body(""), token)):
        assert joined["action"] == "retry", joined
        time.sleep(RETRY_S)  # There is no notification of an acquired shard.
    member = Member(group_url, joined["generation"], joined["member_id"])
    given = [{"member_id": member.member_id, "assignment": {"partitions": [{"topic": "orders", "partitions": [0]}]}}]
    synced = ask("POST", f"{group_url}/sync", msgspec.json.decode(member.body(assignments=given)), token)
    assert "assignment" in synced, synced
    return member
