"""A standalone Spark cluster on loopback: a master and two workers from the installed pyspark."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.local.processes import Child, ChildSpec, stop_children
from tests.support.class_archive import java_options
from tests.support.waiting import poll_until

HOST = "127.0.0.1"
WORKERS = 2
MASTER_CLASS = "org.apache.spark.deploy.master.Master"
WORKER_CLASS = "org.apache.spark.deploy.worker.Worker"
SAYS_WHERE = re.compile(r"Starting Spark master at (spark://\S+)")
REGISTERED = "Successfully registered with master"
STOP_S = 10.0


@dataclass(frozen=True)
class Cluster:
    """The master URL, and the logs of the processes."""

    master: str
    master_log: Path
    worker_logs: tuple[Path, ...]


@contextmanager
def running_cluster(directory: Path, environment: Mapping[str, str], memory: str = "1g") -> Iterator[Cluster]:
    """Start the cluster on free ports, and stop it with the block."""
    # Daemons need little themselves; what executors get is the workers' memory.
    env = {
        **environment,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOG_DIR": str(directory),
    }
    children: list[Child] = []

    def start(name: str, *arguments: str) -> Child:
        spark_class = str(Path(env["SPARK_HOME"]) / "bin" / "spark-class")
        command = (spark_class, *arguments)
        child = Child(ChildSpec(name, command, env, directory / f"{name}.log"))
        children.append(child)
        return child

    try:
        master_child = start("master", MASTER_CLASS, "--host", HOST, "--port", "0", "--webui-port", "0")
        master = said(master_child, SAYS_WHERE)
        works = ("--host", HOST, "--webui-port", "0", "--cores", "1", "--memory", memory)
        workers = [
            start(f"worker-{n}", WORKER_CLASS, *works, "--work-dir", str(directory / f"work-{n}"), master)
            for n in range(WORKERS)
        ]
        for worker in workers:
            said(worker, re.compile(f"({REGISTERED})"))
        logs = tuple(worker.spec.log_file for worker in workers)
        yield Cluster(master, master_child.spec.log_file, logs)
    finally:
        stop_children(children, STOP_S)


def said(child: Child, what: re.Pattern[str]) -> str:
    """Wait until a process has logged something, and return its first group."""
    found: list[str] = []

    def is_so() -> bool:
        text = child.spec.log_file.read_text(errors="replace") if child.spec.log_file.exists() else ""
        assert child.is_alive(), text[-2000:]
        found.extend(what.findall(text)[:1])
        return bool(found)

    poll_until(is_so)
    return found[0]


def clean_environment() -> dict[str, str]:
    """Return this process' environment without variables that configure another Spark."""
    others = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "MUSTER_"))}
    return {**others, "SPARK_SUBMIT_OPTS": java_options()}
