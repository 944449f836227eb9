"""Every limit has a name here, a default, bounds and a variable in the environment: `MUSTER_` and the name in capitals.

A setting that is wrong is told in one sentence that names the variable, and never a value that may be a secret.
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from coordinator_core.protocol.log_ends import LOG_END_MAX_AGE_MS
from coordinator_core.protocol.setting_rules import clash
from coordinator_core.protocol.settings import GroupSettings
from muster.data_dir import DEFAULT_DATA_DIR
from muster.errors import USAGE_EXIT_CODE, UserError

ENVIRONMENT_PREFIX = "MUSTER_"
INT32_MAX = 2_147_483_647
POSTGRES_SCHEME = "postgresql+psycopg2://"
DEFAULT_SHARDS = 50
OTHER_DATABASE_CONNECTIONS = 5
"""Connections of a node to the database beside those of its reads."""
CLUSTER_SECRET_MIN_BYTES = 32
ALLOWED_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")
"""A name, `*.` and a name for all names below it, or an IP address; in lower case."""

TimeoutMs = Annotated[int, Field(ge=1, le=INT32_MAX)]
Port = Annotated[int, Field(ge=1, le=65_535)]


class GroupDefaults(BaseSettings):
    """What holds for a group unless the cluster's or the group's own configuration says otherwise; Kafka's names."""

    session_timeout_ms: TimeoutMs | None = None
    """None: what each member asks for."""
    heartbeat_interval_ms: TimeoutMs | None = None
    """None: a third of the session timeout, at most 3000."""
    rebalance_timeout_ms: Annotated[int, Field(ge=1_000, le=INT32_MAX)] | None = None
    """None: the largest any member asks for."""
    group_min_session_timeout_ms: TimeoutMs = 6_000
    """The shortest session timeout a member may ask for."""
    group_max_session_timeout_ms: TimeoutMs = 1_800_000
    """The longest session timeout a member may ask for."""
    group_initial_rebalance_delay_ms: int = Field(default=3_000, ge=0, le=INT32_MAX)
    """How long an empty group waits for more members after the first."""
    group_max_size: int = Field(default=10_000, ge=1, le=INT32_MAX)
    """How many members a group may have."""
    group_max_pending_members: int = Field(default=10_000, ge=1, le=INT32_MAX)
    """How many member ids of a group may wait for their first join."""
    group_metadata_max_bytes: int = Field(default=16_777_216, ge=1, le=INT32_MAX)
    """How large the metadata of all members of a group may be."""
    member_metadata_max_bytes: int = Field(default=262_144, ge=1, le=INT32_MAX)
    """How large a member's metadata may be, over all protocols that it supports."""
    member_assignment_max_bytes: int = Field(default=1_048_576, ge=1, le=INT32_MAX)
    """How large the assignment of one member may be."""
    group_new_member_join_timeout_ms: TimeoutMs = 300_000
    """How long a newcomer may wait for its first join answer."""
    group_sync_timeout_scope: Literal["all", "dynamic"] = "all"
    """`all`: the sync limit puts out static members too; `dynamic`: it spares them."""
    offsets_retention_minutes: int = Field(default=10_080, ge=-1, le=INT32_MAX)
    """How long offsets outlive their group or their last commit; -1: for ever."""
    offset_metadata_max_bytes: int = Field(default=4_096, ge=0, le=INT32_MAX)
    """How long the metadata of a committed offset may be."""

    @model_validator(mode="after")
    def _make_sense_together(self) -> Self:
        said = clash(self.group_settings())
        if said is not None:
            raise ValueError(re.sub(r"\w+_\w+", lambda key: key[0].upper(), said))
        return self

    def group_settings(self) -> GroupSettings:
        """Return the settings that a group can override, as the protocol takes them."""
        return GroupSettings(**{key: getattr(self, key) for key in GROUP_KEYS})


class Settings(GroupDefaults):
    """All settings of a node and of the local platform."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    database_url: SecretStr | None = None
    """Where the groups are kept, `postgresql://user:password@host:port/name`; None: the embedded Postgres."""
    jobs_database_url: SecretStr | None = None
    """The same database as a member of `muster_jobs`, for Spark jobs; None: `database_url` serves them too."""
    http_host: str = "127.0.0.1"
    """The address a node listens on; another than this machine's own needs a tokens file."""
    http_port: Port = 8_080
    """The port a node listens on."""
    advertised_url: str | None = None
    """How agents and other nodes reach this node; None: its host and port."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Hosts that a node answers to beside loopback and its advertised URL's, parted by commas."""
    shards: int = Field(default=DEFAULT_SHARDS, ge=1, le=10_000)
    """How many shards a new database is made with; a database that has been made keeps its own count."""
    lease_ttl_ms: int = Field(default=5_000, ge=300, le=600_000)
    """How long a node owns its shards without renewing."""
    forward: bool = True
    """Whether a request for another node's group is passed on."""
    cluster_secret: SecretStr | None = None
    """What nodes sign requests with that they forward; the same on all of them. None: they sign with nothing."""
    tokens_file: Path | None = None
    """The file that maps bearer tokens to actors; None: open, on this machine only."""
    data_dir: Path = DEFAULT_DATA_DIR
    """Where the local platform keeps its database, secrets and logs."""
    max_partitions_per_request: int = Field(default=10_000, ge=1, le=1_000_000)
    """How many partitions one commit, query or reset may name."""
    max_body_bytes: int = Field(default=8_388_608, ge=1_024, le=INT32_MAX)
    """How large a request's body may be."""
    max_large_bodies_bytes: int = Field(default=67_108_864, ge=1_024, le=2**40)
    """How large all bodies over 64 KiB may be together that are read or wait for their answers."""
    request_timeout_ms: int = Field(default=2_000, ge=100, le=600_000)
    """How long a request may take that is no long poll."""
    head_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """How long the head of a request may take to arrive, or its first byte on a new connection."""
    body_timeout_ms: int = Field(default=30_000, ge=100, le=3_600_000)
    """How long the body of a request may take to arrive."""
    send_timeout_ms: int = Field(default=30_000, ge=1_000, le=3_600_000)
    """How long a client may leave an answer unread before the connection is closed."""
    max_connections: int = Field(default=8_000, ge=1, le=1_000_000)
    """How many connections of clients a node holds."""
    max_connections_per_ip: int | None = Field(default=None, ge=1, le=1_000_000)
    """How many of them one address may hold; None: half of them."""
    max_forward_connections: int = Field(default=64, ge=1, le=65_535)
    """How many requests, long polls aside, may be on their way to one other node."""
    forward_max_age_ms: int = Field(default=30_000, ge=1_000, le=600_000)
    """How old a forwarded request may be, and how far the clocks of two nodes may differ."""
    keep_alive_s: int = Field(default=75, ge=61, le=86_400)
    """How long an idle connection is kept open: longer than other nodes keep theirs, which is a minute."""
    lag_lookback_ms: int = Field(default=86_400_000, ge=60_000, le=INT32_MAX)
    """How old reports of a log's end may be, to say since when a group is behind."""
    log_end_max_age_ms: int = Field(default=LOG_END_MAX_AGE_MS, ge=1_000, le=INT32_MAX)
    """How long ago the end of a log may have been reported, before a lag from it is a lower bound."""
    max_lag_points: int = Field(default=1_000, ge=1, le=100_000)
    """How many points one history of a group's lag may have."""
    max_lag_positions: int = Field(default=50_000, ge=1, le=10_000_000)
    """How many positions one history of a group's lag may rest on, a partition and step each."""
    max_reads: int = Field(default=4, ge=1, le=1_000)
    """How many reads of the database may be under way; five connections come on top."""
    read_timeout_ms: int = Field(default=10_000, ge=100, le=INT32_MAX)
    """How long one read of the database may take."""
    max_queued_rows: int = Field(default=50_000, ge=1, le=INT32_MAX)
    """How many rows may wait to be stored before requests that write are refused for a while."""
    max_waiting_requests: int = Field(default=20_000, ge=1, le=INT32_MAX)
    """How many requests may wait for an answer, most of them parked joins and syncs, before joins and syncs are refused
    for a while."""
    max_batch_rows: int = Field(default=5_000, ge=1, le=INT32_MAX)
    """How many rows one transaction takes; a larger decision goes alone."""
    prepare_ahead_rows: int = Field(default=500, ge=1, le=INT32_MAX)
    """How many rows must wait before the next transaction is prepared while one is under way."""
    pause_ms: int = Field(default=500, ge=10, le=600_000)
    """How long a node may have been stopped before that time counts as nobody's silence."""
    awaited_members_after_ms: int = Field(default=5_000, ge=0, le=INT32_MAX)
    """How long a rebalance lasts before the members that it waits for are stored."""
    history_days_ahead: int = Field(default=7, ge=1, le=365)
    """How many days ahead the partitions of history tables are made."""
    lost_nodes_kept_hours: int = Field(default=24, ge=1, le=8_760)
    """How many hours the row of a node that was lost is kept."""
    tuning_window_days: int = Field(default=7, ge=1, le=60)
    """How many days back advice that is worked out on demand, and what-if, look."""
    tuning_max_rows: int = Field(default=500_000, ge=100, le=10_000_000)
    """How many rows of one group's stays they look at, the newest, and as many of rejoins."""
    tuning_max_evictions: int = Field(default=1_000, ge=1, le=100_000)
    """How many evictions they look at one by one, the newest."""
    tuning_advice_max_age_hours: int = Field(default=48, ge=0, le=8_760)
    """How old a report may be that is told in place of advice worked out on demand."""
    archive_uri: str | None = None
    """The directory that `history_archive` copies to, as this node sees it; None: `archive` in the data directory."""
    archive_check: bool = True
    """Whether a day of history is dropped only after this node has found its copy."""
    maintenance_chunk: int = Field(default=500, ge=1, le=100_000)
    """How many candidates of a maintenance run are judged in one step."""
    maintenance_groups: int = Field(default=4, ge=1, le=1_000)
    """How many groups of a maintenance run are judged beside each other."""

    airflow_port: Port = 8_081
    """The port of Airflow's pages and API."""
    postgres_port: Port | None = None
    """The port of the embedded Postgres; None: a free one, and the same one again next time."""
    postgres_max_connections: int = Field(default=200, ge=20, le=10_000)
    """How many connections the embedded Postgres takes."""
    log_file_max_mb: int = Field(default=32, ge=1, le=100_000)
    """How long the log of a child process may grow before it is set aside, in place of the one before."""
    min_free_disk_mb: int = Field(default=512, ge=0)
    """How much room the data directory's disk must have before anything is started."""

    @field_validator("database_url", "jobs_database_url")
    @classmethod
    def _driver_is_ours(cls, url: SecretStr | None) -> SecretStr | None:
        return None if url is None else SecretStr(sqlalchemy_url(url.get_secret_value()))

    @field_validator("cluster_secret")
    @classmethod
    def _secret_cannot_be_guessed(cls, secret: SecretStr | None) -> SecretStr | None:
        if secret is not None and 0 < len(secret.get_secret_value().encode()) < CLUSTER_SECRET_MIN_BYTES:
            raise ValueError(
                f"CLUSTER_SECRET must have at least {CLUSTER_SECRET_MIN_BYTES} bytes; `openssl rand -hex 32` makes one"
            )
        return secret

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _hosts_are_listed(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        hosts = tuple(host for each in given.split(",") if (host := each.strip().lower()))
        for host in hosts:
            if not ALLOWED_HOST.fullmatch(host):
                raise ValueError(f"ALLOWED_HOSTS has {host!r}, which is no host like muster.example.org or *.svc")
        return hosts

    @field_validator("data_dir")
    @classmethod
    def _data_dir_is_absolute(cls, path: Path) -> Path:
        return path.expanduser().absolute()

    @model_validator(mode="after")
    def _a_body_fits_among_all(self) -> Self:
        if self.max_large_bodies_bytes < self.max_body_bytes:
            raise ValueError("MAX_LARGE_BODIES_BYTES must not be less than MAX_BODY_BYTES")
        return self

    @model_validator(mode="after")
    def _open_only_on_loopback(self) -> Self:
        if self.tokens_file is None and not is_loopback(self.http_host):
            raise ValueError("HTTP_HOST may be another address than this machine's own only with TOKENS_FILE")
        return self

    @property
    def node_url(self) -> str:
        """How agents reach this node."""
        host = f"[{self.http_host}]" if ":" in self.http_host else self.http_host
        return self.advertised_url or f"http://{host}:{self.http_port}"

    def group_settings_from_environment(self) -> frozenset[str]:
        """Return which of a group's settings the environment has set; the others are defaults."""
        return frozenset(GROUP_KEYS) & self.model_fields_set


GROUP_KEYS: tuple[str, ...] = tuple(GroupDefaults.model_fields)
"""The settings that a group can override."""


def load_settings(**overrides: str | int | Path | None) -> Settings:
    """Read the settings from the environment; an override that is not None is stronger.

    Raises:
        UserError: one or more settings are wrong; the sentence names each of them.
    """
    given: dict[str, Any] = {key: value for key, value in overrides.items() if value is not None}
    try:
        return Settings(**given)
    except ValidationError as refusal:
        raise UserError(_sentence(refusal), USAGE_EXIT_CODE) from None


def sqlalchemy_url(url: str) -> str:
    """Name our driver in a Postgres URL; a bare `postgresql://` would choose another.

    Raises:
        ValueError: the URL is not Postgres', or names another driver.
    """
    scheme, separator, rest = url.partition("://")
    if not separator or not rest or scheme not in {"postgres", "postgresql", "postgresql+psycopg2"}:
        raise ValueError("DATABASE_URL should look like postgresql://user:password@host:5432/muster")
    return POSTGRES_SCHEME + rest


def psql_url(url: str) -> str:
    """Return the same URL as psql and other programs of Postgres' own read it."""
    return "postgresql://" + url.partition("://")[2]


def is_loopback(host: str) -> bool:
    """Tell whether an address reaches this machine only; a name counts as one only when it is `localhost`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sentence(refusal: ValidationError) -> str:
    faults = refusal.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(_fault(fault) for fault in faults) + "."


def _fault(fault: ErrorDetails) -> str:
    if fault["type"] == "value_error":
        return ENVIRONMENT_PREFIX + fault["msg"].removeprefix("Value error, ")
    name = ENVIRONMENT_PREFIX + str(fault["loc"][0]).upper()
    return f"{name} {fault['msg'].removeprefix('Input ').partition(', unable to')[0]}"
