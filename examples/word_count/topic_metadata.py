"""Stores the topic's partition count in the topic metadata, so that commits to other partitions are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import urllib3

from examples.word_count.errors import UserError
from examples.word_count.topic import Topic

TIMEOUT_S = 10.0


def register(urls: Sequence[str], topic: Topic) -> None:
    """Create or update the topic metadata, at the first node that answers.

    Raises:
        UserError: there is no node at the URLs, or one rejects the topic.
    """
    path = f"/v1/topics/{quote(topic.name, safe='')}"
    body = {"partitions": topic.partitions, "reason": "number of files in the directory"}
    headers = {"X-Muster-Actor": "word-count"}
    with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S) as http:
        for url in urls:
            try:
                response = http.request("PUT", url.rstrip("/") + path, json=body, headers=headers)
                problem = {} if response.status < 300 else response.json()
            except (urllib3.exceptions.HTTPError, ValueError):
                continue
            if problem:
                detail = problem.get("detail", response.status)
                raise UserError(f"the node at {url} rejects the topic {topic.name}: {detail}")
            return
    raise UserError(f"there is no Muster node at {' or '.join(urls)}; `make run` starts one at http://127.0.0.1:8080")
