"""Run a real Prometheus that scrapes a node, loads the rules, and answers the panels' queries."""

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import psycopg2
import pytest
import yaml

from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.http_client import Client, join_body, position
from tests.support.nodes import running_node
from tests.support.repository import ROOT
from tests.support.tools import program
from tests.support.waiting import PATIENCE_S

DOCKER = ROOT / "docker"
PANELS = {
    f"{file.stem}: {panel['title']} {target['refId']}": target["expr"]
    for file in sorted((DOCKER / "grafana" / "dashboards").glob("*.json"))
    for panel in json.loads(file.read_text())["panels"]
    if panel["datasource"]["type"] == "prometheus"
    for target in panel["targets"]
}
COMMON_QUERIES = [
    line
    for block in re.findall(r"```promql\n(.*?)```", (ROOT / "docs" / "metrics.md").read_text(), re.DOTALL)
    for line in block.splitlines()
    if line and not line.startswith("#")
]


class Prometheus:
    """A running Prometheus on loopback."""

    def __init__(self, url: str) -> None:
        self.url = url

    def get(self, path: str) -> Any:  # noqa: ANN401 - JSON
        """Return the response, or None while Prometheus is unreachable."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_S) as answer:
                return json.loads(answer.read())["data"]
        except (urllib.error.URLError, ConnectionError):
            return None

    def query(self, expression: str) -> list[Any]:
        """Return the samples of a query, which must be one."""
        found = self.get(f"/api/v1/query?query={quote(expression)}")
        assert found is not None, expression
        samples: list[Any] = found["result"]
        return samples

    def wait_for(self, query: str) -> None:
        """Wait until a query returns data."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self.get(f"/api/v1/query?query={quote(query)}") or {}).get("result"):
            assert time.monotonic() < deadline, f"Prometheus never answered {query}"
            time.sleep(0.1)  # There is no notification of a scrape.


@pytest.fixture(scope="module")
def prometheus(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Return a Prometheus that has scraped a node with varied groups at least twice."""
    database_url = databases.create()
    with (
        running_node(database_url, group_initial_rebalance_delay_ms=0) as node,
        closing(Client(node.url)) as client,
        running_prometheus(tmp_path_factory.mktemp("prometheus"), urlsplit(node.url).netloc) as found,
    ):
        generate_activity(client, database_url)
        found.wait_for("muster_group_awaited_member_info and on () muster_offsets_expiring")
        generate_more_activity(client)
        found.wait_for('count_over_time(muster_errors_total{error="UNKNOWN_MEMBER_ID"}[1m]) > 1')
        found.wait_for("count_over_time(kafka_consumergroup_lag_seconds[1m]) > 1")
        yield found
    databases.drop(database_url)


@contextmanager
def running_prometheus(folder: Path, target: str) -> Iterator[Prometheus]:
    """Run Prometheus with our rules, scraping one node every second, for the time of a block."""
    config = yaml.safe_load((DOCKER / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    del config["scrape_configs"][0]["authorization"]  # The node under test requires no token.
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    shutil.copy(DOCKER / "prometheus" / "rules.yml", folder)
    flags = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:0"]
    log = folder / "log"
    with log.open("w") as output:
        process = subprocess.Popen([program("prometheus"), *flags], cwd=folder, stdout=output, stderr=output)
    try:
        yield Prometheus(f"http://{address_in(log, process)}")
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def address_in(log: Path, process: "subprocess.Popen[bytes]") -> str:
    """Return the address that Prometheus logs."""
    deadline = time.monotonic() + PATIENCE_S
    while (found := re.search(r'msg="Listening on" address=(\S+)', log.read_text())) is None:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)  # There is no notification of new log lines.
    return found[1]


def generate_activity(client: Client, database_url: str) -> None:
    """Let a group be behind, another one not settle, and a run have found what expires."""
    group = client.group("orders")
    member = group.stable()
    member.commit(position(5, log_end_offset=9))
    simple = client.group("simple")
    simple.post("offsets", {"generation": -1, "member_id": "", "offsets": [position(1)]})
    client.ok("DELETE", f"{simple.path}/offsets?topic=orders&reason=test")
    stuck = client.group("stuck")
    stuck.stable(rebalance_timeout_ms=600_000, session_timeout_ms=600_000)
    stuck.handshake()
    client.later(stuck, "join", join_body(member_id=stuck.handshake(), max_wait_ms=1))
    with closing(psycopg2.connect(psql_url(database_url))) as connection, connection, connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO maintenance_runs (run_id, kind, as_of, status)"
            " VALUES (gen_random_uuid(), 'offset_retention', now(), 'applied')"
        )


def generate_more_activity(client: Client) -> None:
    """Increase every counter once more, after a first scrape."""
    group = client.group("again")
    member = group.stable()
    member.commit(position(5, log_end_offset=9))
    group.post("heartbeat", {"generation": 9, "member_id": "nobody"})


# -- results ----------------------------------------------------------------------------------------------


def test_prometheus_loads_the_configuration_and_scrapes_the_node(prometheus: Prometheus) -> None:
    assert [sample["value"][1] for sample in prometheus.query('up{job="muster"}')] == ["1"]


def test_every_rule_is_evaluated_without_an_error(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.get("/api/v1/rules")["groups"] for rule in group["rules"]]
    assert len(rules) > 10
    assert {rule["health"] for rule in rules} <= {"ok", "unknown"}
    assert [rule["lastError"] for rule in rules if rule.get("lastError")] == []


@pytest.mark.parametrize("panel", PANELS)
def test_panel_query_returns_data(prometheus: Prometheus, panel: str) -> None:
    query = PANELS[panel].replace("$__rate_interval", "1m").replace("$group", "orders")
    assert "$" not in query
    assert prometheus.query(query)


@pytest.mark.parametrize("query", COMMON_QUERIES)
def test_common_query_of_the_metrics_page_is_accepted(prometheus: Prometheus, query: str) -> None:
    prometheus.query(query)
