"""The tokens file: strict parsing, errors in one sentence, and reloading of a changed file."""

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from api.http.tokens import Identity, Role, Tokens, TokensFileError, identity_bytes, read_identity, token_entry
from muster.errors import UserError
from muster.node import bound_listener, open_store, serve_node
from muster.settings import Settings
from tests.support.databases import Databases
from tests.support.http_client import Client, Json
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.waiting import poll_until

DAY_S = 86_400
ADA = {"sha256": sha256(b"ada's").hexdigest(), "actor": "ada", "role": "operator"}
BOB = {"sha256": sha256(b"bob's").hexdigest(), "actor": "bob", "role": "viewer", "prefixes": ["billing-", "x"]}


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class File:
    """A tokens file, read as by a node after each write."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()

    def write(self, *tokens: Json) -> None:
        self.write_text(json.dumps({"tokens": list(tokens)}))

    def write_text(self, text: str) -> None:
        draft = self.path.with_suffix(".new")
        draft.write_text(text)
        draft.replace(self.path)

    def read(self) -> Tokens:
        return Tokens(self.path, self.clock)


@pytest.fixture
def file(tmp_path: Path) -> File:
    return File(tmp_path / "tokens.json")


def test_token_determines_the_actor(file: File) -> None:
    file.write(ADA, BOB)
    tokens = file.read()

    assert tokens.find(b"ada's") == Identity("ada", Role.OPERATOR, ("",))
    assert tokens.find(b"bob's") == Identity("bob", Role.VIEWER, ("billing-", "x"))
    assert tokens.find(b"carl's") is None
    assert tokens.find(b"") is None


@pytest.mark.parametrize(
    ("identity", "trusted"),
    [
        (Identity("a", Role.AGENT), ()),
        (Identity("a", Role.AGENT, ("",), ("orders", "clicks-")), ("orders", "clicks-")),
        (Identity("a", Role.OPERATOR), ("",)),
        (Identity("a", Role.OPERATOR, ("",), ("orders",)), ("orders",)),
        (Identity("a", Role.OPERATOR, ("billing-",)), ()),
    ],
)
def test_a_token_is_trusted_for_the_topics_it_names(identity: Identity, trusted: tuple[str, ...]) -> None:
    assert identity.trusted_topic_prefixes == trusted
    assert read_identity(identity_bytes(identity)) == identity


def test_nodes_of_earlier_releases_read_an_identity_without_topics() -> None:
    assert json.loads(identity_bytes(Identity("a", Role.AGENT, ("b",)))) == ["a", "agent", ["b"]]


def test_digest_is_not_accepted_as_a_token(file: File) -> None:
    file.write(ADA)

    assert file.read().find(ADA["sha256"].encode()) is None
    assert file.read().find(sha256(b"ada's").digest()) is None


def test_created_token_entry_is_accepted_by_the_token_file(file: File) -> None:
    entry = token_entry("ada's", "ada", Role.AGENT, ("a", "b"))
    file.write({"sha256": entry.sha256, "actor": entry.actor, "role": entry.role, "prefixes": entry.prefixes})

    assert file.read().find(b"ada's") == Identity("ada", Role.AGENT, ("a", "b"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ("\xff", "is not JSON"),
        ('{"tokens": [{"actor": "\xff"}]}', "is not JSON"),
        ("[]", "expected object, got array"),
        ("{}", "missing required field tokens"),
        ('{"tokens": {}}', "tokens: expected array"),
        ('{"tokens": [], "more": 1}', "unknown field more"),
        ('{"tokens": [{}]}', "tokens[0]: object missing required field sha256"),
        (json.dumps({"tokens": [{**ADA, "token": "ada's"}]}), "unknown field token"),
        (json.dumps({"tokens": [{**ADA, "sha256": "ada's"}]}), "tokens[0].sha256: expected str matching regex"),
        (json.dumps({"tokens": [{**ADA, "sha256": ADA["sha256"].upper()}]}), "tokens[0].sha256: expected str"),
        (json.dumps({"tokens": [{**ADA, "actor": ""}]}), "tokens[0].actor: expected str of length >= 1"),
        (json.dumps({"tokens": [{**ADA, "role": "root"}]}), "tokens[0].role: invalid enum value 'root'"),
        (json.dumps({"tokens": [{**ADA, "prefixes": []}]}), "tokens[0].prefixes: expected array of length >= 1"),
        (json.dumps({"tokens": [{**ADA, "prefixes": "a"}]}), "tokens[0].prefixes: expected array, got str"),
        (json.dumps({"tokens": [{**ADA, "topics": "a"}]}), "tokens[0].topics: expected array, got str"),
        (
            json.dumps({"tokens": [{**ADA, "topics": ["a" * 250]}]}),
            "tokens[0].topics[0]: expected str of length <= 249",
        ),
        (json.dumps({"tokens": [{**ADA, "expires_at": "soon"}]}), "tokens[0].expires_at: invalid RFC3339"),
        (json.dumps({"tokens": [{**ADA, "expires_at": "2027-03-01T00:00:00"}]}), "tokens[0].expires_at: "),
        (json.dumps({"tokens": [ADA, {**BOB, "sha256": ADA["sha256"]}]}), "tokens[1] has the sha256 of another token"),
        (
            json.dumps({"tokens": [{**ADA, "prefixes": ["a" * 255] * 100}]}),
            "tokens[0] has more prefixes and topics than",
        ),
    ],
)
def test_invalid_file_is_reported_in_one_sentence(file: File, text: str, said: str) -> None:
    file.path.write_text(text, encoding="latin-1")

    with pytest.raises(TokensFileError) as refusal:
        file.read()

    assert said in str(refusal.value)
    assert str(refusal.value).startswith(str(file.path))
    assert "ada's" not in str(refusal.value)


def test_missing_file_is_reported_in_one_sentence(file: File) -> None:
    with pytest.raises(TokensFileError, match="cannot be read \\(No such file or directory\\)"):
        file.read()


def test_token_is_rejected_from_its_expiry_on(file: File) -> None:
    file.write({**ADA, "expires_at": "2027-03-01T01:00:00+01:00"}, BOB)
    wall = Clock()
    tokens = Tokens(file.path, file.clock, wall)
    over_s = datetime(2027, 3, 1, tzinfo=UTC).timestamp()

    wall.now_s = over_s - 1
    assert tokens.find(b"ada's") == Identity("ada", Role.OPERATOR)
    assert tokens.expired_at(b"ada's") is None
    wall.now_s = over_s
    assert tokens.find(b"ada's") is None
    assert tokens.expired_at(b"ada's") == datetime(2027, 3, 1, tzinfo=UTC)
    assert tokens.expired_at(b"bob's") is None
    assert tokens.expired_at(b"carl's") is None
    assert tokens.find(b"bob's") is not None


def test_token_use_is_logged_daily_in_its_last_week(file: File) -> None:
    file.write({**ADA, "expires_at": "2027-03-01T00:00:00Z"})
    wall = Clock()
    over_s = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
    with capture_logs() as logs:
        tokens = Tokens(file.path, file.clock, wall)
        for days in (-8, -7, -6.5, -6, 0):
            wall.now_s = over_s + days * DAY_S
            tokens.find(b"ada's")

    assert [each["event"] for each in logs] == ["token_expiring"] * 3
    assert [each["is_expired"] for each in logs] == [False, False, True]
    assert logs[0]["actor"] == "ada"


def test_changed_token_file_is_read_within_a_second(file: File) -> None:
    file.write(ADA)
    tokens = file.read()
    file.write(BOB)

    file.clock.now_s = 0.9
    assert tokens.find(b"ada's") is not None
    file.clock.now_s = 1.0
    assert tokens.find(b"ada's") is None
    assert tokens.find(b"bob's") is not None


def test_invalid_new_file_keeps_the_old_tokens(file: File) -> None:
    file.write(ADA)
    tokens = file.read()
    changes: list[Callable[[], object]] = [lambda: file.write_text("{"), file.path.unlink]
    for now_s, change in enumerate(changes, 1):
        change()
        file.clock.now_s = float(now_s)
        assert tokens.find(b"ada's") is not None
    file.write()
    file.clock.now_s = 9.0
    assert tokens.find(b"ada's") is None


def test_changed_link_target_is_a_changed_file(file: File, tmp_path: Path) -> None:
    another = {**ADA, "sha256": BOB["sha256"]}
    for name, entry in (("one", ADA), ("two", another)):
        (tmp_path / name).write_text(json.dumps({"tokens": [entry]}))
    os.utime(tmp_path / "two", ns=(0, (tmp_path / "one").stat().st_mtime_ns))
    file.path.symlink_to(tmp_path / "one")
    tokens = file.read()
    (tmp_path / "link").symlink_to(tmp_path / "two")
    (tmp_path / "link").replace(file.path)

    file.clock.now_s = 1.0

    assert tokens.find(b"bob's") is not None


@pytest.mark.parametrize(
    ("own", "asked", "within"),
    [
        (("",), "", [""]),
        (("",), "a", ["a"]),
        (("b", "a"), "", ["a", "b"]),
        (("a", "ab"), "", ["a"]),
        (("ab", "ac", "b"), "a", ["ab", "ac"]),
        (("ab",), "abc", ["abc"]),
        (("ab", "a"), "abc", ["abc"]),
        (("ab",), "b", []),
    ],
)
def test_requested_prefix_is_intersected_with_own_prefixes(own: tuple[str, ...], asked: str, within: list[str]) -> None:
    assert Identity("ada", Role.VIEWER, own).prefixes_within(asked) == within


def test_identity_is_encoded_into_an_ascii_header() -> None:
    identity = Identity("Jürgen\r\nX-Evil: 1", Role.OPERATOR, ("größe-", "\n"))

    assert identity_bytes(identity).isascii()
    assert b"\n" not in identity_bytes(identity)
    assert read_identity(identity_bytes(identity)) == identity


# -- nodes ------------------------------------------------------------------------------------------------


@pytest.fixture
def client(databases: Databases, file: File) -> Iterator[Client]:
    url = databases.create()
    file.write(ADA)
    with (
        running_node(url, tokens_file=str(file.path), cluster_secret=CLUSTER_SECRET) as node,
        closing(Client(node.url)) as client,
    ):
        yield client
    databases.drop(url)


def test_node_reads_a_changed_token_file_without_restart(client: Client, file: File) -> None:
    def status(token: str) -> int:
        return client.send("GET", "/v1/groups", None, {"Authorization": f"Bearer {token}"}).status

    assert (status("ada's"), status("bob's")) == (200, 401)
    file.write(BOB)
    poll_until(lambda: status("bob's") == 200)
    assert status("ada's") == 401
    assert client.send("GET", "/healthz").status == 200


def test_expired_token_is_reported(client: Client, file: File) -> None:
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
    [(CLUSTER_SECRET, "MUSTER_TOKENS_FILE: .* cannot be read"), (None, "needs MUSTER_CLUSTER_SECRET too")],
)
def test_node_with_an_invalid_token_file_does_not_start(
    database_url: str, file: File, secret: str | None, said: str
) -> None:
    settings = Settings(database_url=database_url, tokens_file=file.path, cluster_secret=secret)  # type: ignore[arg-type]  # validated there
    if secret is None:
        file.write(ADA)

    with bound_listener("127.0.0.1", 0) as listener, closing(open_store(settings)) as store:
        serving_nothing = serve_node(settings, store, listener, asyncio.Event(), lambda: None)
        with pytest.raises(UserError, match=said):
            asyncio.run(serving_nothing)
