"""Settings: every limit's name, default, range and environment variable (`MUSTER_` and the name in capitals).

An invalid setting is reported in one sentence that names the variable and never its value, which may be a secret.
The docstrings of the fields are the text of docs/settings.md (`make docs`).
"""

import ipaddress
import re
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import parse_qsl, quote, unquote

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from coordinator_core.protocol.setting_rules import INT32_MAX, find_conflict
from coordinator_core.protocol.settings import GroupSettings
from coordinator_core.queries.limits import QueryLimits
from coordinator_core.runtime.config import NodeConfig
from coordinator_core.state_store.rows import LEASE_TTL_MAX_MS
from muster.data_dir import DEFAULT_DATA_DIR, absolute
from muster.errors import USAGE_EXIT_CODE, UserError

ENVIRONMENT_PREFIX = "MUSTER_"
POSTGRES_SCHEME = "postgresql+psycopg2://"
DEFAULT_SHARDS = 50
GROUP: Final = GroupSettings()
"""The defaults of group settings."""
NODE: Final = NodeConfig(node_id="", listeners={})
"""The defaults of a node's limits."""
QUERIES: Final = QueryLimits()
"""The defaults of the limits of queries."""
OTHER_DATABASE_CONNECTIONS = 6
"""Connections of a node to the database beside those of its reads and queries."""
CLUSTER_SECRET_MIN_BYTES = 32
PORT_MAX: Final = 65_535
ANY_ADDRESS: Final = frozenset({"0.0.0.0", "::"})  # they stand for all addresses of the machine
HOST: Final = r"(?:\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\],]+)"
PORT: Final = r"0*(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
ADDRESSES: Final = {
    "advertised_url": (rf"https?://{HOST}(?::{PORT})?(?:/[^\s?#]*)?", "http://muster-1.example.org:8080"),
    "kafka_advertised": (f"{HOST}:{PORT}", "muster-1.example.org:9092"),
    "mirror_bootstrap_servers": (f"{HOST}(?::{PORT})?(?:, *{HOST}(?::{PORT})?)*", "kafka-1:9092,kafka-2:9092"),
}
"""The form and an example of each address."""
DATABASE_ADDRESS: Final = re.compile(
    r"((?P<user>[^:/]*)(:(?P<password>[^@]*))?@)?(\[[^/?]+\]|[^/:?@]+)?(:[0-9]+)?(/[^?]*)?(\?(?P<options>.*))?"
)
"""User and password, host, port, name and options, as SQLAlchemy reads a URL."""
ALLOWED_HOST = re.compile(r"(\*\.)?[a-z0-9_-]+(\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\]")
"""A name, `*.` and a name for all names below it, or an IP address; in lower case."""

TimeoutMs = Annotated[int, Field(ge=1, le=INT32_MAX)]
Port = Annotated[int, Field(ge=1, le=PORT_MAX)]


class GroupDefaults(BaseSettings):
    """Defaults of the settings that the cluster and each group can override; the names are Kafka's."""

    session_timeout_ms: TimeoutMs | None = None
    """After how long without a heartbeat a member is evicted. None: the timeout that each member requests. A change
    applies from each member's next heartbeat."""
    heartbeat_interval_ms: TimeoutMs | None = None
    """The heartbeat interval that the coordinator asks of members. None: a third of the session timeout, at most 3000.
    An interval that a member's own session timeout would not survive is not sent to that member."""
    rebalance_timeout_ms: Annotated[int, Field(ge=1_000, le=INT32_MAX)] | None = None
    """How long members have to join again, and then to sync. None: the longest timeout that a member requests. A change
    counts from the start of the current phase. A stored value below the minimum counts as the minimum."""
    group_min_session_timeout_ms: TimeoutMs = GROUP.group_min_session_timeout_ms
    """The shortest session timeout that a member may request."""
    group_max_session_timeout_ms: TimeoutMs = GROUP.group_max_session_timeout_ms
    """The longest session timeout that a member may request."""
    group_initial_rebalance_delay_ms: int = Field(default=GROUP.group_initial_rebalance_delay_ms, ge=0, le=INT32_MAX)
    """How long the first rebalance of an Empty group waits for more members."""
    group_max_size: int = Field(default=GROUP.group_max_size, ge=1, le=INT32_MAX)
    """The maximum number of members of a group. Kafka has no limit by default."""
    group_max_pending_members: int = Field(default=GROUP.group_max_pending_members, ge=1, le=INT32_MAX)
    """The maximum number of pending members of a group: member ids that were returned and have not joined yet. Another
    one is refused with GROUP_MAX_SIZE_REACHED."""
    group_max_offsets: int = Field(default=GROUP.group_max_offsets, ge=1, le=INT32_MAX)
    """The maximum number of committed offsets (topic partitions) of a group. They are counted in the background; while
    a group has more, its commits are refused with POLICY_VIOLATION until offsets are deleted."""
    group_metadata_max_bytes: int = Field(default=GROUP.group_metadata_max_bytes, ge=1, le=INT32_MAX)
    """The maximum size of the metadata of all members of a group, which the leader's answer contains. A join beyond it
    is refused with GROUP_MAX_SIZE_REACHED."""
    member_metadata_max_bytes: int = Field(default=GROUP.member_metadata_max_bytes, ge=1, le=INT32_MAX)
    """The maximum size of one member's metadata, over all protocols that it supports. A sticky assignor's metadata has
    four bytes for each partition that the member owns."""
    member_assignment_max_bytes: int = Field(default=GROUP.member_assignment_max_bytes, ge=1, le=INT32_MAX)
    """The maximum size of one member's assignment: about 250,000 partitions."""
    group_new_member_join_timeout_ms: TimeoutMs = GROUP.group_new_member_join_timeout_ms
    """How long a new member may wait for the answer to its first join."""
    group_sync_timeout_scope: Literal["all", "dynamic"] = "all"
    """Which members are evicted when they do not sync in time: `all`, or only `dynamic` ones. Static members that are
    spared are checked again after another timeout."""
    offsets_retention_minutes: int = Field(default=GROUP.offsets_retention_minutes, ge=-1, le=INT32_MAX)
    """How long offsets are kept after their group became Empty, or after their last commit. -1: forever."""
    offset_metadata_max_bytes: int = Field(default=GROUP.offset_metadata_max_bytes, ge=0, le=INT32_MAX)
    """The maximum length of the metadata of a committed offset, in UTF-16 code units. The name is Kafka's."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        said = find_conflict(self.group_settings())
        if said is not None:
            raise ValueError(re.sub(r"\w+_\w+", lambda key: ENVIRONMENT_PREFIX + key[0].upper(), said))
        return self

    def group_settings(self) -> GroupSettings:
        """Return the settings that a group can override, as the protocol takes them."""
        return GroupSettings(**{key: getattr(self, key) for key in GROUP_KEYS})


class PlatformSettings(BaseSettings):
    """Settings of the local platform (`muster up`)."""

    airflow_port: Port = 8_081
    """The port of Airflow's UI and API."""
    airflow_keep_days: int = Field(default=30, ge=1, le=3_650)
    """The days for which `muster up` keeps Airflow's runs and their logs; older ones are removed once a day."""
    spark_slots: int = Field(default=1, ge=1, le=1_000)
    """How many Spark jobs that propose run at once under `muster up`. Each takes all cores and half a gigabyte."""
    spark_report_slots: int = Field(default=1, ge=1, le=1_000)
    """How many Spark jobs that report run at once, beside those that propose. A backfill fills these slots only."""
    postgres_port: Port | None = None
    """The port of the embedded Postgres. None: a free one, which is kept for the next start."""
    postgres_max_connections: int = Field(default=200, ge=20, le=10_000)
    """The maximum number of connections of the embedded Postgres."""
    log_file_max_mb: int = Field(default=32, ge=1, le=100_000)
    """The size at which the log file of a child process is rotated; one older file is kept."""
    min_free_disk_mb: int = Field(default=512, ge=0)
    """The free disk space that the data directory needs before anything is started."""


class NodeSettings(BaseSettings):
    """Settings of a node."""

    database_url: SecretStr | None = None
    """The database of the groups, `postgresql://user:password@host:port/name`, as the role that owns the tables. None:
    the embedded Postgres."""
    jobs_database_url: SecretStr | None = None
    """The same database as a member of the role `muster_jobs`, for Spark jobs. None: `MUSTER_DATABASE_URL`."""
    http_host: str = "127.0.0.1"
    """The address that a node listens on. An address other than loopback requires tokens."""
    http_port: Port = 8_080
    """The port that a node listens on."""
    advertised_url: str | None = None
    """The URL at which agents and other nodes reach this node. It identifies the node, so it must be unique. None: its
    host and port."""
    kafka_port: Port | None = None
    """The port of the listener for Kafka clients ([kafka.md](kafka.md)). None: there is none."""
    kafka_host: str = "127.0.0.1"
    """The address of that listener. An address other than loopback requires tokens."""
    kafka_advertised: str | None = None
    """The `host:port` at which Kafka clients reach that listener. None: its host (not 0.0.0.0 or ::) and port."""
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Host names that a node accepts beside loopback and the host of its advertised URL, separated by commas: names,
    addresses, or `*.` and a name for all names below it ([security.md](security.md#browsers))."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """The addresses or networks of proxies in front of the node, separated by commas, such as `10.1.0.0/16`. Only they
    name the client, in X-Forwarded-For or by the PROXY protocol ([security.md](security.md#behind-a-proxy))."""
    kafka_proxy_protocol: bool = False
    """Whether each connection of the listener for Kafka clients begins with a header of the PROXY protocol, of a proxy
    in `MUSTER_TRUSTED_PROXIES`. Other connections are closed."""
    kafka_keep_alive_s: int = Field(default=600, ge=1, le=86_400)
    """How long an idle connection of a Kafka client is kept open, as `connections.max.idle.ms` of Kafka's brokers."""
    shards: int = Field(default=DEFAULT_SHARDS, ge=1, le=10_000)
    """The number of shards of a new database. An existing database keeps its own number."""
    lease_ttl_ms: int = Field(default=NODE.lease_ttl_ms, ge=300, le=LEASE_TTL_MAX_MS)
    """How long a node owns its shards without renewing its leases."""
    forward: bool = True
    """Whether a node forwards requests for groups that another node owns."""
    cluster_secret: SecretStr | None = None
    """The key with which nodes sign the requests that they forward, at least 32 bytes (`openssl rand -hex 32`). It is
    the same on all nodes, and required where there are tokens."""
    cluster_secret_accepted: SecretStr | None = None
    """Another secret whose signatures the node accepts, while `MUSTER_CLUSTER_SECRET` is replaced
    ([security.md](security.md#replacing-the-cluster-secret))."""
    tokens_file: Path | None = None
    """The file that maps bearer tokens to actors ([security.md](security.md)). None: no authentication, on loopback
    only, unless tokens are required."""
    require_tokens: bool = False
    """Whether every request needs a token that `muster tokens issue` printed ([security.md](security.md)). With a
    tokens file every request needs a token of either kind anyway."""
    tls_certificate_file: Path | None = None
    """The certificate of the node, as PEM, followed by those between it and its authority. With it the node serves
    HTTPS, and Kafka clients use SSL or SASL_SSL ([security.md](security.md#tls)). None: nothing is encrypted."""
    tls_key_file: Path | None = None
    """The key of that certificate, as PEM. None: it is in the same file."""
    tls_client_ca_file: Path | None = None
    """The certificate authorities that certificates of clients are checked against, as PEM. None: clients are asked for
    no certificate."""
    tls_client_auth: Literal["requested", "required"] = "requested"
    """Whether a client without a certificate is refused, where there is a `MUSTER_TLS_CLIENT_CA_FILE`; as Kafka's
    `ssl.client.auth`."""
    tls_ca_file: Path | None = None
    """The certificate authorities that certificates of nodes are checked against, as PEM: by other nodes, by commands
    and by DAGs. None: those of the machine."""
    data_dir: Path = DEFAULT_DATA_DIR
    """The directory in which the local platform keeps its database, secrets and logs."""
    max_partitions_per_request: int = Field(default=10_000, ge=1, le=1_000_000)
    """The maximum number of partitions in one commit, fetch, reset or deletion."""
    max_body_bytes: int = Field(default=8_388_608, ge=1_024, le=INT32_MAX)
    """The maximum size of a request's body."""
    max_large_bodies_bytes: int = Field(default=67_108_864, ge=1_024, le=2**40)
    """The maximum total size of all bodies over 64 KiB that are being read or wait for their answers. Another one is
    answered with 503 before it is read. One client may have three times as much as is free, and one body always. A node
    uses up to six times as much memory for them."""
    max_large_bodies_bytes_per_s: int = Field(default=2_097_152, ge=65_536, le=2**40)
    """How many bytes of bodies over 64 KiB the node begins to answer a second. What is over that waits for its turn, as
    long as a request may take, so that many large commits leave processor time, and Postgres, to others' requests.
    Pages of offsets and of lag count as 32 bytes an entry."""
    max_metadata_per_commit: int = Field(default=1_048_576, ge=0, le=INT32_MAX)
    """The maximum number of characters of metadata of all offsets of one commit (Kafka: the largest record batch of
    `__consumer_offsets`). Larger commits are refused with POLICY_VIOLATION, those of Kafka clients with
    INVALID_COMMIT_OFFSET_SIZE."""
    request_timeout_ms: int = Field(default=2_000, ge=100, le=600_000)
    """How long a request may take that is not a long poll."""
    handshake_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """How long the TLS handshake of a new connection may take."""
    head_timeout_ms: int = Field(default=10_000, ge=100, le=600_000)
    """How long the head of a request may take to arrive, or its first byte on a new connection."""
    body_timeout_ms: int = Field(default=30_000, ge=100, le=3_600_000)
    """How long the body of a request may take to arrive."""
    send_timeout_ms: int = Field(default=30_000, ge=1_000, le=3_600_000)
    """How long a client may leave an answer unread before its connection is closed."""
    max_connections: int = Field(default=8_000, ge=1, le=1_000_000)
    """The maximum number of client connections of a node. It is lower where `ulimit -n` does not leave enough
    descriptors for the database ([security.md](security.md#connections))."""
    max_connections_per_ip: int | None = Field(default=None, ge=1, le=1_000_000)
    """The maximum number of connections from one address; an IPv6 address counts with its /64 network. None: half of
    `MUSTER_MAX_CONNECTIONS`. Where all clients share one address (NAT, a load balancer), set it to
    `MUSTER_MAX_CONNECTIONS`."""
    max_forward_connections: int = Field(default=64, ge=1, le=65_535)
    """The maximum number of requests in flight to one other node, long polls not counted."""
    max_group_series: int = Field(default=50_000, ge=1, le=INT32_MAX)
    """The maximum number of series of each per-group metric in one scrape. One more, with empty labels, has the sum of
    the rest."""
    forward_max_age_ms: int = Field(default=30_000, ge=1_000, le=600_000)
    """The maximum age of a forwarded request, and the maximum difference between the clocks of two nodes."""
    keep_alive_s: int = Field(default=75, ge=61, le=86_400)
    """How long an idle connection is kept open. It must be longer than other nodes (a minute) and a load balancer in
    front of the node keep theirs."""
    lag_lookback_ms: int = Field(default=QUERIES.lag_lookback_ms, ge=60_000, le=INT32_MAX)
    """The maximum age of reported log ends that are read to compute lag in seconds."""
    max_lag_partitions: int = Field(default=QUERIES.max_lag_partitions, ge=1, le=10_000_000)
    """The number of committed offsets of a group up to which all of them are read for its lag. Beyond, its lag in
    seconds is a lower bound, from the 1,000 partitions that lag by the most records."""
    max_lag_points: int = Field(default=QUERIES.max_lag_points, ge=1, le=100_000)
    """The maximum number of points of one lag history."""
    max_lag_positions: int = Field(default=QUERIES.max_lag_positions, ge=1, le=10_000_000)
    """The maximum number of committed offsets that one lag history reads: partitions times steps, including as long a
    time before its range."""
    max_reads: int = Field(default=NODE.max_reads, ge=1, le=1_000)
    """The maximum number of concurrent reads for consumers and operators' changes, such as fetches of offsets, one
    database connection each. A node has six more connections, and those of its queries."""
    read_timeout_ms: int = Field(default=10_000, ge=100, le=INT32_MAX)
    """How long one read may take."""
    max_queries: int = Field(default=QUERIES.max_queries, ge=1, le=1_000)
    """The maximum number of concurrent queries of history, lists, lag, reports and metrics, one database connection
    each. They delay no consumer, which has connections of its own (`MUSTER_MAX_READS`). One client runs three
    quarters of them at once."""
    query_timeout_ms: int = Field(default=QUERIES.query_timeout_ms, ge=100, le=INT32_MAX)
    """How long one statement of a query may take."""
    max_queued_rows: int = Field(default=NODE.max_queued_rows, ge=1, le=INT32_MAX)
    """The maximum number of rows in the write queue. Beyond it, requests that write are refused with Retry-After. One
    client may have three times as many as are free."""
    max_queued_bytes: int = Field(default=NODE.max_queued_bytes, ge=1_024, le=2**40)
    """The maximum size of the metadata and assignments in the write queue, as with `MUSTER_MAX_QUEUED_ROWS`."""
    max_waiting_requests: int = Field(default=NODE.max_waiting_requests, ge=1, le=INT32_MAX)
    """The maximum number of requests that wait for an answer, most of them parked joins and syncs. Beyond it, joins and
    syncs are refused with Retry-After."""
    max_waiting_requests_per_client: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The maximum number of them of one client: the tokens of one actor, or without a token one address (IPv6: a /64
    network). Beyond it, its joins and syncs are refused with 429. None: three quarters of
    `MUSTER_MAX_WAITING_REQUESTS`."""
    client_quota_requests_per_s: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The requests a second of one client that a node answers. Beyond it, requests are refused with 429, heartbeats
    only far beyond it ([http-api.md](http-api.md#quotas)). A tokens file may give an actor its own. None: no quota, as
    in Kafka."""
    client_quota_bytes_per_s: int | None = Field(default=None, ge=1, le=2**40)
    """The same for the bytes of request bodies."""
    group_quota_requests_per_s: int | None = Field(default=None, ge=1, le=INT32_MAX)
    """The same for the requests for one group, of all clients."""
    group_quota_bytes_per_s: int | None = Field(default=None, ge=1, le=2**40)
    """The same for the bytes of their bodies."""
    quota_window_s: int = Field(default=10, ge=1, le=3_600)
    """How many seconds of a quota may be used at once after a pause. Kafka's windows are as long."""
    max_batch_rows: int = Field(default=NODE.max_batch_rows, ge=1, le=INT32_MAX)
    """The maximum number of rows of one write transaction. A larger decision is written alone."""
    offsets_checkpoint_interval_ms: int = Field(default=NODE.offsets_checkpoint_interval_ms, ge=1, le=600_000)
    """How long a committed offset is in the offset log only. Then a checkpoint stores it in the table `offsets`, which
    SQL, views, lists and metrics read. If checkpoints take more than an eighth of it, they rest seven times as long as
    they took, at most nine intervals."""
    max_dirty_offsets: int = Field(default=NODE.max_dirty_offsets, ge=1, le=INT32_MAX)
    """How many committed offsets may wait for a checkpoint before one begins at once. Beyond twice as many, commits are
    refused with Retry-After; one client may have three times as many as are free. A partition counts once in each of
    two checkpoints, so this should exceed the number of partitions that a node's groups commit. An offset takes some
    300 bytes."""
    max_groups_per_client: int = Field(default=NODE.max_groups_per_client, ge=1, le=INT32_MAX)
    """The maximum number of groups of one node that one client (as for `MUSTER_MAX_WAITING_REQUESTS_PER_CLIENT`) has
    created since the node serves them. Beyond it, requests that create groups are refused with POLICY_VIOLATION until
    groups are deleted."""
    max_checkpoint_offsets: int = Field(default=NODE.max_checkpoint_offsets, ge=1, le=INT32_MAX)
    """The maximum number of offsets of one transaction of a checkpoint. More of one shard are stored in several."""
    pause_ms: int = Field(default=NODE.pause_ms, ge=10, le=600_000)
    """How long a node's process must have been stopped for that time not to count as silence of its members."""
    awaited_members_after_ms: int = Field(default=NODE.awaited_members_after_ms, ge=0, le=INT32_MAX)
    """How long a rebalance lasts before the members that it waits for are stored (`groups.awaited_members`,
    [tables.md](tables.md)). 0: at the first check, within a second."""
    history_days_ahead: int = Field(default=NODE.history_days_ahead, ge=1, le=365)
    """How many days in advance the partitions of history tables are created."""
    lost_nodes_kept_hours: int = Field(default=NODE.lost_nodes_kept_hours, ge=1, le=8_760)
    """How long the row of a lost node is kept."""
    tuning_window_days: int = Field(default=QUERIES.tuning_window_days, ge=1, le=60)
    """How many days of history timeout advice on demand and what-if read ([tuning.md](tuning.md))."""
    tuning_max_rows: int = Field(default=QUERIES.tuning_max_rows, ge=100, le=10_000_000)
    """The maximum number of rows of member sessions of one group that they read, the newest first, and as many rejoins.
    Where there are more, the window is shorter."""
    tuning_max_evictions: int = Field(default=QUERIES.tuning_max_evictions, ge=1, le=100_000)
    """The maximum number of evictions that they examine one by one, the newest first. Where there are more, the window
    is shorter."""
    tuning_advice_max_age_hours: int = Field(default=QUERIES.tuning_advice_max_age_hours, ge=0, le=8_760)
    """The maximum age of a report that is returned instead of advice computed on demand."""
    archive_uri: str | None = None
    """The directory that `history_archive` copies to, as this node sees it. None: `archive` in the data directory."""
    archive_check: bool = True
    """Whether a day of history is dropped only after this node has found its copy."""
    maintenance_chunk: int = Field(default=NODE.maintenance_chunk, ge=1, le=100_000)
    """How many candidates of a maintenance run are evaluated in one step."""
    maintenance_groups: int = Field(default=NODE.maintenance_groups, ge=1, le=1_000)
    """How many groups of a maintenance run are evaluated concurrently. More of them end a run sooner and slow
    heartbeats down meanwhile."""
    proposal_ttl_hours: int = Field(default=NODE.proposal_ttl_hours, ge=1, le=8_760)
    """How long a maintenance run may wait for a decision. Then it is rejected as expired, and can no longer be applied.
    It should be longer than `MUSTER_APPROVAL_TIMEOUT_MINUTES`."""


class MirrorSettings(BaseSettings):
    """Settings of a mirror (`muster mirror`): how the Kafka cluster is reached, in the terms of Kafka's clients."""

    mirror_bootstrap_servers: str | None = None
    """The Kafka cluster to mirror, as `host:port` of some brokers, separated by commas. None: this node coordinates
    groups and mirrors none."""
    mirror_source: Literal["topic", "poll"] = "topic"
    """`topic`: the mirror reads `__consumer_offsets`. `poll`: it describes groups and fetches offsets at intervals,
    where the topic may not be read, as in some managed clusters. A database keeps its source."""
    mirror_poll_interval_ms: int = Field(default=5_000, ge=100, le=3_600_000)
    """How often the mirror reads where the logs of the groups' topics end, and how many partitions they have. With the
    source `poll` also how often it reads groups and offsets."""
    mirror_group_poll_interval_ms: int = Field(default=2_000, ge=100, le=3_600_000)
    """How often the mirror reads which groups of the classic protocol are in a rebalance, by one small request to each
    broker. The start of a rebalance is known to this interval. Without effect with the source `poll`."""
    mirror_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """The protocol of the brokers' listener."""
    mirror_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = None
    """How the mirror authenticates. Required with SASL."""
    mirror_sasl_username: str | None = None
    """The user for PLAIN and SCRAM."""
    mirror_sasl_password: SecretStr | None = None
    """The password for PLAIN and SCRAM."""
    mirror_sasl_token_file: Path | None = None
    """The file with the token for OAUTHBEARER. It is read at every connection."""
    mirror_ssl_ca_file: Path | None = None
    """The certificate authorities that the brokers' certificates are checked against, as PEM. None: those of the
    machine."""
    mirror_ssl_certificate_file: Path | None = None
    """The certificate of the mirror, as PEM, where brokers want one."""
    mirror_ssl_key_file: Path | None = None
    """The key of that certificate, as PEM. None: it is in the same file."""

    @model_validator(mode="after")
    def _check_security(self) -> Self:
        has_files = self.mirror_ssl_ca_file or self.mirror_ssl_certificate_file or self.mirror_ssl_key_file
        if has_files and not self.mirror_security_protocol.endswith("SSL"):
            raise ValueError("MUSTER_MIRROR_SSL_… belongs to MUSTER_MIRROR_SECURITY_PROTOCOL SSL and SASL_SSL")
        if self.mirror_ssl_key_file and not self.mirror_ssl_certificate_file:
            raise ValueError("MUSTER_MIRROR_SSL_CERTIFICATE_FILE is required with MUSTER_MIRROR_SSL_KEY_FILE")
        wants_sasl = self.mirror_security_protocol.startswith("SASL_")
        if wants_sasl != (self.mirror_sasl_mechanism is not None):
            raise ValueError("MUSTER_MIRROR_SASL_MECHANISM belongs to SASL_PLAINTEXT and SASL_SSL, which require it")
        if self.mirror_sasl_mechanism == "OAUTHBEARER" and self.mirror_sasl_token_file is None:
            raise ValueError("MUSTER_MIRROR_SASL_TOKEN_FILE is required with OAUTHBEARER")
        has_user = self.mirror_sasl_username is not None and self.mirror_sasl_password is not None
        if self.mirror_sasl_mechanism not in {None, "OAUTHBEARER"} and not has_user:
            raise ValueError(
                "MUSTER_MIRROR_SASL_USERNAME and MUSTER_MIRROR_SASL_PASSWORD are required with PLAIN and SCRAM"
            )
        return self


class Settings(PlatformSettings, NodeSettings, MirrorSettings, GroupDefaults):
    """All settings, read from the environment."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        str_strip_whitespace=True,  # secrets come from files, which end with a line break
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _drop_blank(cls, given: dict[str, Any]) -> dict[str, Any]:
        """Leave out variables that are empty or blank: they count as absent."""
        return {name: value for name, value in given.items() if not isinstance(value, str) or value.strip()}

    @field_validator("database_url", "jobs_database_url")
    @classmethod
    def _check_driver(cls, url: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        return None if url is None else SecretStr(_sqlalchemy_url(url.get_secret_value(), _variable(info)))

    @field_validator("cluster_secret", "cluster_secret_accepted")
    @classmethod
    def _check_secret_length(cls, secret: SecretStr | None, info: ValidationInfo) -> SecretStr | None:
        if secret is not None and 0 < len(secret.get_secret_value().encode()) < CLUSTER_SECRET_MIN_BYTES:
            least = f"{_variable(info)} must have at least {CLUSTER_SECRET_MIN_BYTES} bytes"
            raise ValueError(f"{least}; `openssl rand -hex 32` makes one")
        return secret

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _split_hosts(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        hosts = tuple(host for each in given.split(",") if (host := each.strip().lower()))
        for host in hosts:
            if not ALLOWED_HOST.fullmatch(host):
                raise ValueError(
                    f"MUSTER_ALLOWED_HOSTS has {host!r}, which is no host like muster.example.org or *.svc"
                )
        return hosts

    @field_validator("trusted_proxies", mode="before")
    @classmethod
    def _split_networks(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        networks = tuple(network for each in given.split(",") if (network := each.strip()))
        for network in networks:
            try:
                ipaddress.ip_network(network)
            except ValueError as failure:
                raise ValueError(f"MUSTER_TRUSTED_PROXIES has {network!r}: {failure}") from None
        return networks

    @field_validator("data_dir")
    @classmethod
    def _make_data_dir_absolute(cls, path: Path) -> Path:
        return absolute(path)

    @model_validator(mode="after")
    def _check_body_limits(self) -> Self:
        if self.max_large_bodies_bytes < self.max_body_bytes:
            raise ValueError("MUSTER_MAX_LARGE_BODIES_BYTES must not be less than MUSTER_MAX_BODY_BYTES")
        return self

    @model_validator(mode="after")
    def _check_tokens_required(self) -> Self:
        for name, host in (("MUSTER_HTTP_HOST", self.http_host), ("MUSTER_KAFKA_HOST", self.kafka_host)):
            if not self.has_tokens and not is_loopback(host):
                needed = "only with MUSTER_TOKENS_FILE or MUSTER_REQUIRE_TOKENS"
                raise ValueError(f"{name} may be an address other than loopback {needed}")
        return self

    @model_validator(mode="after")
    def _check_proxy_protocol(self) -> Self:
        if self.kafka_proxy_protocol and not self.trusted_proxies:
            raise ValueError("MUSTER_TRUSTED_PROXIES is required with MUSTER_KAFKA_PROXY_PROTOCOL")
        return self

    @model_validator(mode="after")
    def _check_tls(self) -> Self:
        if self.tls_certificate_file is None and (self.tls_key_file or self.tls_client_ca_file):
            raise ValueError(
                "MUSTER_TLS_CERTIFICATE_FILE is required with MUSTER_TLS_KEY_FILE and MUSTER_TLS_CLIENT_CA_FILE"
            )
        if self.tls_client_ca_file is None and self.tls_client_auth == "required":
            raise ValueError("MUSTER_TLS_CLIENT_CA_FILE is required with MUSTER_TLS_CLIENT_AUTH=required")
        if self.tls_certificate_file is not None and not self.node_url.startswith("https://"):
            raise ValueError(
                "MUSTER_ADVERTISED_URL must begin with https:// where there is a MUSTER_TLS_CERTIFICATE_FILE"
            )
        return self

    @field_validator(*ADDRESSES)
    @classmethod
    def _check_address(cls, address: str | None, info: ValidationInfo) -> str | None:
        if address is None:
            return None
        form, example = ADDRESSES[str(info.field_name)]
        if re.fullmatch(form, address) is None:
            raise ValueError(f"{_variable(info)} should look like {example}")
        return address.rstrip("/")

    @property
    def has_tokens(self) -> bool:
        """Return whether requests need a token."""
        return self.require_tokens or self.tokens_file is not None

    @property
    def node_url(self) -> str:
        """How agents reach this node."""
        host = f"[{self.http_host}]" if ":" in self.http_host else self.http_host
        scheme = "http" if self.tls_certificate_file is None else "https"
        return self.advertised_url or f"{scheme}://{host}:{self.http_port}"

    @property
    def kafka_address(self) -> str:
        """How Kafka clients reach this node."""
        host = f"[{self.kafka_host}]" if ":" in self.kafka_host else self.kafka_host
        return self.kafka_advertised or f"{host}:{self.kafka_port}"

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


def _variable(info: ValidationInfo) -> str:
    return ENVIRONMENT_PREFIX + str(info.field_name).upper()


def _sqlalchemy_url(url: str, variable: str) -> str:
    """Name our driver in the Postgres URL of a variable; a bare `postgresql://` would choose another."""
    from psycopg2 import ProgrammingError  # noqa: PLC0415 - most commands have no URL
    from psycopg2.extensions import make_dsn  # noqa: PLC0415 - likewise

    scheme, _, rest = url.partition("://")
    address = DATABASE_ADDRESS.fullmatch(rest)
    if not rest or address is None or scheme not in {"postgres", "postgresql", "postgresql+psycopg2"}:
        raise ValueError(f"{variable} should look like postgresql://user:password@host:5432/muster")
    options = parse_qsl(address["options"] or "")
    try:
        make_dsn(**dict(options))
    except ProgrammingError:
        raise ValueError(f"{variable} has an option that Postgres' client library does not know") from None
    hosts, ports = (",".join(value for key, value in options if key == name).split(",") for name in ("host", "port"))
    if ports != [""] and (len(hosts) != len(ports) or not all(each.isdecimal() for each in ports if each)):
        raise ValueError(f"{variable} needs a port for each host, as in ?host=db-1,db-2&port=5432,5432")
    return POSTGRES_SCHEME + rest


def psql_url(url: str) -> str:
    """Return the same URL in the form of psql and the other programs of Postgres.

    SQLAlchemy takes any characters in a password; Postgres' client library takes `%`, `/` and others percent-encoded.
    Of several options `host`, each a host and perhaps its port, the library would take the last only.
    """
    rest = url.partition("://")[2]
    address = DATABASE_ADDRESS.fullmatch(rest)
    options = ((address and address["options"]) or "").split("&")
    hosts = [unquote(each.removeprefix("host=")).partition(":") for each in options if each.startswith("host=")]
    if address is not None and len(hosts) > 1:
        others = [each for each in options if not each.startswith("host=")]
        listed = [f"host={','.join(host for host, *_ in hosts)}", f"port={','.join(port for *_, port in hosts)}"]
        rest = rest[: address.start("options")] + "&".join(listed + others)
    for name in ("password", "user"):
        if address is not None and address[name]:
            rest = rest[: address.start(name)] + quote(unquote(address[name]), safe="") + rest[address.end(name) :]
    return f"postgresql://{rest}"


def is_loopback(host: str) -> bool:
    """Return whether an address is loopback; of names only `localhost` is."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _sentence(refusal: ValidationError) -> str:
    faults = refusal.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(_error_text(fault) for fault in faults) + "."


def _error_text(fault: ErrorDetails) -> str:
    if fault["type"] == "value_error":
        return fault["msg"].removeprefix("Value error, ")
    name = ENVIRONMENT_PREFIX + str(fault["loc"][0]).upper()
    return f"{name} {fault['msg'].removeprefix('Input ').partition(', unable to')[0]}"
