"""One Spark session serves all tests of a test session; it speaks to this machine only."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2.extensions as pg
import pytest
from pyspark.sql import SparkSession

from muster.java import find_java, spark_environment
from spark_jobs.database import Database, parse_url
from spark_jobs.session import open_session
from spark_jobs.submit import find_jdbc_jar

TEST_CONF = {
    "spark.driver.memory": "512m",
    # A handful of rows: what would spread or compile the work costs more than it saves.
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = Path(tmp_path_factory.mktemp("spark")).as_uri()
    conf = {**TEST_CONF, "spark.jars": str(find_jdbc_jar()), "spark.sql.warehouse.dir": warehouse}
    # Java reads the environment when it starts, so other tests need not live with it.
    with pytest.MonkeyPatch.context() as patch:
        java_home = find_java(tmp_path_factory.mktemp("java"))
        for name, value in spark_environment(java_home, os.environ).items():
            patch.setenv(name, value)
        session = open_session("tests", "local[2]", conf)
    yield session
    session.stop()


@pytest.fixture
def database(database_url: str) -> Database:
    """Return the test's own database, as jobs know it."""
    return parse_url(database_url)


@pytest.fixture
def connection(database: Database) -> Iterator[pg.connection]:
    """Give a connection to it, for the time of the test."""
    with closing(database.connect()) as connection:
        yield connection
