"""Settings from the environment: defaults, and errors in one sentence without the value."""

import os
import re
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import pytest
from psycopg2.extensions import parse_dsn
from pydantic import ValidationError
from sqlalchemy import make_url

from api.http.limits import HttpLimits
from coordinator_core.protocol.setting_rules import CLUSTER_RULES, INT32_MAX, RULES, ChoiceRule, IntegerRule
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.runtime.config import NodeConfig
from muster.errors import UserError
from muster.misspelled_settings import misspelled
from muster.settings import ENVIRONMENT_PREFIX, GROUP_KEYS, Settings, load_settings, psql_url
from tests.support.repository import ROOT


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)


def refusal() -> str:
    with pytest.raises(UserError) as refused:
        load_settings()
    assert refused.value.exit_code == 2
    return refused.value.sentence


def values_of(rule: IntegerRule | ChoiceRule) -> tuple[Sequence[int | str], Sequence[int | str]]:
    """Return values that the rule accepts, and values that it rejects."""
    if isinstance(rule, ChoiceRule):
        return rule.choices, ["neither"]
    return [rule.low, rule.high], [rule.low - 1, rule.high + 1]


def test_the_defaults_of_groups_are_those_of_the_protocol() -> None:
    assert load_settings().group_settings() == GroupSettings()


def test_the_console_describes_every_setting_that_can_be_changed() -> None:
    source = (ROOT / "api/console/static/settings_section.js").read_text()
    descriptions = re.search(r"DESCRIPTIONS = {(.*?)};", source, re.DOTALL)
    assert descriptions is not None
    assert set(re.findall(r"(\w+): \"", descriptions[1])) == {*RULES, *CLUSTER_RULES}


@pytest.mark.parametrize("key", GROUP_KEYS)
def test_environment_accepts_the_same_values_as_groups(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, refused = values_of(RULES[key])
    if key == "heartbeat_interval_ms":
        taken = [1, INT32_MAX - 1]  # It must be below the session timeout, whose bound is the same.
    monkeypatch.setenv("MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS", "1")
    monkeypatch.setenv("MUSTER_GROUP_MAX_SESSION_TIMEOUT_MS", "2147483647")
    for value in taken:
        monkeypatch.setenv(f"MUSTER_{key.upper()}", str(value))
        assert getattr(load_settings().group_settings(), key) == value
    for value in refused:
        monkeypatch.setenv(f"MUSTER_{key.upper()}", str(value))
        assert refusal().startswith(f"MUSTER_{key.upper()} should be ")


def test_node_defaults_match_the_runtime_and_the_http_server() -> None:
    settings = load_settings()
    for defaults in (NodeConfig("node", {"http": "http://node"}), HttpLimits()):
        own = {field.name: getattr(defaults, field.name) for field in fields(defaults)}
        shared = own.keys() & Settings.model_fields.keys()
        assert {key: getattr(settings, key) for key in shared} == {key: own[key] for key in shared}


def test_environment_settings_are_distinguished_from_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_GROUP_MAX_SIZE", "3")
    settings = load_settings()
    assert settings.group_settings().group_max_size == 3
    assert settings.group_settings_from_environment() == {"group_max_size"}


def test_override_takes_precedence_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HTTP_PORT", "9000")
    assert load_settings().http_port == 9000
    assert load_settings(http_port=9001).http_port == 9001
    assert load_settings(http_port=None).http_port == 9000


def test_an_empty_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "")
    assert load_settings().database_url is None


def test_a_blank_variable_counts_as_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    absent = load_settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(f"MUSTER_{name.upper()}", " \n")
    assert load_settings() == absent
    assert load_settings().group_settings_from_environment() == frozenset()


def test_line_break_at_the_end_of_a_secret_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", "postgresql://ada:secret@db/muster\n")
    monkeypatch.setenv("MUSTER_CLUSTER_SECRET", "s" * 32 + "\n")
    settings = load_settings()
    assert settings.database_url is not None
    assert settings.cluster_secret is not None
    assert settings.database_url.get_secret_value() == "postgresql+psycopg2://ada:secret@db/muster"
    assert settings.cluster_secret.get_secret_value() == "s" * 32


def test_wrong_number_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_HTTP_PORT", "99999")
    assert refusal() == "MUSTER_HTTP_PORT should be less than or equal to 65535."


def test_all_invalid_settings_are_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SHARDS", "none")
    monkeypatch.setenv("MUSTER_GROUP_SYNC_TIMEOUT_SCOPE", "some")
    assert "MUSTER_SHARDS should be a valid integer" in refusal()
    assert "MUSTER_GROUP_SYNC_TIMEOUT_SCOPE should be 'all' or 'dynamic'" in refusal()


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"GROUP_MIN_SESSION_TIMEOUT_MS": "2000000"},
            "MUSTER_GROUP_MIN_SESSION_TIMEOUT_MS (2000000) is above MUSTER_GROUP_MAX_SESSION_TIMEOUT_MS (1800000).",
        ),
        ({"SESSION_TIMEOUT_MS": "1000"}, "MUSTER_SESSION_TIMEOUT_MS (1000) must be from 6000 to 1800000."),
        (
            {"SESSION_TIMEOUT_MS": "8000", "HEARTBEAT_INTERVAL_MS": "9000"},
            "MUSTER_HEARTBEAT_INTERVAL_MS (9000) must be below the session timeout (8000).",
        ),
    ],
)
def test_contradictory_environment_settings_are_rejected_at_start(
    environment: dict[str, str], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in environment.items():
        monkeypatch.setenv(f"MUSTER_{name}", text)
    assert refusal() == sentence


@pytest.mark.parametrize("name", ["MUSTER_DATABASE_URL", "MUSTER_JOBS_DATABASE_URL"])
def test_a_refused_database_url_keeps_its_password(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "mysql://muster:hunter2@db/muster")
    assert refusal().startswith(f"{name} should look like postgresql://")
    assert "hunter2" not in refusal()
    with pytest.raises(ValidationError) as unexplained:
        Settings()
    assert "hunter2" not in str(unexplained.value)


@pytest.mark.parametrize("rest", ["db:abc/m", "db:/m", "u:hunter2@[::1/m", "u:hun@ter2@db/m", "u:hunter2"])
def test_a_malformed_database_url_is_refused(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"postgresql://{rest}")
    assert refusal() == "MUSTER_DATABASE_URL should look like postgresql://user:password@host:5432/muster."


@pytest.mark.parametrize("options", ["foo=bar", "sslmode=require&foo=bar", "ssl=true"])
def test_an_unknown_option_of_a_database_url_is_refused(options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"postgresql://db/m?{options}")
    assert refusal() == "MUSTER_DATABASE_URL has an option that Postgres' client library does not know."


@pytest.mark.parametrize("options", ["host=a,b&port=5432", "host=a&port=x", "host=a:1&host=b:2&port=3"])
def test_ports_of_a_database_url_that_are_not_one_for_each_host_are_refused(
    options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"postgresql:///m?{options}")
    assert refusal() == "MUSTER_DATABASE_URL needs a port for each host, as in ?host=db-1,db-2&port=5432,5432."


@pytest.mark.parametrize(
    "rest",
    [
        *("/", "db", "db/", "u@db/m", "u:a/b?c:d@db:5432/m", "[::1]:5432/m", "u:@db/m?sslmode=verify-full"),
        "u:p@/m?host=db-1,db-2&port=5432,5432&target_session_attrs=read-write&options=-c%20role%3Dada",
    ],
)
def test_every_form_of_a_database_url_is_accepted(rest: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"postgresql://{rest}")
    load_settings()
    make_url(f"postgresql://{rest}")


@pytest.mark.parametrize("password", ["100%sure", "a/b?c:d#e", "p%40%25", "ü +", ""])
def test_client_library_reads_the_same_password_as_nodes(password: str) -> None:
    url = f"postgresql+psycopg2://u%2Fv:{password}@db:5432/m?application_name=a%20b"
    read = parse_dsn(psql_url(url))
    assert (read["user"], read.get("password", "")) == (make_url(url).username, make_url(url).password)
    assert (read["host"], read["port"], read["dbname"], read["application_name"]) == ("db", "5432", "m", "a b")


@pytest.mark.parametrize(
    ("hosts", "ports"),
    [("host=a&host=b", ","), ("host=a:1&application_name=x&host=b:2", "1,2"), ("host=a,b&port=1,2", "1,2")],
)
def test_client_library_reads_all_hosts_as_nodes_do(hosts: str, ports: str) -> None:
    read = parse_dsn(psql_url(f"postgresql+psycopg2://u:p@/m?{hosts}&target_session_attrs=read-write"))
    assert (read["host"], read["port"], read["target_session_attrs"]) == ("a,b", ports, "read-write")


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg2"])
def test_every_spelling_of_a_database_url_names_our_driver(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_DATABASE_URL", f"{scheme}://muster:hunter2@db:5432/muster")
    settings = load_settings()
    assert settings.database_url is not None
    url = settings.database_url.get_secret_value()
    assert url == "postgresql+psycopg2://muster:hunter2@db:5432/muster"
    assert psql_url(url) == "postgresql://muster:hunter2@db:5432/muster"
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1", "localhost"])
def test_node_without_tokens_may_listen_on_loopback(host: str) -> None:
    assert load_settings(http_host=host).http_host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "muster.example"])
def test_node_without_tokens_may_not_listen_beyond_loopback(host: str) -> None:
    with pytest.raises(UserError, match=r"MUSTER_HTTP_HOST .* only with MUSTER_TOKENS_FILE or MUSTER_REQUIRE_TOKENS"):
        load_settings(http_host=host)
    assert load_settings(http_host=host, tokens_file=Path("tokens.json")).http_host == host


def test_node_url_is_the_advertised_one() -> None:
    assert load_settings(http_port=9000).node_url == "http://127.0.0.1:9000"
    assert load_settings(http_host="::1").node_url == "http://[::1]:8080"
    assert load_settings(advertised_url="http://muster.example").node_url == "http://muster.example"


@pytest.mark.parametrize("url", ["https://node:1", "http://[::1]:8080", "http://muster_1.example.org:65535/"])
def test_advertised_url_has_scheme_and_host(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_ADVERTISED_URL", url)
    assert load_settings().node_url == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        *("node-1:8080", "10.0.0.1:8080", "node-1", "ftp://node", "http://", "http://node:0", "http://node:65536"),
        *("http://node/?a", "http://node?a", "http://ada@node", "http://no de"),
    ],
)
def test_invalid_advertised_url_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a scheme it has no host, and the node no id."""
    monkeypatch.setenv("MUSTER_ADVERTISED_URL", url)
    assert refusal() == "MUSTER_ADVERTISED_URL should look like http://muster-1.example.org:8080."


@pytest.mark.parametrize("address", ["node", "node:0", "node:65536", "http://node:9092", "node:9092/"])
def test_invalid_advertised_address_of_the_kafka_listener_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_KAFKA_ADVERTISED", address)
    assert refusal() == "MUSTER_KAFKA_ADVERTISED should look like muster-1.example.org:9092."


@pytest.mark.parametrize("address", ["a:b", "kafka:0", "127.0.0.1:65536", "[::1", "a:1:2", "kafka://a:9092", ","])
def test_invalid_broker_of_a_mirror_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_MIRROR_BOOTSTRAP_SERVERS", f"kafka-1:9092,{address}")
    assert refusal() == "MUSTER_MIRROR_BOOTSTRAP_SERVERS should look like kafka-1:9092,kafka-2:9092."


@pytest.mark.parametrize("brokers", ["kafka-1", "kafka-1:9092, kafka-2:65535", "[::1]:1,[::1]"])
def test_brokers_of_a_mirror_may_leave_out_the_port(brokers: str) -> None:
    assert Settings(mirror_bootstrap_servers=brokers).mirror_bootstrap_servers == brokers


def test_the_data_directory_is_below_the_current_one_unless_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_settings().data_dir == tmp_path / ".muster"
    assert load_settings(data_dir=Path("other")).data_dir == tmp_path / "other"


@pytest.mark.parametrize(
    ("given", "hosts"),
    [
        ("Muster.Example.org", ("muster.example.org",)),
        (" muster, *.svc.cluster.local ,,[2001:db8::1]", ("muster", "*.svc.cluster.local", "[2001:db8::1]")),
    ],
)
def test_allowed_hosts_are_separated_by_commas(
    given: str, hosts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MUSTER_ALLOWED_HOSTS", given)
    assert load_settings().allowed_hosts == hosts


@pytest.mark.parametrize("given", ["*", "http://muster", "muster:8080", "a b", "muster.*", "a..b"])
def test_invalid_allowed_host_is_rejected(given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_ALLOWED_HOSTS", given)
    assert refusal() == f"MUSTER_ALLOWED_HOSTS has {given!r}, which is no host like muster.example.org or *.svc."


def test_a_cluster_secret_has_at_least_32_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_CLUSTER_SECRET", "x" * 31)
    sentence = "MUSTER_CLUSTER_SECRET must have at least 32 bytes; `openssl rand -hex 32` makes one."
    assert refusal() == sentence

    monkeypatch.setenv("MUSTER_CLUSTER_SECRET", "x" * 32)
    assert load_settings().cluster_secret is not None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"TLS_KEY_FILE": "k"}, "MUSTER_TLS_CERTIFICATE_FILE is required with MUSTER_TLS_KEY_FILE"),
        ({"TLS_CLIENT_CA_FILE": "c"}, "MUSTER_TLS_CERTIFICATE_FILE is required"),
        ({"TLS_CERTIFICATE_FILE": "c", "TLS_CLIENT_AUTH": "required"}, "MUSTER_TLS_CLIENT_CA_FILE is required"),
        (
            {"TLS_CERTIFICATE_FILE": "c", "ADVERTISED_URL": "http://node:1"},
            "MUSTER_ADVERTISED_URL must begin with https",
        ),
    ],
)
def test_tls_settings_belong_together(given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"MUSTER_{name}", value)

    assert refusal().startswith(said)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SSL_CA_FILE": "c"}, "MUSTER_MIRROR_SSL_… belongs to MUSTER_MIRROR_SECURITY_PROTOCOL SSL and SASL_SSL."),
        (
            {"SECURITY_PROTOCOL": "SSL", "SSL_KEY_FILE": "k"},
            "MUSTER_MIRROR_SSL_CERTIFICATE_FILE is required with MUSTER_MIRROR_SSL_KEY_FILE.",
        ),
    ],
)
def test_files_of_tls_that_a_mirror_would_not_use_are_refused(
    given: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would connect without TLS."""
    for name, value in given.items():
        monkeypatch.setenv(f"MUSTER_MIRROR_{name}", value)

    assert refusal() == said


def test_url_of_a_node_with_a_certificate_is_https() -> None:
    assert Settings(tls_certificate_file="c", http_port=1).node_url == "https://127.0.0.1:1"  # type: ignore[arg-type]  # validated there


def test_misspelled_settings_are_named() -> None:
    given = [
        "MUSTER_SESION_TIMEOUT_MS",
        "MUSTER_LEASE_TTL",
        "MUSTER_LEASE_TTL_MS",
        "MUSTER_TOKEN",
        "SESSION_TIMEOUT_MS",
    ]
    assert misspelled(given) == [
        ("MUSTER_LEASE_TTL", "MUSTER_LEASE_TTL_MS"),
        ("MUSTER_SESION_TIMEOUT_MS", "MUSTER_SESSION_TIMEOUT_MS"),
    ]


def test_variables_of_commands_and_dags_are_not_misspelled() -> None:
    read = re.findall("MUSTER_[A-Z_]*[A-Z]", "".join(page.read_text() for page in (ROOT / "docs").glob("*.md")))
    assert misspelled(read) == []
