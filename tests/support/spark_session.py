"""Spark for tests: on loopback only, with few partitions."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from muster.local.java import find_java, spark_environment
from spark_jobs.session import open_session
from spark_jobs.submit import find_jdbc_jar
from tests.support.class_archive import java_options

TEST_CONF = {
    "spark.driver.memory": "512m",
    # A handful of rows: what would spread or compile the work costs more than it saves. Jobs that tests submit compile.
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
}


@contextmanager
def running_spark(directory: Path) -> Iterator[SparkSession]:
    """Run Spark for the time of the block.

    Args:
        directory: an empty one, for Spark's warehouse and for what finds Java.
    """
    (directory / "java").mkdir()
    conf = {**TEST_CONF, "spark.jars": str(find_jdbc_jar()), "spark.sql.warehouse.dir": (directory / "tables").as_uri()}
    # Java reads the environment when it starts, so it is restored for other tests.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment(find_java(directory / "java"), os.environ).items():
            patch.setenv(name, value)
        # In the 48 MB of code that Java keeps by default, a session of many tests would sweep all the time.
        patch.setenv("SPARK_SUBMIT_OPTS", f"{java_options()} -XX:ReservedCodeCacheSize=240m")
        session = open_session("tests", "local[2]", conf)
    yield session
    session.stop()
