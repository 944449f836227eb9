"""A client or a group over its quota gets 429, heartbeats later than other requests, and others are served."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from tests.support.databases import Databases
from tests.support.http_client import AS_JSON, Client, Group, fresh_id, position
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.tokens_file import ADA, BOB, DAN_ELSEWHERE, TokensFile
from tests.support.waiting import poll_until

BYTES_PER_S: Final = 1
WINDOW_S: Final = 3_600
DEBT: Final = "d" * 4_000
"""More than a window's bytes, and less than two: the debt lasts far longer than a test."""


OPTIONS: Final = {
    "group_quota_bytes_per_s": BYTES_PER_S,
    "quota_window_s": WINDOW_S,
    "group_initial_rebalance_delay_ms": 0,
}


@pytest.fixture(scope="module")
def client(databases: Databases) -> Iterator[Client]:
    url = databases.create()
    with running_node(url, **OPTIONS) as node, closing(Client(node.url)) as client:
        yield client
    databases.drop(url)


def served_group(client: Client) -> Group:
    """Return a new group whose shard the node owns: a request that is refused counts too."""
    group = client.group(fresh_id())
    poll_until(lambda: client.ok("GET", f"{group.path}/coordinator")["node_id"] is not None)
    return group


def test_a_refusal_names_the_limit_and_others_are_served(client: Client) -> None:
    group = served_group(client)
    commit = {"generation": -1, "member_id": "", "offsets": [position(1, metadata=DEBT)]}
    assert group.post("offsets", commit).status == 200

    refused = group.post("offsets", commit)

    assert (refused.status, refused.code) == (429, "THROTTLING_QUOTA_EXCEEDED")
    assert int(refused.headers["retry-after"]) > 60
    assert {key: refused.json[key] for key in ("kafka_code", "action", "limit", "limit_value")} == {
        "kafka_code": 89,
        "action": "retry",
        "limit": "MUSTER_GROUP_QUOTA_BYTES_PER_S",
        "limit_value": BYTES_PER_S,
    }
    heartbeat = group.post("heartbeat", {"generation": 1, "member_id": "m"})
    assert heartbeat.code == "UNKNOWN_MEMBER_ID"
    assert served_group(client).post("offsets", commit).status == 200
    assert client.call("GET", "/healthz").status == 200
    metrics = client.call("GET", "/metrics").body.decode()
    assert 'muster_requests_throttled_total{limit="group_quota_bytes_per_s"} 0.0' not in metrics
    assert 'muster_requests_throttled_total{limit="group_quota_requests_per_s"} 0.0' in metrics


def test_a_body_of_undeclared_length_counts_when_it_has_arrived(client: Client) -> None:
    group = served_group(client)
    body = b'{"generation": -1, "member_id": "", "offsets": [], "group_instance_id": "%b"}' % DEBT.encode()
    chunked = client.send("POST", f"{group.path}/offsets", iter([body]), AS_JSON)  # type: ignore[arg-type]  # in chunks
    assert chunked.status == 400
    assert group.post("offsets", {"generation": -1, "member_id": "", "offsets": []}).status == 429


@pytest.mark.parametrize(
    ("token", "status"),
    [({}, 401), ({"Authorization": "Bearer dan's"}, 403), ({"Authorization": "Bearer bob's"}, 404)],
    ids=["unknown", "elsewhere", "viewer"],
)
def test_who_may_neither_join_a_group_nor_commit_takes_nothing_of_its_quota(
    database_url: str, tmp_path: Path, token: dict[str, str], status: int
) -> None:
    tokens = TokensFile.written(tmp_path, ADA, DAN_ELSEWHERE, {**BOB, "prefixes": ["billing"]})
    secured: dict[str, int | str] = {**OPTIONS, "tokens_file": str(tokens.path), "cluster_secret": CLUSTER_SECRET}
    with running_node(database_url, **secured) as node, closing(Client(node.url)) as client:
        ada = {"Authorization": "Bearer ada's"}
        client.call_when_served("GET", "/v1/groups/billing", headers=ada)
        for _ in range(2):
            headers = {**token, "Content-Length": str(3 * WINDOW_S)}
            assert client.send("GET", "/v1/groups/billing", headers=headers).status == status
        commit = {"generation": -1, "member_id": "", "offsets": []}
        assert client.call_when_served("POST", "/v1/groups/billing/offsets", commit, ada).status == 200


def test_a_declared_length_counts_up_to_the_limit_of_bodies(databases: Databases) -> None:
    url = databases.create()
    options = {**OPTIONS, "group_quota_bytes_per_s": 10_000_000, "quota_window_s": 1, "max_body_bytes": 1_000_000}
    with running_node(url, **options) as node, closing(Client(node.url)) as client:
        path = f"{served_group(client).path}/coordinator"
        assert client.send("GET", path, headers={"Content-Length": str(2**62)}).status == 200
        assert client.send("GET", path).status == 200
    databases.drop(url)
