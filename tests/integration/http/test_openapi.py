"""The OpenAPI document is complete and matches the responses; `/docs` loads nothing from other hosts."""

import re

import pytest
from jsonschema import Draft202012Validator

from api.http.app import FAST_PATH_HANDLERS, LITESTAR_HANDLERS
from tests.integration.http.openapi import answer_fits
from tests.support.http_client import Client, Group, Json, join_body, position
from tests.support.repository import ROOT

ENDPOINTS = [*FAST_PATH_HANDLERS, *LITESTAR_HANDLERS]


@pytest.fixture(scope="module")
def document(client: Client) -> Json:
    return client.ok("GET", "/openapi.json")


def operations(document: Json) -> list[tuple[str, str, Json]]:
    """Return method, path and description of every operation."""
    return [(method, path, each) for path, methods in document["paths"].items() for method, each in methods.items()]


def test_the_document_names_every_endpoint(document: Json) -> None:
    declared = {
        (method.lower(), re.sub(r":str}", "}", path))
        for handler in ENDPOINTS
        for path in handler.paths
        for method in handler.http_methods
    }

    assert {(method, path) for method, path, _ in operations(document)} == declared
    assert len(declared) == len(ENDPOINTS)


PAGES = ["README.md", *(f"docs/{name}.md" for name in ("agent", "consume", "maintenance", "runbook"))]
REQUESTS = [request for page in PAGES for request in re.findall(r"`([A-Z]+) (/v1/[^`\s]+)`", (ROOT / page).read_text())]


@pytest.mark.parametrize(("method", "path"), dict.fromkeys(REQUESTS))
def test_a_request_that_a_page_names_is_an_operation(document: Json, method: str, path: str) -> None:
    declared = [re.sub("{.*?}", "[^/]+", each) for name, each, _ in operations(document) if name == method.lower()]

    assert any(re.fullmatch(each, path) for each in declared)


def test_every_operation_is_documented(document: Json) -> None:
    ids = [each["operationId"] for _, _, each in operations(document)]
    for _, path, each in operations(document):
        assert each["description"].endswith(".")
        assert len(each["tags"]) == 1
        assert set(re.findall(r"{(\w+)}", path)) == {
            parameter["name"] for parameter in each.get("parameters", ()) if parameter["in"] == "path"
        }
        assert "application/problem+json" in each["responses"]["default"]["content"]
        assert any(status.startswith("2") for status in each["responses"])
    assert len(ids) == len(set(ids))


def test_operators_must_give_their_name(document: Json) -> None:
    for method, _, each in operations(document):
        needed = {parameter["name"] for parameter in each.get("parameters", ()) if parameter["required"]}
        names = {parameter["name"] for parameter in each.get("parameters", ())}
        is_change = each["tags"][0].startswith("Operators") and method != "get" and "dry_run" not in names
        assert ("X-Muster-Actor" in needed) == is_change, each["operationId"]


def test_deletion_by_an_agent_accepts_actor_and_idempotency_key(document: Json) -> None:
    deletion = document["paths"]["/v1/groups/{group_id}/offsets"]["delete"]
    headers = {each["name"]: each["required"] for each in deletion["parameters"] if each["in"] == "header"}
    assert headers == {"X-Muster-Actor": False, "Idempotency-Key": False}


def test_query_partition_is_checked_against_both_bounds(document: Json) -> None:
    asked = [
        parameter["schema"]
        for _, _, each in operations(document)
        for parameter in each.get("parameters", ())
        if (parameter["in"], parameter["name"]) == ("query", "partition")
    ]
    assert [(schema["minimum"], schema["maximum"]) for schema in asked] == [(0, 2**31 - 1)] * 3


def test_every_reference_names_a_schema(document: Json) -> None:
    named = set(re.findall(r"#/components/schemas/(\w+)", str(document)))

    assert named == document["components"]["schemas"].keys()


def test_every_schema_is_valid_json_schema(document: Json) -> None:
    for schema in document["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)


def test_requests_and_responses_match_the_openapi_document(client: Client, group: Group, document: Json) -> None:
    member = group.stable()
    group.client.ok("PUT", "/v1/topics/orders", {"partitions": 3})
    group_path = "/v1/groups/{group_id}"
    commit = {"generation": 1, "member_id": member.member_id, "offsets": [position(1)]}

    body_fits(document, "post", f"{group_path}/join", join_body())
    body_fits(document, "post", f"{group_path}/offsets", commit)
    answer_fits(document, "post", f"{group_path}/join", member.joined)
    answer_fits(document, "post", f"{group_path}/offsets", group.post("offsets", commit).json)
    answer_fits(document, "get", f"{group_path}/offsets", client.ok("GET", f"{group.path}/offsets"))
    for path in (group_path, f"{group_path}/coordinator", f"{group_path}/config"):
        answer_fits(document, "get", path, client.ok("GET", path.format(group_id=group.group_id)))
    for path in ("/v1/groups", "/v1/topics", "/v1/config", "/v1/maintenance/runs", "/healthz", "/readyz"):
        answer_fits(document, "get", path, client.ok("GET", path))
    answer_fits(document, "get", group_path, client.call("GET", "/v1/groups/nobody").json, "default")


def test_a_body_with_an_unknown_field_does_not_fit_the_document(document: Json) -> None:
    schema = body_schema(document, "post", "/v1/groups/{group_id}/join")

    assert not Draft202012Validator(schema).is_valid({**join_body(), "sesion_timeout_ms": 1})
    assert not Draft202012Validator(schema).is_valid(join_body(rebalance_timeout_ms=-1))


def test_the_page_shows_every_endpoint_and_fetches_nothing(client: Client, document: Json) -> None:
    page = client.call("GET", "/docs")

    html = page.body.decode()
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    for method, path, each in operations(document):
        assert f"<b>{method.upper()}</b> <code>{path}</code>" in html
        assert each["description"].partition("'")[0] in html
    assert "<script" not in html
    assert "<link" not in html
    assert re.findall(r'(?:src|href)="([^"]*)"', html) == ["/openapi.json"]
    assert "//" not in html


def body_fits(document: Json, method: str, path: str, body: Json) -> None:
    Draft202012Validator(body_schema(document, method, path)).validate(body)


def body_schema(document: Json, method: str, path: str) -> Json:
    content = document["paths"][path][method]["requestBody"]["content"]
    return {**content["application/json"]["schema"], "components": document["components"]}
