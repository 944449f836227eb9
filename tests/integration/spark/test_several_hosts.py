"""A database URL with several hosts: psycopg2 and Spark's driver pass over the one that does not listen."""

import socket
from contextlib import closing
from dataclasses import replace

from pyspark.sql import SparkSession

from spark_jobs.database import Database


def test_host_that_does_not_listen_is_passed_over(spark: SparkSession, database: Database) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen, so that connections are refused as long as it is open
        away = ("127.0.0.1", str(unused.getsockname()[1]))
        several = replace(database, hosts=(away, *database.hosts), target_session_attrs="read-write")
        with closing(several.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM alembic_version")
            assert cursor.fetchall() == [(1,)]
        frame = spark.read.jdbc(several.jdbc_url, "alembic_version", properties=several.jdbc_properties())
        assert frame.count() == 1
