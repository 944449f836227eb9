"""A Kafka broker for comparison: one node, KRaft, its defaults, from jars that Spark's resolver gets once.

The jars are kept in `.tools/kafka-VERSION`; a folder with the jars of an installed Kafka does as well.
"""

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from bench import kafka_wire
from bench.bench_servers import HOST, STOP_S, Server, free_port
from bench.channel import Channel
from bench.cpu_time import cpu_time_s
from bench.figures import Skipped
from bench.kafka_members import TOPIC
from muster.errors import UserError
from muster.local.java import find_java
from muster.local.processes import Child, ChildSpec, stop_children

GROUP_ID: Final = "org.apache.kafka"
ARTIFACT_ID: Final = "kafka_2.13"
VERSION: Final = "4.1.1"
TOOLS: Final = Path(__file__).resolve().parent.parent / ".tools"
FETCH_TIMEOUT_S: Final = 600.0
READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
IDLE_S: Final = 0.3
IDLE_SHARE: Final = 0.1
"""Share of a core that an idle broker may use."""
HEAP: Final = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
"""As Kafka's own scripts start a broker."""
CLUSTER_ID: Final = "bXVzdGVyLWJlbmNobWFyaw"
PROPERTIES: Final = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@{host}:{controller_port}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller_port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
offsets.topic.replication.factor=1
group.initial.rebalance.delay.ms={initial_rebalance_delay_ms}
"""


@contextmanager
def kafka_broker(directory: Path, partitions: int, initial_rebalance_delay_ms: int) -> Iterator[Server]:
    """Run a broker with one topic until the block ends.

    Raises:
        Skipped: there is no Java, or the jars cannot be fetched.
    """
    java = _find_java(directory)
    run_class = (java, *HEAP, "-cp", f"{fetch_jars(java, TOOLS / f'kafka-{VERSION}')}/*")
    port = free_port()
    properties = str(_write_properties(directory, port, initial_rebalance_delay_ms))
    storage_tool = [*run_class, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", properties]
    subprocess.run(storage_tool, check=True, capture_output=True)
    argv = (*run_class, "kafka.Kafka", properties)
    server = Server(f"kafka://{HOST}:{port}", Child(ChildSpec("kafka", argv, {}, directory / "kafka.log")))
    try:
        asyncio.run(asyncio.wait_for(_create_topic(server, partitions), READY_TIMEOUT_S))
        yield server
    finally:
        stop_children([server.child], STOP_S)


async def until_idle(server: Server) -> None:
    """Return when a broker has used hardly any processor time for a while, so all its requests wait."""
    used_s = cpu_time_s(server.child.pid)
    while True:
        await asyncio.sleep(IDLE_S)
        before_s, used_s = used_s, cpu_time_s(server.child.pid)
        if used_s - before_s <= IDLE_S * IDLE_SHARE:
            return


def fetch_jars(java: str, directory: Path) -> Path:
    """Return the directory of the broker's jars; get them if it does not exist.

    Raises:
        Skipped: they cannot be fetched.
    """
    if directory.exists():
        return directory
    spark = find_spec("pyspark")
    assert spark is not None, "Spark is installed with Muster's platform"
    assert spark.origin is not None, "a package has an origin"
    draft = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    class_path = f"{Path(spark.origin).parent}/jars/*"
    resolver = [java, "-cp", class_path, "org.apache.ivy.Main", "-cache", str(TOOLS / "ivy")]
    coordinates = ["-dependency", GROUP_ID, ARTIFACT_ID, VERSION, "-confs", "default"]
    retrieve = ["-retrieve", f"{draft}/[artifact]-[revision](-[classifier]).[ext]"]
    try:
        subprocess.run([*resolver, *coordinates, *retrieve], check=True, capture_output=True, timeout=FETCH_TIMEOUT_S)
    except (subprocess.SubprocessError, OSError) as error:
        jars = f"{GROUP_ID}:{ARTIFACT_ID}:{VERSION}"
        raise Skipped(f"the jars of {jars} cannot be fetched; put them into {directory}") from error
    return draft.rename(directory)


def _find_java(directory: Path) -> str:
    try:
        return str(find_java(directory) / "bin" / "java")
    except UserError as error:
        raise Skipped("Kafka needs Java 17 or newer, and there is none") from error


def _write_properties(directory: Path, port: int, initial_rebalance_delay_ms: int) -> Path:
    file = directory / "server.properties"
    text = PROPERTIES.format(
        host=HOST,
        port=port,
        controller_port=free_port(),
        directory=directory,
        initial_rebalance_delay_ms=initial_rebalance_delay_ms,
    )
    file.write_text(text)
    return file


async def _create_topic(server: Server, partitions: int) -> None:
    """Create the topic, and return when coordinators are found."""
    channel = await _connected(server)
    await channel.ask(kafka_wire.create_topic(TOPIC, partitions, timeout_ms=30_000))
    find = kafka_wire.find_coordinator("any")
    while kafka_wire.read_error(await channel.ask(find)) != kafka_wire.NO_ERROR:  # noqa: ASYNC110 - the broker notifies of nothing
        await asyncio.sleep(POLL_S)
    channel.close()


async def _connected(server: Server) -> Channel:
    while True:
        try:
            return await Channel.connected(server.url, kafka_wire.is_complete)
        except ConnectionError:
            assert server.child.is_alive(), server.child.spec.log_file.read_text()[-2000:]
            await asyncio.sleep(POLL_S)  # A closed port cannot be waited for.
