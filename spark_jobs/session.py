"""A session speaks UTC, and on one machine it speaks to that machine only."""

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
        name: What the job is called in Spark's own lists.
        master: Where to run; None leaves it to spark-submit.
        conf: Anything else that the place asks for.
    """
    builder = SparkSession.Builder().appName(name).config("spark.sql.session.timeZone", "UTC")
    if master is not None:
        builder = builder.master(master)
    if master is not None and master.startswith("local"):
        builder = builder.config(map=dict(ONE_MACHINE_CONF))
    return builder.config(map=dict(conf or {})).getOrCreate()
