"""Requests made of the OpenAPI document: no answer is a 5xx, and every answer matches its schema."""

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

import psycopg2
import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from psycopg2.extensions import connection as PsycopgConnection  # noqa: N812 - a class under a function's name
from schemathesis.checks import not_a_server_error
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from api.http.app import FAST_PATH_HANDLERS, LITESTAR_HANDLERS
from api.http.openapi import describe_api
from muster.settings import psql_url
from tests.support.databases import Databases
from tests.support.http_client import SHARED_TOPIC, Client, position
from tests.support.nodes import running_node
from tests.support.tuning_history import Past

EXAMPLES: Final = 40
"""Random requests of one operation; those at the bounds of its fields are added."""
WAIT_MAX_MS: Final = 10
"""How long a join or sync may wait: the requests complete no rebalance."""
GROUP: Final = "orders"
KNOWN: Final = {
    "group_id": [GROUP, "empty"],
    "topic": [SHARED_TOPIC],
    "member_id": ["known member"],
    "run_id": ["known run"],
    "change_id": ["known change"],
    "rebalance_id": ["known rebalance"],
    "generation": [-1, 1],
    "session_timeout_ms": [30_000],
    "protocol_type": ["consumer"],
    "metadata": ["", {"topics": [SHARED_TOPIC]}],
    "assignment": ["", {"partitions": [{"topic": SHARED_TOPIC, "partitions": [0]}]}],
}
"""Parameter or field → values that are accepted; ids that the node makes are put in place of their words."""
CHECKS: Final = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
]


def _schema() -> BaseSchema:
    """Return the document; half of the values of `KNOWN` are known, and no request waits for long."""
    document = describe_api([*FAST_PATH_HANDLERS, *LITESTAR_HANDLERS], "1")
    for operations in document["paths"].values():
        for parameter in (each for operation in operations.values() for each in operation.get("parameters", ())):
            if parameter["in"] == "path":
                parameter["schema"] = {"anyOf": [{"enum": KNOWN[parameter["name"]]}, parameter["schema"]]}
    for name, schema in document["components"]["schemas"].items():
        fields = {} if "Response" in name else schema.get("properties", {})
        fields |= {field: {"anyOf": [{"enum": KNOWN[field]}, fields[field]]} for field in fields.keys() & KNOWN.keys()}
        if "max_wait_ms" in fields:
            fields["max_wait_ms"] = {"type": "integer", "minimum": 0, "maximum": WAIT_MAX_MS}
            schema["required"].append("max_wait_ms")
    return schemathesis.openapi.from_dict(document)


SCHEMA: Final = _schema()


@dataclass(frozen=True, slots=True)
class SeededNode:
    """A node with groups, history, a report, a maintenance run and changes."""

    url: str
    ids: Mapping[str, str]
    """Word of `KNOWN` → id."""


@pytest.fixture(scope="module")
def seeded(databases: Databases) -> Iterator[SeededNode]:
    url = databases.create()
    with (
        running_node(url, group_initial_rebalance_delay_ms=0) as node,
        closing(Client(node.url)) as client,
        closing(psycopg2.connect(psql_url(url))) as rows,
    ):
        rows.autocommit = True
        yield SeededNode(node.url, _seed(client, rows))
    databases.drop(url)


def _seed(client: Client, rows: PsycopgConnection) -> Mapping[str, str]:
    """Store something of every kind, and return the ids of what the node named."""
    group = client.group(GROUP)
    member = group.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_800_000)
    client.ok("PUT", f"/v1/topics/{SHARED_TOPIC}", {"partitions": 1})
    member.commit(position(7, log_end_offset=9))
    client.group("empty").post("offsets", {"generation": -1, "member_id": "", "offsets": [position(3)]})
    past = Past(group, rows)
    past.flap(2, timedelta(seconds=6))
    past.rebalance(past.now - timedelta(hours=1), "member_joined")
    past.report(past.now - timedelta(hours=3), present_ms=1_800_000)
    run_id = str(uuid4())
    past.execute(
        "INSERT INTO maintenance_runs (run_id, kind, as_of, status, counts)"
        " VALUES (%s, 'offset_retention', now(), 'proposed', '{\"groups\": 1}')",
        (run_id,),
    )
    (change, *_) = client.ok("GET", "/v1/changes")["changes"]
    (rebalance, *_) = client.ok("GET", f"{group.path}/rebalances")["rebalances"]
    return {
        "known member": member.member_id,
        "known run": run_id,
        "known change": change["change_id"],
        "known rebalance": rebalance["rebalance_id"],
    }


@pytest.mark.slow
@SCHEMA.parametrize()
@settings(max_examples=EXAMPLES, derandomize=True, database=None, suppress_health_check=[*HealthCheck])
def test_answers_match_the_document(case: schemathesis.Case[Any], seeded: SeededNode) -> None:
    parts: list[Any] = [case.path_parameters, case.body]
    for given in parts:
        for name in KNOWN:
            word = given.get(name) if isinstance(given, dict) else None
            if isinstance(word, str):
                given[name] = seeded.ids.get(word, word)
    case.validate_response(case.call(base_url=seeded.url), checks=CHECKS)
