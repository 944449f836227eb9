"""The HTTP calls of the local platform to its node."""

from urllib.parse import quote

import urllib3

from muster.client_token import client_token
from muster.errors import UserError

TIMEOUT_S = 5.0
ACTOR = "demo"


def is_ready(node_url: str) -> bool:
    """Return whether the node owns its shards and reaches Postgres."""
    try:
        reply = urllib3.request("GET", f"{node_url}/readyz", timeout=TIMEOUT_S, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return reply.status == 200


def put_topic(node_url: str, topic: str, partition_count: int) -> None:
    """Store the partition count of a topic; idempotent.

    Raises:
        UserError: the node refused, or did not answer.
    """
    url = f"{node_url}/v1/topics/{quote(topic, safe='')}"
    body = {"partitions": partition_count, "reason": "demonstration fleet"}
    try:
        reply = urllib3.request("PUT", url, json=body, headers=_headers(), timeout=TIMEOUT_S, retries=False)
    except urllib3.exceptions.HTTPError as failure:
        raise UserError(f"The node did not take the topic {topic}: {failure}.") from failure
    if reply.status >= 300:
        raise UserError(f"The node refused the topic {topic}: {reply.status} {reply.data.decode(errors='replace')}")


def _headers() -> dict[str, str]:
    token = client_token()
    return {"X-Muster-Actor": ACTOR} | ({"Authorization": f"Bearer {token}"} if token else {})
