"""`muster tokens`: what it stores and prints, and how soon every node knows it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psycopg2
import pytest
from structlog.testing import capture_logs

from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.http_client import Client
from tests.support.muster_command import Muster
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.waiting import poll_until


@pytest.fixture
def url(databases: Databases, bare_muster: Muster, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Give a database that the command uses."""
    url = databases.create()
    monkeypatch.setenv("MUSTER_DATABASE_URL", url)
    yield url
    databases.drop(url)


def test_every_node_knows_issued_expired_and_revoked_tokens(url: str, bare_muster: Muster) -> None:
    with ExitStack() as stack:
        stack.enter_context(capture_logs())
        options = {"require_tokens": "true", "cluster_secret": CLUSTER_SECRET}
        nodes = [stack.enter_context(running_node(url, lease_ttl_ms=9_000, **options)) for _ in range(2)]
        clients = [stack.enter_context(closing(Client(node.url))) for node in nodes]

        def statuses(token: str) -> set[int]:
            headers = {"Authorization": f"Bearer {token}"}
            return {client.send("GET", "/v1/groups", None, headers).status for client in clients}

        def are(*expected: int) -> bool:
            return [statuses(each["token"]) for each in issued] == [{status} for status in expected]

        issued = [
            bare_muster.ok("tokens", "issue", "--actor", role, "--role", role, "--json").json
            for role in ("viewer", "operator", "agent")
        ]
        poll_until(lambda: are(200, 200, 403))
        bare_muster.ok("tokens", "revoke", issued[0]["token_id"])
        bare_muster.ok("tokens", "expire", issued[1]["token_id"])
        poll_until(lambda: are(401, 401, 403))


def test_a_token_is_printed_once_and_its_digest_is_not_listed(url: str, bare_muster: Muster) -> None:
    entry = "reset,commit:GROUP:PREFIXED:pay:ments"
    issued = bare_muster.ok("tokens", "issue", "--actor", "ada", "--allow", entry, "--days", "3", "--json").json
    said = bare_muster.ok("tokens", "list", "--json").out
    (listed,) = bare_muster.ok("tokens", "list", "--json").json["tokens"]

    assert issued["token"] not in said
    assert "sha256" not in said
    assert listed["token_id"] == issued["token_id"]
    assert listed["revoked_at"] is None
    assert listed["expires_at"] > listed["issued_at"]
    assert listed["acls"] == [
        {
            "permission": "ALLOW",
            "operations": ["RESET", "COMMIT"],
            "resource": "GROUP",
            "pattern": "PREFIXED",
            "name": "pay:ments",
        }
    ]
    assert issued["token_id"] in bare_muster.ok("tokens", "list").out


def test_what_happens_to_tokens_is_in_the_audit_log(url: str, bare_muster: Muster) -> None:
    issued = bare_muster.ok("tokens", "issue", "--actor", "ada", "--role", "agent", "--by", "olga", "--json").json
    token_id = issued["token_id"]
    bare_muster.ok("tokens", "expire", token_id, "--days", "7", "--by", "olga")
    bare_muster.ok("tokens", "revoke", token_id, "--by", "olga", "--reason", "lost")
    with closing(psycopg2.connect(psql_url(url))) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT actor, action, after ->> 'token_id', reason FROM changes ORDER BY at")
        changes = cursor.fetchall()
        cursor.execute("SELECT to_jsonb(changes)::text || to_jsonb(tokens)::text FROM changes, tokens")
        stored = "".join(text for (text,) in cursor.fetchall())

    assert changes == [
        ("olga", "issue_token", token_id, "no reason given"),
        ("olga", "expire_token", token_id, "no reason given"),
        ("olga", "revoke_token", token_id, "lost"),
    ]
    exported = [json.loads(line) for line in bare_muster.ok("changes", "export").out.splitlines()]
    assert [(each["action"], each["seal"]) for each in exported] == [
        ("issue_token", None),
        ("expire_token", None),
        ("revoke_token", None),
    ]
    assert token_id in stored
    assert issued["token"] not in stored


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("issue", "--actor", "ada"), "neither a role nor acls"),
        (("issue", "--actor", "ada", "--allow", "read:group"), "is no entry OPERATIONS:RESOURCE:PATTERN:NAME"),
        (("issue", "--actor", "ada", "--deny", "fly:GROUP:LITERAL:a"), "is no entry OPERATIONS:RESOURCE:PATTERN:NAME"),
    ],
)
def test_a_token_that_could_do_nothing_is_not_issued(
    url: str, bare_muster: Muster, arguments: tuple[str, ...], said: str
) -> None:
    assert said in bare_muster.refused(2, "tokens", *arguments)
    assert bare_muster.ok("tokens", "list").out == "No tokens.\n"


def test_an_unknown_or_revoked_token_is_not_changed(url: str, bare_muster: Muster) -> None:
    token_id = bare_muster.ok("tokens", "issue", "--actor", "ada", "--role", "agent", "--json").json["token_id"]
    bare_muster.ok("tokens", "revoke", token_id)

    assert "does not exist" in bare_muster.refused(1, "tokens", "revoke", "0123456789abcdef")
    assert "was revoked already" in bare_muster.refused(1, "tokens", "expire", token_id, "--days", "9")


def test_an_expired_token_is_not_valid_again(url: str, bare_muster: Muster) -> None:
    token_id = bare_muster.ok("tokens", "issue", "--actor", "ada", "--role", "agent", "--json").json["token_id"]
    bare_muster.ok("tokens", "expire", token_id)

    assert "has expired already" in bare_muster.refused(1, "tokens", "expire", token_id, "--days", "9")
    bare_muster.ok("tokens", "revoke", token_id)


def test_tokens_that_expire_soon_are_marked_and_reported_by_the_doctor(url: str, bare_muster: Muster) -> None:
    def reported() -> list[str]:
        checks = bare_muster("doctor", "--json").json["checks"]
        return next([each["status"], each["message"]] for each in checks if each["check"] == "issued tokens")

    def issue(actor: str, *options: str) -> str:
        issued = bare_muster.ok("tokens", "issue", "--actor", actor, "--role", "viewer", *options, "--json").json
        return str(issued["token_id"])

    issue("for-ever")
    issue("later", "--days", "30")
    revoked = issue("revoked", "--days", "3")
    bare_muster.ok("tokens", "revoke", revoked)
    assert reported() == ["ok", "2 valid tokens in the database"]
    issue("soon", "--days", "10")
    expired = issue("expired")
    bare_muster.ok("tokens", "expire", expired)

    status, message = reported()
    assert (status, message.partition(", the")[0]) == ("warning", "1 token of 3 will expire within 14 days")
    lines = {line.split()[1]: line for line in bare_muster.ok("tokens", "list").out.splitlines()[1:]}
    assert "(in 9 days)" in lines["soon"]
    assert "(expired)" in lines["expired"]
    assert not any("(" in lines[actor] for actor in ("for-ever", "later", "revoked"))
