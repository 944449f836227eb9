"""Open Spark sessions: in UTC, and in local mode bound to the loopback address."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

ONE_MACHINE_CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}


def open_session(name: str, master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """Open the session of a job; the caller stops it.

    Args:
        name: The application's name in Spark's UI.
        master: The master's URL; None leaves it to spark-submit.
        conf: Further settings.
    """
    builder = SparkSession.Builder().appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local"):
        builder = builder.config(map=dict(ONE_MACHINE_CONF))
    return builder.config(map=dict(conf or {})).getOrCreate()
