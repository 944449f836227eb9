"""Stores the topic's partition count in the topic metadata, so that commits to other partitions are rejected."""

from __future__ import annotations

from urllib.parse import quote

import urllib3

from examples.word_count.errors import UserError
from examples.word_count.topic import Topic

TIMEOUT_S = 10.0


def register(url: str, topic: Topic) -> None:
    """Create or update the topic metadata.

    Raises:
        UserError: there is no node at the URL, or it rejects the topic.
    """
    path = f"{url.rstrip('/')}/v1/topics/{quote(topic.name, safe='')}"
    body = {"partitions": topic.partitions, "reason": "number of files in the directory"}
    headers = {"X-Muster-Actor": "word-count"}
    try:
        with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S) as http:
            response = http.request("PUT", path, json=body, headers=headers)
            problem = {} if response.status < 300 else response.json()
    except (urllib3.exceptions.HTTPError, ValueError):
        raise UserError(f"there is no Muster node at {url}; `make run` starts one at http://127.0.0.1:8080") from None
    if problem:
        raise UserError(f"the node at {url} rejects the topic {topic.name}: {problem.get('detail', response.status)}")
