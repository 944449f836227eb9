"""The demonstration fleet: three groups of real agents, and one of a Kafka client, each member a process.

One member of the last group comes and goes, so that rebalances happen by themselves. A member that is killed is
started again after a pause longer than its session, so that both rebalances are seen: first its session expires, then
it joins anew.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from muster.data_dir import DataDir
from muster.local.processes import ChildProcesses, ChildSpec
from muster.node_client import NodeClient, segment

RESTART_DELAY_S = 20.0
SHIFT_S = 25.0


@dataclass(frozen=True, slots=True)
class DemoGroup:
    """A group with permanent members, and possibly one that leaves and rejoins."""

    group_id: str
    topic: str
    partition_count: int
    members: tuple[str, ...]
    visitor: str | None = None


GROUPS = (
    DemoGroup("orders-billing", "orders", 12, ("billing-1", "billing-2", "billing-3")),
    DemoGroup("clicks-enrichment", "clicks", 8, ("enrichment-1", "enrichment-2")),
    DemoGroup("payments-audit", "payments", 6, ("audit-1", "audit-2"), visitor="audit-visitor"),
)

KAFKA_GROUP = DemoGroup("shipments-labels", "shipments", 6, ("labels-1",))
"""The group of the Kafka client."""


def has_kafka_client() -> bool:
    """Return whether the packages of the Kafka client and of the listener that it needs are installed."""
    return all(find_spec(package) for package in ("aiokafka", "kio"))


class DemoFleet:
    """Starts the members, and lets the visiting ones leave and rejoin; the processes belong to `children`."""

    def __init__(
        self,
        children: ChildProcesses,
        node_urls: Sequence[str],
        kafka_addresses: Sequence[str],
        data_dir: DataDir,
        environment: Mapping[str, str],
    ) -> None:
        self._children = children
        self._node_urls = node_urls
        self._kafka_addresses = kafka_addresses
        self._data_dir = data_dir
        self._environment = environment
        self._next_shift_at_s: float | None = None

    def start(self) -> int:
        """Store the topic metadata, start the permanent members, and return their number.

        Raises:
            UserError: the node refused a topic.
        """
        node = NodeClient(self._node_urls[0], actor="demo")
        is_secured = self._node_urls[0].startswith("https")
        has_kafka = self._kafka_addresses and has_kafka_client() and not is_secured
        groups = (*GROUPS, KAFKA_GROUP) if has_kafka else GROUPS
        for group in groups:
            body = {"partitions": group.partition_count, "reason": "demonstration fleet"}
            node.put(f"/v1/topics/{segment(group.topic)}", body)
        specs = [self._spec(group, member, restart=True) for group in groups for member in group.members]
        for spec in specs:
            self._children.start(spec)
        self._next_shift_at_s = time.monotonic() + SHIFT_S
        return len(specs)

    def tick(self) -> None:
        """Start or stop visiting members that are due; call it a few times a second."""
        if self._next_shift_at_s is None or time.monotonic() < self._next_shift_at_s:
            return
        self._next_shift_at_s += SHIFT_S
        for group in GROUPS:
            if group.visitor is not None:
                self._send(group, group.visitor)

    def _send(self, group: DemoGroup, visitor: str) -> None:
        spec = self._spec(group, visitor, restart=False)
        if self._children.find(spec.name):
            self._children.dismiss(spec.name)
        else:
            self._children.start(spec)

    def _spec(self, group: DemoGroup, client_id: str, *, restart: bool) -> ChildSpec:
        module, nodes = "demo_member", [("--url", url) for url in self._node_urls]
        if group is KAFKA_GROUP:
            module, nodes = "demo_kafka_member", [("--bootstrap", ",".join(self._kafka_addresses))]
        options = [*nodes, ("--group", group.group_id), ("--topic", group.topic), ("--client-id", client_id)]
        name = f"demo-{client_id}"
        return ChildSpec(
            name=name,
            argv=(sys.executable, "-m", f"muster.local.{module}", *(part for option in options for part in option)),
            env=self._environment,
            log_file=self._data_dir.log_file(name),
            restart=restart,
            restart_delay_s=RESTART_DELAY_S,
        )
