"""Run a job in a Java that runs already: the `spark-submit` of tests/support/warm_spark.py.

Its first argument is the file with the port and the secret of that Java; the others are those of spark-submit. What
this program cannot do it leaves to the real one: another option, another master, or a Java that runs another job.

Run by its path; it imports nothing of this project.
"""

import fcntl
import os
import runpy
import sys
from pathlib import Path
from typing import NamedTuple, TextIO

PROPERTIES = {"--master": "spark.master", "--name": "spark.app.name", "--jars": "spark.jars"}


class Submission(NamedTuple):
    """What a command line asks for."""

    conf: dict[str, str]
    application: str
    arguments: list[str]


def read(arguments: list[str]) -> Submission | None:
    """Return the submission; None: only the real spark-submit understands it."""
    conf: dict[str, str] = {}
    while len(arguments) > 1 and arguments[0].startswith("--"):
        option, value, *arguments = arguments
        if option == "--conf":
            key, _, conf[key] = value.partition("=")
        elif option in PROPERTIES:
            conf[PROPERTIES[option]] = value
        else:
            return None
    is_local = conf.get("spark.master", "").startswith("local")
    return Submission(conf, arguments[0], arguments[1:]) if arguments and is_local else None


def lock(place: Path) -> TextIO | None:
    """Return the open file of the Java, locked until this process ends; None: another job runs there."""
    file = place.open()
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def prepare(conf: dict[str, str]) -> None:
    """Stop what a killed job has left in the Java, and replace the configuration of the last one."""
    from pyspark import SparkContext  # noqa: PLC0415 - it reads the environment

    SparkContext._ensure_initialized()  # There is no other way to Java without a context.
    java = SparkContext._jvm
    assert java is not None, "it was initialized"
    left = getattr(getattr(java.org.apache.spark, "SparkContext$"), "MODULE$").getActive()
    if left.isDefined():
        left.get().stop()
    for name in list(java.java.lang.System.getProperties().stringPropertyNames()):
        if name.startswith("spark."):
            java.java.lang.System.clearProperty(name)
    for name, value in conf.items():
        java.java.lang.System.setProperty(name, value)


def main() -> None:
    """Run the job here, or become the real spark-submit."""
    place, *arguments = sys.argv[1:]
    submission = read(arguments)
    held = None if submission is None else lock(Path(place))
    if submission is None or held is None:
        real = Path(sys.executable).with_name("spark-submit")
        os.execv(real, [str(real), *arguments])
    os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"] = held.read().split()
    prepare(submission.conf)
    sys.argv = [submission.application, *submission.arguments]
    sys.path.insert(0, str(Path(submission.application).parent))
    runpy.run_path(submission.application, run_name="__main__")


if __name__ == "__main__":
    main()
