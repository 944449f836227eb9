"""Two nodes that share a database."""

from tests.support.http_client import Client, Group, fresh_id
from tests.support.nodes import CLUSTER_SECRET, Node
from tests.support.waiting import poll_until

OPTIONS: dict[str, int | str] = {
    "group_initial_rebalance_delay_ms": 0,
    "lease_ttl_ms": 9_000,
    "cluster_secret": CLUSTER_SECRET,
}


class Pair:
    """Two nodes on one database, and clients of both."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.clients = [Client(node.url) for node in nodes]

    def elsewhere(self) -> Group:
        """Return a group that the second node owns, for clients of the first."""
        return self.clients[0].group(self.owned_by(1))

    def owned_by(self, index: int) -> str:
        """Return the id of a group that a node owns, once both nodes have its owner."""
        while True:
            group_id = fresh_id("a/group")
            if self._owner_seen_by(0, group_id) == self._owner_seen_by(1, group_id) == self.nodes[index].url:
                return group_id

    def _owner_seen_by(self, index: int, group_id: str) -> str | None:
        group = self.clients[index].group(group_id)
        url: str | None = self.clients[index].ok("GET", f"{group.path}/coordinator")["url"]
        return url

    def balance_shards(self) -> None:
        """Wait until each owns half of the shards."""
        poll_until(lambda: all(self._is_balanced(client) for client in self.clients))

    def _is_balanced(self, client: Client) -> bool:
        urls = [client.ok("GET", f"/v1/groups/g{n}/coordinator")["url"] for n in range(30)]
        return set(urls) == {node.url for node in self.nodes}
