"""Stores the topic's partition count in the topic metadata, so that commits to other partitions are rejected."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

import urllib3

from examples.word_count.access import Access
from examples.word_count.errors import UserError
from examples.word_count.topic import Topic

TIMEOUT_S = 10.0
FORBIDDEN = 403


def register(urls: Sequence[str], access: Access, topic: Topic) -> None:
    """Create or update the topic metadata, at the first node that answers, if the token may.

    Raises:
        UserError: there is no node at the URLs, or one is not trusted, or rejects the topic.
    """
    path = f"/v1/topics/{quote(topic.name, safe='')}"
    body = {"partitions": topic.partitions, "reason": "number of files in the directory"}
    headers = {"Authorization": f"Bearer {access.token}"} if access.token else {"X-Muster-Actor": "word-count"}
    with urllib3.PoolManager(retries=False, timeout=TIMEOUT_S, ssl_context=access.ssl_context) as http:
        for url in urls:
            try:
                response = http.request("PUT", url.rstrip("/") + path, json=body, headers=headers)
                problem = {} if response.status < 300 else response.json()
            except urllib3.exceptions.SSLError as failure:
                raise UserError(f"{url}: {failure}; MUSTER_TLS_CA_FILE names trusted authorities") from None
            except (urllib3.exceptions.HTTPError, ValueError):
                continue
            if response.status == FORBIDDEN:
                command = f"muster topics set {topic.name} --partitions {topic.partitions}"
                print(f"the token may not set the number of partitions; an operator may: {command}", flush=True)
            elif problem:
                detail = problem.get("detail", response.status)
                raise UserError(f"the node at {url} rejects the topic {topic.name}: {detail}")
            return
    raise UserError(f"there is no Muster node at {' or '.join(urls)}; `make run` starts one at http://127.0.0.1:8080")
