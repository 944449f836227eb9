"""What only a mirror's node has: its database, and how it reaches the Kafka cluster."""

# ruff: noqa: PLC0415 - aiokafka is loaded by mirrors only

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from functools import partial
from typing import TYPE_CHECKING

from coordinator_core.protocol.decide import Decide
from coordinator_core.runtime.coordinator import Coordinator
from coordinator_core.state_store.interface import Store
from coordinator_core.state_store.postgres import PostgresStore
from muster.errors import UNREACHABLE_EXIT_CODE, UserError
from muster.node.schema import is_empty, require_schema, upgrade
from muster.settings import DEFAULT_SHARDS, Settings

if TYPE_CHECKING:
    from mirror.kafka_groups import KafkaGroups
    from mirror.kafka_log import KafkaConnection, KafkaLog

OWN_DATABASE = "a mirror needs a database of its own: choose another --data-dir or MUSTER_DATABASE_URL"


def prepare_database(settings: Settings, database_url: str) -> None:
    """Make an empty database the mirror of the settings' cluster, with a shard for each partition of its log.

    Raises:
        UserError: the database has groups of its own, mirrors another number of partitions, or has another source; or
            the cluster cannot be reached, where the database does not mirror it yet.
    """
    if is_empty(database_url):
        upgrade(database_url, _describe(settings)[1])
    require_schema(database_url)
    with closing(PostgresStore(database_url)) as store:
        source = store.mirror_source()
        if source is not None:
            if source != settings.mirror_source:
                raise UserError(f"The database was made with MUSTER_MIRROR_SOURCE={source}; {OWN_DATABASE}.")
            return
        cluster_id, partitions = _describe(settings)
        _require_shards(store, partitions)
        if store.mirror_of(cluster_id, settings.mirror_source) is None:
            raise UserError(f"The database has groups of its own; {OWN_DATABASE}.")


def describe_mirror(settings: Settings, database_url: str) -> str:
    """Return in one line which cluster a prepared database mirrors.

    Raises:
        UserError: the settings name another cluster, its log has another number of partitions, or it cannot be
            reached.
    """
    cluster_id, partitions = _describe(settings)
    with closing(PostgresStore(database_url)) as store:
        mirrored = store.mirrored_cluster()
        if cluster_id != mirrored:
            found = f"{settings.mirror_bootstrap_servers} is the Kafka cluster {cluster_id}"
            raise UserError(f"The database mirrors the Kafka cluster {mirrored}, and {found}; {OWN_DATABASE}.")
        _require_shards(store, partitions)
    return f"{mirrored} at {settings.mirror_bootstrap_servers}, {partitions} partitions of __consumer_offsets"


def _require_shards(store: PostgresStore, partitions: int) -> None:
    shards = store.shard_count()
    if shards != partitions:
        sizes = f"The database has {shards} shards and the log of the Kafka cluster {partitions} partitions"
        raise UserError(f"{sizes}; {OWN_DATABASE}.")


async def check_database(settings: Settings, store: Store) -> str | None:
    """Return the id of the cluster that this node mirrors; None: it coordinates groups.

    Raises:
        UserError: the database is a mirror and the node is not, or the other way round.
        StoreError: the database cannot be reached.
    """
    return await asyncio.to_thread(require_own_kind, settings, store)


def require_own_kind(settings: Settings, store: Store) -> str | None:
    """Do what `check_database` does, on this thread."""
    mirrored = store.mirrored_cluster()
    if settings.mirror_bootstrap_servers is None and mirrored is not None:
        ways = "run `muster mirror` or `muster up --mirror`, or use another database or --data-dir"
        raise UserError(f"The database mirrors the Kafka cluster {mirrored}; {ways}.")
    if settings.mirror_bootstrap_servers is not None and mirrored is None:
        raise UserError(f"The database mirrors no Kafka cluster; start this node with `muster mirror`. {OWN_DATABASE}.")
    return mirrored


def decisions() -> Decide:
    """Return the decision function of a mirror; import all of the mirror, before the node serves."""
    import mirror.kafka_groups
    import mirror.kafka_topics
    import mirror.mirror
    import mirror.polled_mirror  # noqa: F401
    from mirror.decide import decide

    return decide


def follow(coordinator: Coordinator, settings: Settings, cluster_id: str) -> None:
    """Let a node follow its cluster until it stops."""
    from mirror.group_poll import GroupPoll
    from mirror.kafka_groups import KafkaGroups
    from mirror.kafka_topics import KafkaTopics
    from mirror.log_end_poll import LogEndPoll
    from mirror.mirror import Mirror
    from mirror.polled_mirror import PolledMirror

    connection = _connection(settings)
    poll_s, groups_s = settings.mirror_poll_interval_ms / 1000, settings.mirror_group_poll_interval_ms / 1000
    if settings.mirror_source == "poll":
        polled = PolledMirror(coordinator, partial(_open_groups, connection, cluster_id), cluster_id, poll_s)
        polled.polls = [
            LogEndPoll(coordinator, partial(KafkaTopics, connection), polled.used_topics, polled.forget_topics, poll_s)
        ]
        coordinator.follow(polled)
        return
    mirror = Mirror(coordinator, partial(_open_log, coordinator, connection, cluster_id), cluster_id)
    mirror.polls = [
        LogEndPoll(coordinator, partial(KafkaTopics, connection), mirror.used_topics, mirror.forget_topics, poll_s),
        GroupPoll(partial(KafkaGroups, connection), mirror.known_groups, mirror.states_polled, groups_s),
    ]
    coordinator.follow(mirror)


@asynccontextmanager
async def _open_log(
    coordinator: Coordinator, connection: "KafkaConnection", cluster_id: str
) -> AsyncIterator["KafkaLog"]:
    from mirror.kafka_log import KafkaLog

    await _check_cluster(connection, cluster_id)
    async with KafkaLog(connection, await coordinator.read(coordinator.store.shard_count)) as kafka:
        yield kafka


@asynccontextmanager
async def _open_groups(connection: "KafkaConnection", cluster_id: str) -> AsyncIterator["KafkaGroups"]:
    from mirror.kafka_groups import KafkaGroups

    await _check_cluster(connection, cluster_id)
    async with KafkaGroups(connection) as groups:
        yield groups


async def _check_cluster(connection: "KafkaConnection", cluster_id: str) -> None:
    """Raise KafkaUnavailable if another cluster answers."""
    from mirror.kafka_log import KafkaUnavailable, describe_cluster

    found = (await describe_cluster(connection)).cluster_id
    if found != cluster_id:
        raise KafkaUnavailable(f"{connection.bootstrap_servers} is the cluster {found}, and not {cluster_id}")


def _describe(settings: Settings) -> tuple[str, int]:
    """Return the id of the cluster, and the number of partitions of its log, or of shards where that is not read."""
    from mirror.kafka_log import KafkaUnavailable, describe_cluster

    where = f"The Kafka cluster {settings.mirror_bootstrap_servers}"
    try:
        facts = asyncio.run(describe_cluster(_connection(settings)))
    except KafkaUnavailable as failure:
        raise UserError(f"{where} cannot be reached: {failure}.", UNREACHABLE_EXIT_CODE) from failure
    if settings.mirror_source == "poll":
        return facts.cluster_id, DEFAULT_SHARDS
    if facts.partitions is None:
        missing = (
            "shows no topic __consumer_offsets: either it has had no group yet, so start the mirror when it has; or the"
            " user may not describe the topic, so set MUSTER_MIRROR_SOURCE=poll"
        )
        raise UserError(f"{where} {missing}.", UNREACHABLE_EXIT_CODE)
    return facts.cluster_id, facts.partitions


def _connection(settings: Settings) -> "KafkaConnection":
    try:
        from mirror.kafka_log import KafkaConnection
    except ModuleNotFoundError as failure:
        raise UserError(f"A mirror needs the package {failure.name}: install Muster's extra `mirror`.") from failure
    assert settings.mirror_bootstrap_servers is not None, "the node is a mirror"
    password = settings.mirror_sasl_password
    return KafkaConnection(
        bootstrap_servers=settings.mirror_bootstrap_servers,
        security_protocol=settings.mirror_security_protocol,
        sasl_mechanism=settings.mirror_sasl_mechanism,
        sasl_username=settings.mirror_sasl_username,
        sasl_password=None if password is None else password.get_secret_value(),
        sasl_token_file=settings.mirror_sasl_token_file,
        ssl_ca_file=settings.mirror_ssl_ca_file,
        ssl_certificate_file=settings.mirror_ssl_certificate_file,
        ssl_key_file=settings.mirror_ssl_key_file,
    )
