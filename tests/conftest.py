"""Fixtures: each test that needs a database gets its own, freshly migrated, which is dropped afterwards.

One cluster serves a test session (each worker of pytest-xdist has its own), started when the first test asks. A
database is a clone of a template that was migrated once.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg2
import pytest
import structlog
from hypothesis import settings
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name

from coordinator_core.queries.runner import Queries
from coordinator_core.state_store.postgres import PostgresStore
from muster.local.embedded_postgres import EmbeddedPostgres
from muster.local.java import spark_environment
from muster.settings import ENVIRONMENT_PREFIX, psql_url
from tests.support.class_archive import java_options
from tests.support.collection import SharingSchedule, mark_by_fixtures, put_longest_first
from tests.support.databases import EMPTY, FORGETFUL, Databases, cluster_directory
from tests.support.nodes import running_node
from tests.support.worker_exit import pytest_testnodedown  # noqa: F401 - a hook

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.kafka_broker import KafkaBroker
    from tests.support.muster_command import Muster

# Nodes in tests log to the process's own stdout, so that their events are not in what a command under test prints.
structlog.configure(logger_factory=structlog.PrintLoggerFactory(open(1, "w", buffering=1, closefd=False)))  # noqa: SIM115 - open as long as the process

os.environ.setdefault("SPARK_SUBMIT_OPTS", java_options())  # of each Java that tests start

settings.register_profile("muster", deadline=None)  # a busy machine is no failure
settings.load_profile("muster")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell without a terminal starts what ends in &
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Ctrl-C is tested

# -- collection -------------------------------------------------------------------------------------------


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mark_by_fixtures(items)
    put_longest_first(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingSchedule:  # noqa: ANN401 - xdist's, without types
    return SharingSchedule(config, log)


# -- databases --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Databases]:
    with (
        cluster_directory(tmp_path_factory.mktemp("cluster")) as directory,
        EmbeddedPostgres(directory, max_connections=100, options=FORGETFUL) as postgres,
    ):
        databases = Databases(postgres)
        yield databases
        databases.close()


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """Give a migrated database without groups (`postgresql+psycopg2://…`)."""
    url = databases.create()
    yield url
    databases.drop(url)


@pytest.fixture
def jobs_url(databases: Databases, database_url: str) -> str:
    """Give the URL of the same database as a member of `muster_jobs`."""
    return databases.jobs_url(database_url)


@pytest.fixture
def reader_url(databases: Databases, database_url: str) -> str:
    """Give the URL of the same database as a member of `muster_reader`."""
    return databases.reader_url(database_url)


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    """Give a database without a table."""
    url = databases.create(EMPTY)
    yield url
    databases.drop(url)


@pytest.fixture
def sql_connection(database_url: str) -> Iterator[PsycopgConnection]:
    """Connect to the database of `database_url` with autocommit."""
    connection = psycopg2.connect(psql_url(database_url))
    connection.autocommit = True
    yield connection
    connection.close()


# -- stores -----------------------------------------------------------------------------------------------


@pytest.fixture
def postgres_store(database_url: str) -> Iterator[PostgresStore]:
    store = PostgresStore(database_url)
    yield store
    store.close()


@pytest.fixture
def queries(database_url: str) -> Iterator[Queries]:
    """Run queries of the database of `database_url`."""
    runner = Queries(database_url)
    yield runner
    runner.close()


# -- nodes ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node_url(databases: Databases) -> Iterator[str]:
    """Serve a node on its own database for a module's tests, which use distinct group ids."""
    url = databases.create()
    with running_node(url, group_initial_rebalance_delay_ms=100) as node:
        yield node.url
    databases.drop(url)


# -- Spark ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    from tests.support.spark_session import running_spark  # noqa: PLC0415 - slow, and few tests need it

    with running_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture(scope="session")
def warm_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Run a Java for jobs; return the directory of the `spark-submit` that uses it."""
    from tests.support.warm_spark import running  # noqa: PLC0415 - slow, and few tests need it

    with running(tmp_path_factory.mktemp("warm-spark")) as programs:
        yield programs


@pytest.fixture
def jobs_in_warm_spark(warm_spark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `muster job` run in the Java of `warm_spark`."""
    from muster.cli import jobs  # noqa: PLC0415 - few tests need it

    def environment(java_home: Path, base: Mapping[str, str]) -> dict[str, str]:
        found = spark_environment(java_home, base)
        return {**found, "PATH": os.pathsep.join([str(warm_spark), found["PATH"]])}

    monkeypatch.setattr(jobs, "spark_environment", environment)


# -- Kafka ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[KafkaBroker]":
    """Run a broker for tests, which use distinct topics and groups; skip them where it cannot be had."""
    from tests.support.kafka_broker import KafkaUnavailable, running_kafka  # noqa: PLC0415 - few tests need it

    try:
        with running_kafka(tmp_path_factory.mktemp("kafka")) as broker:
            yield broker
    except KafkaUnavailable as why:
        pytest.skip(str(why))


# -- the command line -------------------------------------------------------------------------------------


@pytest.fixture
def bare_muster(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> "Muster":
    """Return the command in an environment whose only setting is an empty data directory."""
    from tests.support.muster_command import Muster  # noqa: PLC0415 - slow, and few tests need it

    for name in [name for name in os.environ if name.startswith(ENVIRONMENT_PREFIX)]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MUSTER_DATA_DIR", str(tmp_path_factory.mktemp("data")))
    return Muster(monkeypatch, capsys)
