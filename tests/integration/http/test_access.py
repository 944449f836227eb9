"""Authorization: the role and the groups that each route needs; every route has a row here."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Final, cast

import pytest
from litestar.routes import HTTPRoute

from api.http import base64url
from api.http.app import make_app
from api.http.limits import HttpLimits
from api.shared.identity import Identity, Role
from api.shared.node_context import NodeContext
from coordinator_core.jobs import JOBS
from coordinator_core.runtime.coordinator import Coordinator
from tests.integration.http.forward_signatures import forward_headers
from tests.support.databases import Databases
from tests.support.http_client import OPERATOR as ACTING
from tests.support.http_client import Answer, Client, Group, Json, fresh_id, join_body, position
from tests.support.no_queries import NO_QUERIES
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.repository import ROOT
from tests.support.waiting import poll_until

MINE: Final = "mine-"
RUN: Final = "6b6f1d5e-7a8c-4c1e-9d55-0c9a3b6a4f10"

AGENT, VIEWER, OPERATOR = "agent", "viewer", "operator"
READERS = {VIEWER, OPERATOR}
MEMBERS = {AGENT, OPERATOR}
ALL = {AGENT, VIEWER, OPERATOR}

ROUTES: Final[dict[tuple[str, str], tuple[set[str], str]]] = {
    # route → the roles that may use it (none: open), and for which groups a token must be
    ("GET", "/healthz"): (set(), "own"),
    ("GET", "/readyz"): (set(), "own"),
    ("GET", "/openapi.json"): (set(), "own"),
    ("GET", "/docs"): (set(), "own"),
    ("GET", "/"): (set(), "own"),
    ("GET", "/console/{digest:str}/{name:str}"): (set(), "own"),
    ("GET", "/metrics"): (READERS, "all"),
    ("POST", "/v1/groups/{group_id:str}/join"): (MEMBERS, "one"),
    ("POST", "/v1/groups/{group_id:str}/sync"): (MEMBERS, "one"),
    ("POST", "/v1/groups/{group_id:str}/heartbeat"): (MEMBERS, "one"),
    ("POST", "/v1/groups/{group_id:str}/leave"): (MEMBERS, "one"),
    ("POST", "/v1/groups/{group_id:str}/offsets"): (MEMBERS, "one"),
    ("DELETE", "/v1/groups/{group_id:str}/offsets"): (MEMBERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/offsets"): (ALL, "one"),
    ("POST", "/v1/groups/{group_id:str}/offsets/query"): (ALL, "one"),
    ("GET", "/v1/groups/{group_id:str}/coordinator"): (ALL, "one"),
    ("GET", "/v1/topics"): (ALL, "own"),
    ("GET", "/v1/topics/{topic:str}"): (READERS, "own"),
    ("GET", "/v1/groups"): (READERS, "own"),
    ("GET", "/v1/groups/{group_id:str}/lag"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/lag/history"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/tuning"): (READERS, "one"),
    **{("GET", f"/v1/reports/{job.subject}"): (READERS, "own") for job in JOBS.values() if job.is_report},
    ("GET", "/v1/overview/groups"): (READERS, "own"),
    ("GET", "/v1/overview/topics"): (READERS, "own"),
    ("GET", "/v1/overview/activity"): (READERS, "own"),
    ("GET", "/v1/other-groups"): (READERS, "own"),
    ("GET", "/v1/quarantined-groups"): (READERS, "own"),
    ("GET", "/v1/groups/{group_id:str}"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/rebalances"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/rebalances/{rebalance_id:str}/members"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/transitions"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/ownership"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/member-sessions"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/diagnosis"): (READERS, "one"),
    ("GET", "/v1/groups/{group_id:str}/config"): (READERS, "one"),
    ("GET", "/v1/config"): (READERS, "own"),
    ("GET", "/v1/changes"): (READERS, "own"),
    ("GET", "/v1/changes/{change_id:str}"): (READERS, "own"),
    ("GET", "/v1/maintenance/runs"): (READERS, "own"),
    ("GET", "/v1/maintenance/runs/{run_id:str}"): (READERS, "own"),
    ("GET", "/v1/maintenance/runs/{run_id:str}/candidates"): (READERS, "own"),
    ("DELETE", "/v1/groups/{group_id:str}"): ({OPERATOR}, "one"),
    ("POST", "/v1/groups/{group_id:str}/rebalance"): ({OPERATOR}, "one"),
    ("POST", "/v1/groups/{group_id:str}/reload"): ({OPERATOR}, "one"),
    ("DELETE", "/v1/groups/{group_id:str}/members/{member_id:str}"): ({OPERATOR}, "one"),
    ("PUT", "/v1/groups/{group_id:str}/config"): ({OPERATOR}, "one"),
    ("POST", "/v1/groups/{group_id:str}/offsets/reset"): ({OPERATOR}, "one"),
    ("PUT", "/v1/config"): ({OPERATOR}, "all"),
    ("PUT", "/v1/topics/{topic:str}"): ({OPERATOR}, "all"),
    ("DELETE", "/v1/topics/{topic:str}"): ({OPERATOR}, "all"),
    ("DELETE", "/v1/topics/{topic:str}/log-ends"): ({OPERATOR}, "all"),
    ("POST", "/v1/changes/{change_id:str}/undo"): ({OPERATOR}, "own"),
    ("POST", "/v1/maintenance/runs/{run_id:str}/apply"): ({OPERATOR}, "all"),
    ("POST", "/v1/maintenance/runs/{run_id:str}/reject"): ({OPERATOR}, "all"),
}
FILLED: Final = {
    "{digest:str}": "d",
    "{name:str}": "n",
    "{member_id:str}": "m",
    "{topic:str}": "t",
    "{rebalance_id:str}": RUN,
    "{change_id:str}": RUN,
}


class TokenClient:
    """A client with one token, or with none."""

    def __init__(self, client: Client, token: str | None) -> None:
        self._client = client
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}

    def send(self, method: str, path: str, body: Json = None, **headers: str) -> Answer:
        content = None if body is None else self._client.encoded(body)
        kind = {} if body is None else {"Content-Type": "application/json"}
        return self._client.send(method, path, content, {**self._headers, **kind, **headers})


def entry(token: str, actor: str, role: str, *prefixes: str) -> Json:
    own = {"prefixes": list(prefixes)} if prefixes else {}
    return {"sha256": sha256(token.encode()).hexdigest(), "actor": actor, "role": role, **own}


ENTRIES: Final = [
    entry("agents", "billing", AGENT),
    entry("viewers", "vera", VIEWER),
    entry("operators", "olga", OPERATOR),
    *(entry(f"my-{role}s", f"my {role}", role, MINE, "also-mine-") for role in sorted(ALL)),
]


@pytest.fixture(scope="module")
def tokens_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens.json"
    path.write_text(json.dumps({"tokens": ENTRIES}))
    return path


@pytest.fixture(scope="module")
def clients(databases: Databases, tokens_file: Path) -> Iterator[list[Client]]:
    """Serve two nodes with tokens that share the shards."""
    url = databases.create()
    options: dict[str, str | int] = {
        "tokens_file": str(tokens_file),
        "cluster_secret": CLUSTER_SECRET,
        "group_initial_rebalance_delay_ms": 0,
    }
    with ExitStack() as stack:
        nodes = [stack.enter_context(running_node(url, lease_ttl_ms=9_000, **options)) for _ in range(2)]
        clients = [stack.enter_context(closing(Client(node.url))) for node in nodes]
        poll_until(lambda: all(sees_both(client) for client in clients))
        yield clients
    databases.drop(url)


def sees_both(client: Client) -> bool:
    """Return whether both nodes own half of the shards, according to one of them."""
    viewer = TokenClient(client, "viewers")
    return (
        len({viewer.send("GET", f"/v1/groups/g{number}/coordinator").json["url"] for number in range(30)} - {None}) == 2
    )


@pytest.fixture
def by_token(clients: list[Client]) -> "TokenClients":
    return TokenClients(clients[0])


class TokenClients:
    """The clients of one node, by token."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __getitem__(self, token: str | None) -> TokenClient:
        return TokenClient(self.client, token)


def routes() -> Iterator[tuple[str, str]]:
    """Return every route that a node has."""
    coordinator = cast("Coordinator", SimpleNamespace(listeners={"http": "http://a"}, is_mirror=False))
    edge = make_app(NodeContext(coordinator, NO_QUERIES, HttpLimits()), HttpLimits(), "0")
    for route in edge._litestar.routes:
        assert isinstance(route, HTTPRoute)
        yield from ((method, route.path) for method in route.methods if method != "OPTIONS")


def test_every_route_has_a_row() -> None:
    assert set(routes()) == set(ROUTES)


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_a_route_is_for_its_roles_and_its_groups_only(by_token: TokenClients, method: str, path: str) -> None:
    roles, scope = ROUTES[method, path]

    def refused(token: str | None, group_id: str) -> str | None:
        answer = by_token[token].send(method, filled(path, group_id), {} if method in {"POST", "PUT"} else None)
        return answer.code if answer.status in {401, 403} else None

    needs_token = "SASL_AUTHENTICATION_FAILED" if roles else None
    assert refused(None, "g") == needs_token
    assert refused("unknown", "g") == needs_token
    for role in sorted(ALL):
        of_role = "GROUP_AUTHORIZATION_FAILED" if roles and role not in roles else None
        of_scope = "GROUP_AUTHORIZATION_FAILED" if roles and scope in {"one", "all"} else None
        assert refused(f"{role}s", "g") == of_role
        assert refused(f"my-{role}s", "g") == (of_role or of_scope)
        assert refused(f"my-{role}s", MINE) == (of_role or (of_scope if scope == "all" else None))


def filled(path: str, group_id: str) -> str:
    """Return a path with something in the place of each parameter."""
    for parameter, value in {**FILLED, "{group_id:str}": group_id, "{run_id:str}": RUN}.items():
        path = path.replace(parameter, value)
    return path


def test_no_get_changes_anything(client: Client) -> None:
    before = client.ok("GET", "/v1/changes")
    for method, path in ROUTES:
        if method == "GET":
            answer = client.send("GET", filled(path, "g"), headers=ACTING)
            assert "x-muster-change-id" not in answer.headers

    assert client.ok("GET", "/v1/changes") == before


def test_security_page_names_the_open_routes() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    (row,) = [line for line in page.splitlines() if line.endswith("| open | open | open |")]
    opened = [path for (_, path), (roles, _) in ROUTES.items() if not roles]

    assert [path for path in opened if path.count("/") == 1 and path != "/" and f"`{path}`" not in row] == []
    assert "the console's page and files" in row


def test_missing_token_is_reported_with_advice(by_token: TokenClients) -> None:
    answer = by_token[None].send("GET", "/v1/groups")

    assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="muster"')
    assert answer.json["detail"] == "a bearer token is needed"
    assert by_token["unknown"].send("GET", "/v1/groups").json["detail"] == "the bearer token is unknown"


@pytest.mark.parametrize(
    "header", ["operators", "Basic operators", "Bearer", "Bearer ", "Bearer operators x", "Bearer " + "x" * 5_000]
)
def test_header_without_a_bearer_token_is_unauthorized(by_token: TokenClients, header: str) -> None:
    assert by_token[None].send("GET", "/v1/groups", Authorization=header).status == 401


def test_the_scheme_is_read_in_any_case(by_token: TokenClients) -> None:
    assert by_token[None].send("GET", "/v1/groups", Authorization="bEARER operators").status == 200


def test_unauthorized_request_does_not_reveal_the_owner(by_token: TokenClients) -> None:
    assert "x-muster-coordinator" not in by_token[None].send("GET", "/v1/groups/g").headers
    assert "x-muster-coordinator" in by_token["viewers"].send("GET", "/v1/groups/g/config").headers


# -- prefixes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "segment",
    ["other", "Mine-1", "%6Dine", "mine", "other%2Fmine-1", "~" + base64url.encode("other"), "~", "%2E%2E%2Fmine-1"],
)
def test_encoded_group_ids_outside_the_prefixes_are_forbidden(by_token: TokenClients, segment: str) -> None:
    assert by_token["my-operators"].send("GET", f"/v1/groups/{segment}").status == 403


@pytest.mark.parametrize("segment", ["mine-1", "%6Dine-1", "mine-%2F..%2Fother", "~" + base64url.encode("mine-1")])
def test_encoded_group_ids_inside_the_prefixes_are_allowed(by_token: TokenClients, segment: str) -> None:
    assert by_token["my-operators"].send("GET", f"/v1/groups/{segment}/config").status == 200


def test_empty_group_id_requires_all_permissions(by_token: TokenClients) -> None:
    assert by_token["my-agents"].send("GET", "/v1/groups/~/offsets").status == 403
    assert by_token["agents"].send("GET", "/v1/groups/~/offsets").status == 200


def commit(by_token: TokenClients, group_id: str) -> None:
    body = {"generation": -1, "member_id": "", "offsets": [position(5)]}
    assert by_token["operators"].send("POST", f"/v1/groups/{group_id}/offsets", body).status == 200


def test_a_list_shows_own_groups_only_page_by_page(by_token: TokenClients) -> None:
    mine = sorted([*(fresh_id("mine-list") for _ in range(3)), *(fresh_id("also-mine-list") for _ in range(3))])
    for group_id in [*mine, fresh_id("not-mine-list"), fresh_id("list")]:
        commit(by_token, group_id)
        by_token["operators"].send("POST", f"/v1/groups/{group_id}/join", join_body())

    listed: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = by_token["my-viewers"].send("GET", f"/v1/groups?limit=2&cursor={cursor}").json
        listed += [each["group_id"] for each in page["groups"] if "list" in each["group_id"]]
        cursor = page["next_cursor"]

    shown = by_token["viewers"].send("GET", "/v1/groups?limit=1000").json["groups"]
    assert listed == [each["group_id"] for each in shown if each["group_id"] in mine]
    assert listed == mine
    assert by_token["my-viewers"].send("GET", "/v1/groups?prefix=not-").json["groups"] == []
    narrow = by_token["my-viewers"].send("GET", "/v1/groups?prefix=mine-list").json["groups"]
    assert {each["group_id"] for each in narrow} == {each for each in mine if each.startswith("mine-")}


def test_groups_of_a_topic_are_listed_with_permission(by_token: TokenClients) -> None:
    mine, other = fresh_id(MINE), fresh_id("other")
    for group_id in (mine, other):
        commit(by_token, group_id)
        by_token["operators"].send("GET", f"/v1/groups/{group_id}/offsets")  # a fetch checkpoints: the table follows

    def listed(token: str) -> set[str]:
        groups = by_token[token].send("GET", "/v1/topics/orders").json["groups"]
        return {each["group_id"] for each in groups} & {mine, other}

    assert listed("viewers") == {mine, other}
    assert listed("my-viewers") == {mine}
    (summary,) = by_token["my-viewers"].send("GET", "/v1/overview/topics?q=orders").json["topics"]
    (whole,) = by_token["viewers"].send("GET", "/v1/overview/topics?q=orders").json["topics"]
    assert summary["group_count"] < whole["group_count"]


def delete_offsets(by_token: TokenClient, group_id: str, **headers: str) -> Answer:
    return by_token.send("DELETE", f"/v1/groups/{group_id}/offsets?topic=orders", **headers)


def test_changes_are_visible_and_undoable_with_permission(by_token: TokenClients) -> None:
    mine, other = fresh_id(MINE), fresh_id("other")
    ids = {}
    for group_id in (mine, other):
        commit(by_token, group_id)
        ids[group_id] = delete_offsets(by_token["operators"], group_id).headers["x-muster-change-id"]
    cluster = by_token["operators"].send("PUT", "/v1/config", {"values": {"group_max_size": 100}, "reason": "a test"})
    ids["cluster"] = cluster.headers["x-muster-change-id"]

    listed = {each["change_id"] for each in by_token["my-viewers"].send("GET", "/v1/changes").json["changes"]}
    assert listed & set(ids.values()) == {ids[mine]}
    for which in (other, "cluster"):
        assert by_token["my-viewers"].send("GET", f"/v1/changes/{ids[which]}").status == 403
        undo = by_token["my-operators"].send("POST", f"/v1/changes/{ids[which]}/undo", {"reason": "a test"})
        assert (undo.status, undo.code) == (403, "GROUP_AUTHORIZATION_FAILED")
    assert by_token["my-viewers"].send("GET", f"/v1/changes/{ids[mine]}").status == 200
    assert by_token["my-operators"].send("POST", f"/v1/changes/{ids[mine]}/undo", {"reason": "a test"}).status == 200


def test_decision_about_a_run_is_visible_to_tokens_for_all_groups_only(by_token: TokenClients) -> None:
    topic = fresh_id("topic")
    put = by_token["operators"].send("PUT", f"/v1/topics/{topic}", {"partitions": 1, "reason": "a test"})
    assert put.status == 200
    deleted = by_token["operators"].send("DELETE", f"/v1/topics/{topic}?reason=unused")
    path = f"/v1/maintenance/runs/{deleted.json['run_id']}"
    assert by_token["viewers"].send("GET", path).json["decision"]["reason"] == "unused"
    assert by_token["my-viewers"].send("GET", path).json["decision"] is None
    runs = by_token["my-viewers"].send("GET", "/v1/maintenance/runs").json["runs"]
    assert {each["decision"] for each in runs} == {None}


# -- actors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kept"), [({}, "olga"), ({"X-Muster-Actor": "olga"}, "olga"), ({"X-Muster-Actor": "ada"}, "olga (ada)")]
)
def test_actor_of_the_token_overrides_the_header(by_token: TokenClients, said: dict[str, str], kept: str) -> None:
    group_id = fresh_id()
    commit(by_token, group_id)

    change_id = delete_offsets(by_token["operators"], group_id, **said).headers["x-muster-change-id"]

    assert by_token["viewers"].send("GET", f"/v1/changes/{change_id}").json["actor"] == kept


def test_deletion_by_an_agent_is_recorded_under_its_token_s_actor(by_token: TokenClients) -> None:
    group_id = fresh_id(MINE)
    commit(by_token, group_id)

    change_id = delete_offsets(by_token["my-agents"], group_id).headers["x-muster-change-id"]

    assert by_token["viewers"].send("GET", f"/v1/changes/{change_id}").json["actor"] == "my agent"


def test_cached_response_is_not_returned_to_another_actor(by_token: TokenClients) -> None:
    key = {"Idempotency-Key": RUN}
    body = {"values": {"group_max_size": 90}, "reason": "a test"}
    assert by_token["operators"].send("PUT", "/v1/config", body, **key).status == 200

    assert by_token["viewers"].send("PUT", "/v1/config", body, **key).status == 403
    assert by_token["my-operators"].send("PUT", "/v1/config", body, **key).status == 403


# -- nodes among themselves ----------------------------------------------------------------------------------


def owned_by(clients: list[Client], number: int) -> Group:
    """Return a group that the node of this number owns."""
    while True:
        group = clients[number].group(fresh_id())
        seen = {
            TokenClient(client, "viewers").send("GET", f"{group.path}/coordinator").json["url"] for client in clients
        }
        if seen == {clients[number].url}:
            return group


def test_forwarded_request_carries_the_client_identity(clients: list[Client]) -> None:
    group = owned_by(clients, 1)
    body = {"values": {"group_max_size": 7}, "reason": "a test"}

    done = TokenClient(clients[0], "operators").send("PUT", f"{group.path}/config", body)
    refused = TokenClient(clients[0], "my-operators").send("PUT", f"{group.path}/config", body)

    change = TokenClient(clients[0], "viewers").send("GET", f"/v1/changes/{done.headers['x-muster-change-id']}").json
    assert (change["actor"], change["group_id"]) == ("olga", group.group_id)
    assert refused.status == 403


@pytest.mark.parametrize("secret", ["", "another cluster's"])
def test_a_forged_identity_is_refused(clients: list[Client], secret: str) -> None:
    answer = passed_on(clients[0], secret, Identity("olga", Role.OPERATOR))

    assert (answer.status, answer.code) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_identity_cannot_be_added_to_a_signature(clients: list[Client]) -> None:
    strange = forward_headers(CLUSTER_SECRET, clients[0].url, TARGET)
    forged = forward_headers("", clients[0].url, TARGET, identity=Identity("olga", Role.OPERATOR))

    answer = clients[0].send("GET", "/v1/groups", None, {**forged, **strange})

    assert (answer.status, answer.code) == (403, "CLUSTER_AUTHORIZATION_FAILED")


def test_signature_authenticates_no_user_on_a_node_without_tokens(clients: list[Client]) -> None:
    answer = passed_on(clients[0], CLUSTER_SECRET, None)

    assert (answer.status, answer.code) == (401, "SASL_AUTHENTICATION_FAILED")


def test_forwarded_identity_keeps_its_role(clients: list[Client]) -> None:
    assert passed_on(clients[0], CLUSTER_SECRET, Identity("vera", Role.VIEWER)).status == 200
    assert passed_on(clients[0], CLUSTER_SECRET, Identity("billing", Role.AGENT)).status == 403
    assert passed_on(clients[0], CLUSTER_SECRET, Identity("jürgen", Role.VIEWER, (MINE,))).status == 200


TARGET: Final = "GET /v1/groups"


def passed_on(client: Client, secret: str, identity: Identity | None) -> Answer:
    return client.send("GET", "/v1/groups", None, forward_headers(secret, client.url, TARGET, identity=identity))
