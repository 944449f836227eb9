"""The id of the cluster that a database belongs to, by which Kafka's clients know it."""

import base64
from typing import Final

from coordinator_core.state_store.postgres.connections import Transaction

_CLUSTER_ID: Final = "SELECT cluster_id FROM incarnation"


def read_cluster_id(transaction: Transaction) -> str:
    """Return the id in the form of Kafka's: a UUID as 22 characters of base64."""
    cluster_id = transaction.execute(_CLUSTER_ID).scalar_one()
    return base64.urlsafe_b64encode(cluster_id.bytes).decode().rstrip("=")
