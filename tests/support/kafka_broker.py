"""A Kafka broker: KRaft, its defaults, from jars that Spark's resolver gets once.

The jars are kept in `.tools/kafka-VERSION`; a folder with the jars of an installed Kafka does as well.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from muster.errors import UserError
from muster.local.java import find_java
from muster.local.processes import Child, ChildSpec, stop_children
from tests.support.fetched import TOOLS, fetch_once
from tests.support.ports import free_ports
from tests.support.waiting import poll_until

HOST: Final = "127.0.0.1"
GROUP_ID: Final = "org.apache.kafka"
ARTIFACT_ID: Final = "kafka_2.13"
VERSION: Final = "4.1.1"
FETCH_TIMEOUT_S: Final = 600.0
FORMAT_TIMEOUT_S: Final = 120.0
STOP_S: Final = 20.0
SMALL: Final = ("-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
"""Options of a Java that starts quickly and is not measured."""
CLUSTER_ID: Final = "bXVzdGVyLWJlbmNobWFyaw"
DEFAULTS: Final = {
    "process.roles": "broker,controller",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}
QUICK: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.min.session.timeout.ms": "1000",
}
"""Properties for tests: groups need not wait, and their log has few partitions."""


class KafkaUnavailable(Exception):
    """There is no Java, or the jars of Kafka cannot be fetched; the sentence says which."""


class KafkaBroker:
    """A broker with its data in a directory; it can be stopped and started again."""

    def __init__(
        self,
        directory: Path,
        properties: Mapping[str, str] = QUICK,
        java_options: Sequence[str] = SMALL,
        features: Sequence[str] = (),
        *,
        secure_listener: str | None = None,
        scram_users: Sequence[str] = (),
        node_id: int = 1,
        ports: Sequence[int] = (),
    ) -> None:
        """Prepare the broker's data; it is not started.

        Args:
            directory: where its data, log and properties are.
            properties: added to `DEFAULTS`.
            java_options: of its Java.
            features: those that are not on by default, as `share.version=1`.
            secure_listener: the security protocol of a second listener, at `secure_bootstrap`; None: there is none.
            scram_users: users of SCRAM, as `SCRAM-SHA-256=[name=…,password=…]`.
            node_id: its number in its cluster, from 1.
            ports: those of its two listeners, and of its cluster's controllers, one for each broker; empty: it is the
                only broker.

        Raises:
            KafkaUnavailable: it cannot be had.
        """
        java = java_or_unavailable(directory)
        port, secure_port, *quorum = ports or free_ports(3)
        controllers = dict(enumerate(quorum, start=1))
        self.bootstrap: Final = f"{HOST}:{port}"
        self.secure_bootstrap: Final = f"{HOST}:{secure_port}"
        self.log_file: Final = directory / "kafka.log"
        self._run_class = (java, *java_options, "-cp", f"{fetch_jars(java)}/*")
        self._properties = directory / "server.properties"
        addresses = {
            "node.id": str(node_id),
            "controller.quorum.voters": ",".join(f"{each}@{HOST}:{at}" for each, at in controllers.items()),
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{controllers[node_id]}"
            + ("" if secure_listener is None else f",{secure_listener}://{self.secure_bootstrap}"),
            "log.dirs": str(directory / "data"),
        }
        lines = [f"{name}={value}\n" for name, value in {**DEFAULTS, **addresses, **properties}.items()]
        self._properties.write_text("".join(lines))
        format_data = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(self._properties)]
        format_data += [argument for feature in features for argument in ("--feature", feature)]
        format_data += [argument for user in scram_users for argument in ("--add-scram", user)]
        subprocess.run([*self._run_class, *format_data], check=True, capture_output=True, timeout=FORMAT_TIMEOUT_S)
        self._child: Child | None = None

    @property
    def child(self) -> Child:
        """The process, as long as it runs."""
        assert self._child is not None, "the broker is not started"
        return self._child

    def start(self) -> None:
        """Start it, and return when it accepts connections."""
        self.launch()
        self.wait_until_started()

    def launch(self) -> None:
        """Start it, and return at once."""
        argv = (*self._run_class, "kafka.Kafka", str(self._properties))
        self._child = Child(ChildSpec("kafka", argv, {}, self.log_file))

    def wait_until_started(self) -> None:
        """Return when it accepts connections, which it does when most controllers of its cluster run."""

        def accepts_connections() -> bool:
            assert self.child.is_alive(), self.log_file.read_text()[-2000:]
            host, _, port = self.bootstrap.partition(":")
            with closing(socket.socket()) as attempt:
                return attempt.connect_ex((host, int(port))) == 0

        poll_until(accepts_connections)

    def stop(self) -> None:
        """Stop it, if it runs."""
        if self._child is not None:
            stop_children([self._child], STOP_S)
            self._child = None

    def kill(self) -> None:
        """Kill it, as if the machine had failed."""
        os.kill(self.child.pid, signal.SIGKILL)
        self.stop()


@contextmanager
def running_kafka(
    directory: Path,
    properties: Mapping[str, str] = QUICK,
    java_options: Sequence[str] = SMALL,
    features: Sequence[str] = (),
) -> Iterator[KafkaBroker]:
    """Run a broker, made as by `KafkaBroker`, until the block ends.

    Raises:
        KafkaUnavailable: it cannot be had.
    """
    broker = KafkaBroker(directory, properties, java_options, features)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()


def java_or_unavailable(directory: Path) -> str:
    """Return the path of a Java.

    Args:
        directory: where the start script of a wheel's Java may be written.

    Raises:
        KafkaUnavailable: there is none.
    """
    try:
        return str(find_java(directory) / "bin" / "java")
    except UserError as error:
        raise KafkaUnavailable("Kafka needs Java 17 or newer, and there is none") from error


def fetch_jars(java: str, directory: Path | None = None, artifact: str = ARTIFACT_ID, version: str = VERSION) -> Path:
    """Return the directory of an artifact's jars with those that it needs; get them if it does not exist.

    Args:
        java: the Java that runs Spark's resolver.
        directory: where the jars go; by default a folder of `.tools` of the artifact's name.
        artifact: an artifact of `GROUP_ID`.
        version: its version.

    Raises:
        KafkaUnavailable: they cannot be fetched.
    """
    if directory is None:
        directory = TOOLS / f"{artifact.removesuffix('_2.13')}-{version}"
    try:
        return fetch_once(directory, lambda draft: _fetch_jars(java, draft, artifact, version))
    except (subprocess.SubprocessError, OSError) as error:
        jars = f"{GROUP_ID}:{artifact}:{version}"
        raise KafkaUnavailable(f"the jars of {jars} cannot be fetched; put them into {directory}") from error


def _fetch_jars(java: str, directory: Path, artifact: str, version: str) -> None:
    spark = find_spec("pyspark")
    assert spark is not None, "Spark is installed with Muster's platform"
    assert spark.origin is not None, "a package has an origin"
    class_path = f"{Path(spark.origin).parent}/jars/*"
    resolver = [java, "-cp", class_path, "org.apache.ivy.Main", "-cache", str(TOOLS / "ivy")]
    coordinates = ["-dependency", GROUP_ID, artifact, version, "-confs", "default"]
    retrieve = ["-retrieve", f"{directory}/[artifact]-[revision](-[classifier]).[ext]"]
    subprocess.run([*resolver, *coordinates, *retrieve], check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
