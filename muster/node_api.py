"""The few calls that the local platform makes to its node; with MUSTER_TOKEN, where there is one."""

from urllib.parse import quote

import urllib3

from muster.errors import UserError
from muster.own_token import own_token

TIMEOUT_S = 5.0
ACTOR = "demo"


def is_ready(node_url: str) -> bool:
    """Tell whether the node owns its shards and reaches Postgres."""
    try:
        reply = urllib3.request("GET", f"{node_url}/readyz", timeout=TIMEOUT_S, retries=False)
    except urllib3.exceptions.HTTPError:
        return False
    return reply.status == 200


def put_topic(node_url: str, topic: str, partition_count: int) -> None:
    """Tell the catalogue how many partitions a topic has; harmless when it knows.

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
    token = own_token()
    return {"X-Muster-Actor": ACTOR} | ({"Authorization": f"Bearer {token}"} if token else {})
