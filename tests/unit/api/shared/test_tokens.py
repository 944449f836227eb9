"""The tokens file: strict parsing, errors in one sentence, and reloading of a changed file."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from hashlib import sha256
from math import inf
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from api.shared import tokens as tokens_module
from api.shared.access_control import AccessControlEntry, Operation, PatternType, PermissionType, ResourceType
from api.shared.identity import Identity, Role, identity_bytes, read_identity
from api.shared.tls import ClientCertificate
from api.shared.tokens import Tokens, TokensFileError, token_entry, token_id_of
from tests.support.http_client import Json
from tests.support.tokens_file import ADA, BOB, Clock, TokensFile

DAY_S = 86_400


@pytest.fixture
def file(tmp_path: Path) -> TokensFile:
    return TokensFile(tmp_path / "tokens.json")


def id_of(entry: Json) -> str:
    return str(entry["sha256"])[:16]


def test_token_determines_the_actor(file: TokensFile) -> None:
    file.write(ADA, BOB)
    tokens = file.read()

    assert tokens.find(b"ada's") == Identity("ada", Role.OPERATOR, ("",), token_id=id_of(ADA))
    assert tokens.find(b"bob's") == Identity("bob", Role.VIEWER, ("billing-", "x"), token_id=id_of(BOB))
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


def test_an_actor_may_have_quotas_of_its_own(file: TokensFile) -> None:
    own = {"client_quota_requests_per_s": 500}
    file.write(ADA, {**BOB, "quotas": own})
    tokens = file.read()
    assert (tokens.quotas_of("bob"), tokens.quotas_of("ada")) == (own, {})

    file.write({**BOB, "quotas": {"client_quota_requests_per_s": 0}})
    with pytest.raises(TokensFileError, match=r"tokens\[0\]\.quotas"):
        file.read()


def test_first_name_of_a_certificate_that_the_file_has_counts(file: TokensFile) -> None:
    file.write(
        ADA,
        {"certificate": "DNS:billing.svc", "actor": "billing", "role": "agent"},
        {"certificate": "CN=ops", "actor": "ops", "role": "operator", "expires_at": "1970-01-02T00:00:00Z"},
    )
    tokens = file.read()

    found = tokens.find_certificate(ClientCertificate(("CN=unknown", "DNS:billing.svc", "CN=ops"), inf))
    assert found is not None
    assert found.actor == "billing"
    assert found.token_id == sha256(b"DNS:billing.svc").hexdigest()[:16]
    assert tokens.find_certificate(ClientCertificate(("CN=unknown",), inf)) is None
    assert tokens.find_certificate(ClientCertificate(("CN=ops",), inf)) is None  # it has expired
    assert tokens.find_certificate(ClientCertificate((ADA["sha256"],), inf)) is None
    assert tokens.find(b"DNS:billing.svc") is None


def test_certificate_that_has_expired_on_an_open_connection_names_no_client(file: TokensFile, tmp_path: Path) -> None:
    file.write({"certificate": "CN=billing", "actor": "billing", "role": "agent"})
    wall_s = [999.0]
    tokens = Tokens(tmp_path / "tokens.json", wall_s=lambda: wall_s[0])
    certificate = ClientCertificate(("CN=billing",), 1_000.0)

    assert tokens.find_certificate(certificate) is not None
    wall_s[0] = 1_000.0
    assert tokens.find_certificate(certificate) is None


def test_digest_is_not_accepted_as_a_token(file: TokensFile) -> None:
    file.write(ADA)

    assert file.read().find(ADA["sha256"].encode()) is None
    assert file.read().find(sha256(b"ada's").digest()) is None


def test_created_token_entry_is_accepted_by_the_token_file(file: TokensFile) -> None:
    entry = token_entry("ada's", "ada", Role.AGENT, ("a", "b"))
    file.write({"sha256": entry.sha256, "actor": entry.actor, "role": entry.role, "prefixes": entry.prefixes})

    assert entry.sha256 is not None
    assert file.read().find(b"ada's") == Identity("ada", Role.AGENT, ("a", "b"), token_id=entry.sha256[:16])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is not JSON"),
        ("{", "is not JSON"),
        ('{"tokens": [{"actor": "a", "role": "agent"}]}', "tokens[0] needs either sha256 or certificate"),
        ('{"tokens": [{"actor": "a", "role": "agent", "certificate": "billing"}]}', "tokens[0].certificate"),
        ("\xff", "is not JSON"),
        ('{"tokens": [{"actor": "\xff"}]}', "is not JSON"),
        ("[]", "expected object, got array"),
        ("{}", "missing required field tokens"),
        ('{"tokens": {}}', "tokens: expected array"),
        ('{"tokens": [], "more": 1}', "unknown field more"),
        ('{"tokens": [{}]}', "tokens[0]: object missing required field actor"),
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
            "tokens[0] has more prefixes, topics and acls than",
        ),
    ],
)
def test_invalid_file_is_reported_in_one_sentence(file: TokensFile, text: str, said: str) -> None:
    file.path.write_text(text, encoding="latin-1")

    with pytest.raises(TokensFileError) as refusal:
        file.read()

    assert said in str(refusal.value)
    assert str(refusal.value).startswith(str(file.path))
    assert "ada's" not in str(refusal.value)


def test_missing_file_is_reported_in_one_sentence(file: TokensFile) -> None:
    with pytest.raises(TokensFileError, match="cannot be read \\(No such file or directory\\)"):
        file.read()


def test_token_is_rejected_from_its_expiry_on(file: TokensFile) -> None:
    file.write({**ADA, "expires_at": "2027-03-01T01:00:00+01:00"}, BOB)
    wall = Clock()
    tokens = Tokens(file.path, file.clock, wall)
    over_s = datetime(2027, 3, 1, tzinfo=UTC).timestamp()

    wall.now_s = over_s - 1
    assert tokens.find(b"ada's") == Identity("ada", Role.OPERATOR, token_id=id_of(ADA))
    assert tokens.expired_at(b"ada's") is None
    wall.now_s = over_s
    assert tokens.find(b"ada's") is None
    assert tokens.expired_at(b"ada's") == datetime(2027, 3, 1, tzinfo=UTC)
    assert tokens.expired_at(b"bob's") is None
    assert tokens.expired_at(b"carl's") is None
    assert tokens.find(b"bob's") is not None


def test_lifetime_of_a_token_ends_with_its_expiry(file: TokensFile) -> None:
    file.write(ADA, {**BOB, "expires_at": "1970-01-01T00:01:00Z"})
    wall = Clock()
    tokens = Tokens(file.path, file.clock, wall)
    for token in (b"ada's", b"bob's"):
        assert tokens.find(token) is not None
    wall.now_s = 45.0
    assert (tokens.lifetime_s(b"bob's"), tokens.lifetime_s(b"ada's")) == (15.0, None)
    wall.now_s = 61.0
    assert tokens.lifetime_s(b"bob's") == 0.0


def test_token_use_is_logged_daily_in_its_last_week(file: TokensFile) -> None:
    file.write({**ADA, "expires_at": "2027-03-01T00:00:00Z"})
    wall = Clock()
    over_s = datetime(2027, 3, 1, tzinfo=UTC).timestamp()
    with capture_logs() as logs:
        tokens = Tokens(file.path, file.clock, wall)
        for days in (-8, -7, -6.5, -6, 0):
            wall.now_s = over_s + days * DAY_S
            tokens.find(b"ada's")

    assert [(each["event"], each["token_id"]) for each in logs] == [("token_expiring", token_id_of(b"ada's"))] * 3
    assert [each["is_expired"] for each in logs] == [False, False, True]
    assert logs[0]["actor"] == "ada"


def test_changed_token_file_is_read_within_a_second(file: TokensFile) -> None:
    file.write(ADA)
    tokens = file.read()
    file.write(BOB)

    file.clock.now_s = 0.9
    assert tokens.find(b"ada's") is not None
    file.clock.now_s = 1.0
    assert tokens.find(b"ada's") is None
    assert tokens.find(b"bob's") is not None


def test_credentials_are_read_once_while_the_tokens_are_the_same(file: TokensFile) -> None:
    read: list[bytes] = []

    def token_of(credentials: bytes) -> bytes:
        read.append(credentials)
        return credentials.removeprefix(b"Bearer ")

    file.write(ADA)
    tokens = file.read()
    found = [tokens.find(b"Bearer ada's", token_of) for _ in range(3)]
    assert found == [Identity("ada", Role.OPERATOR, token_id=id_of(ADA))] * 3
    assert [tokens.find(b"Bearer bob's", token_of) for _ in range(2)] == [None, None]
    assert read == [b"Bearer ada's", b"Bearer bob's", b"Bearer bob's"]

    tokens.replace_stored({})
    tokens.find(b"Bearer ada's", token_of)
    assert len(read) == 4


def test_a_version_is_current_until_tokens_change(file: TokensFile) -> None:
    file.write(ADA, {**BOB, "expires_at": "2999-01-01T00:00:00Z"})
    tokens = file.read()
    assert tokens.version_of(b"ada's") is None, "it has not been found"
    for token in (b"ada's", b"bob's", b"carl's"):
        tokens.find(token)
    assert (tokens.version_of(b"bob's"), tokens.version_of(b"carl's")) == (None, None), "it expires, and is unknown"

    version = tokens.version_of(b"ada's")
    assert version is not None
    assert tokens.is_current(version)
    tokens.replace_stored({})
    assert not tokens.is_current(version)

    tokens.find(b"ada's")
    version = tokens.version_of(b"ada's")
    assert version is not None
    file.write(ADA)
    file.clock.now_s += 60
    assert not tokens.is_current(version)


def test_no_more_credentials_are_remembered_than_their_limit(file: TokensFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens_module, "CREDENTIALS_KEPT", 2)
    read: list[bytes] = []

    def token_of(credentials: bytes) -> bytes:
        read.append(credentials)
        return b"ada's"

    file.write(ADA)
    tokens = file.read()
    long = b"c" * (2 * tokens_module.TOKEN_MAX_BYTES + 1)
    for credentials in (b"one", b"two", b"two", b"three", b"two", long, long):
        assert tokens.find(credentials, token_of) is not None
    assert read == [b"one", b"two", b"three", b"two", long, long]


def test_invalid_new_file_keeps_the_old_tokens(file: TokensFile) -> None:
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


def test_changed_link_target_is_a_changed_file(file: TokensFile, tmp_path: Path) -> None:
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


def test_an_identity_with_access_control_entries_is_encoded_for_another_node(file: TokensFile) -> None:
    acl = {"permission": "DENY", "operations": ["RESET"], "resource": "TOPIC", "pattern": "LITERAL", "name": "größe"}
    file.write({**ADA, "role": None, "acls": [acl]})
    entry = AccessControlEntry(
        PermissionType.DENY, (Operation.RESET,), ResourceType.TOPIC, PatternType.LITERAL, "größe"
    )
    found = file.read().find(b"ada's")

    assert found == Identity("ada", None, acls=(entry,), token_id=id_of(ADA))
    assert read_identity(identity_bytes(found)) == Identity("ada", None, acls=(entry,))
    assert len(json.loads(identity_bytes(Identity("ada", Role.AGENT, token_id="t")))) == 4, "the form of 0.1.0"


def test_identity_is_encoded_into_an_ascii_header() -> None:
    identity = Identity("Jürgen\r\nX-Evil: 1", Role.OPERATOR, ("größe-", "\n"))

    assert identity_bytes(identity).isascii()
    assert b"\n" not in identity_bytes(identity)
    assert read_identity(identity_bytes(identity)) == identity
