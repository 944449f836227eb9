"""Nodes with a Kafka listener, as processes on one database, that a test may stop, kill and start again."""

import os
import re
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import urllib3

from api.kafka.apis import ApiKey
from muster.local.processes import Child, ChildSpec, stop_children
from muster.settings import ENVIRONMENT_PREFIX
from tests.support.kafka_broker import HOST
from tests.support.kafka_wire import KafkaWire
from tests.support.nodes import CLUSTER_SECRET
from tests.support.ports import free_ports
from tests.support.waiting import PATIENCE_S, poll_until

NODES: Final = 3
LEASE_TTL_MS: Final = 3_000
STOP_S: Final = 60.0


class ClusterNode:
    """One node, at an address that it keeps when it is started again."""

    def __init__(self, directory: Path, database_url: str, http_port: int, kafka_port: int) -> None:
        """Start nothing yet.

        Args:
            directory: for its log.
            database_url: a migrated database.
            http_port: a free port.
            kafka_port: another one.
        """
        self.url: Final = f"http://{HOST}:{http_port}"
        self.kafka_address: Final = f"{HOST}:{kafka_port}"
        self.log_file: Final = directory / f"node-{http_port}.log"
        own = {
            "MUSTER_DATABASE_URL": database_url,
            "MUSTER_HTTP_PORT": str(http_port),
            "MUSTER_KAFKA_PORT": str(kafka_port),
            "MUSTER_LEASE_TTL_MS": str(LEASE_TTL_MS),
            "MUSTER_CLUSTER_SECRET": CLUSTER_SECRET,
            "MUSTER_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "MUSTER_DATA_DIR": str(directory),
        }
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(ENVIRONMENT_PREFIX)}
        argv = (sys.executable, "-m", "muster", "serve")
        self._spec = ChildSpec(f"node-{http_port}", argv, {**inherited, **own}, self.log_file)
        self._child: Child | None = None

    def start(self) -> None:
        """Start its process."""
        self._child = Child(self._spec)

    def start_again(self) -> None:
        """Start its process unless it runs; resume it if it is stopped by a signal."""
        if self._child is None:
            self.start()
        else:
            self.signal(signal.SIGCONT)

    def wait_until_ready(self) -> None:
        """Return when it serves."""
        poll_until(self.is_ready)

    def signal(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._child is not None, "it is started"
        os.kill(self._child.pid, number)

    def stop(self) -> None:
        """Stop it gracefully, if it runs; kill it if it does not end."""
        if self._child is not None:
            with suppress(ProcessLookupError):
                self.signal(signal.SIGCONT)
            stop_children([self._child], STOP_S)
            self._child = None

    def kill(self) -> None:
        """Kill its process, as if the machine had failed."""
        self.signal(signal.SIGKILL)
        self.stop()

    def answered(self, request: str, error: str = "NONE") -> int:
        """Return how many requests of Kafka clients with this name it has answered with this error."""
        labels = f'error="{error}",listener="kafka",request="{request}"'
        metrics = urllib3.request("GET", f"{self.url}/metrics", timeout=PATIENCE_S).data.decode()
        found = re.search(rf"^muster_listener_requests_total\{{{labels}\}} (\S+)", metrics, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))

    def is_ready(self) -> bool:
        """Return whether it serves."""
        assert self._child is not None, "it is started"
        assert self._child.is_alive(), self.log_file.read_text()[-2000:]
        try:
            return urllib3.request("GET", f"{self.url}/readyz", timeout=2, retries=False).status == 200
        except urllib3.exceptions.HTTPError:
            return False


class Cluster:
    """The nodes, and what any of them says about a group."""

    def __init__(self, nodes: Mapping[str, ClusterNode]) -> None:
        """Take nodes that run, by their addresses."""
        self.nodes: Final = nodes

    @property
    def bootstrap(self) -> str:
        """Return the addresses of all nodes."""
        return ",".join(self.nodes)

    def restore(self) -> None:
        """Start the nodes that are stopped, which a test that fails may leave."""
        for node in self.nodes.values():
            node.start_again()
        for node in self.nodes.values():
            node.wait_until_ready()

    def owner(self, group_id: str, *, but: ClusterNode | None = None) -> ClusterNode:
        """Return the owner of a group as soon as another node than `but` names one that is not `but`."""
        found = poll_until(lambda: self._owner(group_id, but))
        assert found is not None, "it was waited for"
        return found

    def _owner(self, group_id: str, but: ClusterNode | None) -> ClusterNode | None:
        asked = next(node for node in self.nodes.values() if node is not but)
        with suppress(ConnectionError), KafkaWire(asked.kafka_address) as wire:
            found = wire.call(ApiKey.FIND_COORDINATOR, 2, key=group_id, key_type=0)
            owner = self.nodes.get(f"{found.host}:{found.port}") if found.error_code == 0 else None
            return None if owner is but else owner
        return None

    def offsets(self, group_id: str, *, but: ClusterNode | None = None) -> dict[tuple[str, int], int]:
        """Return the committed offsets of a group, from its owner, which is not `but`."""
        found = poll_until(lambda: self._offsets(group_id, but))
        assert found is not None, "it was waited for"
        return found

    def _offsets(self, group_id: str, but: ClusterNode | None) -> dict[tuple[str, int], int] | None:
        with suppress(ConnectionError), KafkaWire(self.owner(group_id, but=but).kafka_address) as wire:
            found = wire.call(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=None)
            if found.error_code == 0:
                return {
                    (topic.name, one.partition_index): one.committed_offset
                    for topic in found.topics
                    for one in topic.partitions
                }
        return None


@contextmanager
def running_cluster(directory: Path, database_url: str) -> Iterator[Cluster]:
    """Run nodes until the block ends."""
    ports = free_ports(2 * NODES)
    pairs = zip(ports[:NODES], ports[NODES:], strict=True)
    nodes = [ClusterNode(directory, database_url, http_port, kafka_port) for http_port, kafka_port in pairs]
    try:
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_until_ready()
        yield Cluster({node.kafka_address: node for node in nodes})
    finally:
        for node in nodes:
            node.stop()
