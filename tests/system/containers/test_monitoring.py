"""Prometheus reads the metrics of every node with its token, and has all alerts."""

import json
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from tests.support.http_client import Client
from tests.support.waiting import poll_until
from tests.system.containers.platform import Platform

pytestmark = pytest.mark.containers


def test_prometheus_scrapes_every_node_and_has_the_alerts(platform: Platform) -> None:
    client = Client(platform.url("prometheus", 9090))

    def found(query: str) -> dict[str, str]:
        answer: Any = client.ok("GET", f"/api/v1/query?query={quote(query)}")
        return {each["metric"]["instance"]: each["value"][1] for each in answer["data"]["result"]}

    up = {f"node-{number}:8080": "1" for number in (1, 2, 3)}
    poll_until(lambda: found('up{job="muster"}') == up)
    written = yaml.safe_load((platform.directory / "prometheus" / "rules.yml").read_text())
    loaded = client.ok("GET", "/api/v1/rules")["data"]["groups"]
    assert json.dumps([group["name"] for group in loaded]) == json.dumps([group["name"] for group in written["groups"]])
    client.close()
