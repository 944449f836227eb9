"""A Java for many jobs: `spark-submit` starts one for each, and that takes four fifths of the time of a small job.

The jobs run as their own programs, each in a Spark context of its own. Some tests use the real `spark-submit`: those of
the local platform, of a cluster, and of `muster job`.
"""

import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.java_gateway import launch_gateway

from muster.local.java import find_java, spark_environment
from spark_jobs.submit import find_jdbc_jar
from tests.support import warm_submit
from tests.support.class_archive import java_options


@contextmanager
def running(directory: Path) -> Iterator[Path]:
    """Start the Java; return the directory of a `spark-submit` that runs jobs in it, for the PATH.

    Args:
        directory: an empty one.
    """
    with (directory / "java.log").open("w") as log, pytest.MonkeyPatch.context() as patch:
        for name, value in spark_environment(find_java(directory), os.environ).items():
            patch.setenv(name, value)
        # In the 48 MB of code that Java keeps by default, many jobs would sweep all the time.
        patch.setenv("SPARK_SUBMIT_OPTS", f"{java_options()} -XX:ReservedCodeCacheSize=240m")
        patch.setenv("PYSPARK_SUBMIT_ARGS", f"--driver-memory 512m --jars {find_jdbc_jar()} pyspark-shell")
        gateway = launch_gateway(popen_kwargs={"stdout": log, "stderr": log})  # type: ignore[no-untyped-call]  # pyspark's
    place = directory / "gateway"
    place.write_text(f"{gateway.gateway_parameters.port} {gateway.gateway_parameters.auth_token}")
    program = directory / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-P", warm_submit.__file__, str(place)])} "$@"\n')
    program.chmod(0o755)
    try:
        yield program.parent
    finally:
        gateway.shutdown()
        gateway.proc.stdin.close()  # which ends the Java
        gateway.proc.wait()
