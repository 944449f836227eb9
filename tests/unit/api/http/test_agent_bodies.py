"""Bodies of the requests of agents: the strict decoder accepts what the OpenAPI document allows, and nothing else."""

import asyncio
import json
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, validators
from litestar.types import HTTPRequestEvent

from api.http.app import FAST_PATH_HANDLERS, LITESTAR_HANDLERS
from api.http.fast_path import fast_path_endpoints
from api.http.openapi import describe_api
from api.http.request_body import SURROGATE, read_body, read_json
from coordinator_core.protocol.errors import InvalidRequest
from tests.support.http_client import Json

MAX_BYTES: Final = 1_000_000
DOCUMENT: Final = describe_api([*FAST_PATH_HANDLERS, *LITESTAR_HANDLERS], "1")
ENDPOINTS: Final = fast_path_endpoints(FAST_PATH_HANDLERS)
MEMBER: Final = {"generation": 1, "member_id": "m", "group_instance_id": "i"}
PARTITIONS: Final = [{"topic": "t", "partitions": [0, 2**31 - 1]}]
VALID: Final = {
    b"join": {
        "member_id": "",
        "client_id": "c",
        "session_timeout_ms": 10_000,
        "rebalance_timeout_ms": 10_000,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": {"topics": ["t"], "owned_partitions": PARTITIONS}}],
        "require_known_member_id": False,
        "reason": "r",
    },
    b"sync": {**MEMBER, "assignments": [{"member_id": "m", "assignment": {"partitions": PARTITIONS}}]},
    b"heartbeat": MEMBER,
    b"leave": {"members": [{"member_id": "m", "group_instance_id": None, "reason": "r"}]},
    b"offsets": {**MEMBER, "offsets": [{"topic": "t", "partition": 0, "offset": 2**63 - 1, "metadata": "é"}]},
    b"offsets/query": {"partitions": PARTITIONS},
}
"""Request → a body with its optional fields."""

StrictValidator: Final = validators.extend(  # type: ignore[no-untyped-call]  # its stubs lack it
    Draft202012Validator,
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int),
)
"""JSON Schema takes 1.0 for an integer; the API does not."""

SCALARS: Final = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([-2, -1, 0, 1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 1.0, 0.5]),
    st.sampled_from(["", "\0", "\ud800", "\udc00x", "😀", "x" * 249, "x" * 250, "x" * 255, "x" * 256]),
    st.text(max_size=8),
)
VALUES: Final = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@st.composite
def changed(draw: st.DrawFn, value: Json) -> Json:
    """Draw a value that differs from another in some places: replaced, removed, added or moved."""
    kind = draw(st.sampled_from(["keep", "keep", "inside", "inside", "inside", "replace"]))
    if kind == "replace" or (kind == "inside" and not isinstance(value, (dict, list))):
        return draw(VALUES)
    if kind == "keep" or not value:
        return value
    if isinstance(value, list):
        return [draw(changed(each)) for each in value] * draw(st.integers(0, 2))
    named = {name: draw(changed(each)) for name, each in value.items() if draw(st.integers(0, 9))}
    return named | draw(st.just({}) | st.dictionaries(st.sampled_from(["x", *value]), VALUES, max_size=1))


@pytest.mark.parametrize("action", ENDPOINTS, ids=bytes.decode)
@settings(max_examples=400, derandomize=True, database=None)
@given(data=st.data(), is_ascii=st.booleans())
def test_decoder_accepts_what_the_document_allows(action: bytes, data: st.DataObject, *, is_ascii: bool) -> None:
    value = data.draw(changed(VALID[action]))
    body = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert is_accepted(action, body) == is_allowed(action, value), value


@pytest.mark.parametrize("action", ENDPOINTS, ids=bytes.decode)
@settings(max_examples=400, derandomize=True, database=None)
@given(data=st.data())
def test_any_bytes_are_decoded_or_refused(action: bytes, data: st.DataObject) -> None:
    body = bytearray(json.dumps(VALID[action]).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body)))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    is_accepted(action, bytes(body))


@pytest.mark.parametrize("action", ENDPOINTS, ids=bytes.decode)
def test_valid_body_is_accepted(action: bytes) -> None:
    assert is_accepted(action, json.dumps(VALID[action]).encode())
    assert is_allowed(action, VALID[action])


def is_accepted(action: bytes, body: bytes) -> bool:
    """Return whether the fast path accepts a body; any other error than a refusal of the request fails the test."""

    async def receive() -> HTTPRequestEvent:
        return {"type": "http.request", "body": body, "more_body": False}

    headers = {b"content-type": b"application/json"}
    try:
        read_json(
            asyncio.run(read_body("POST", headers, receive, MAX_BYTES, lambda _: None)), ENDPOINTS[action].body_kind
        )
    except InvalidRequest:
        return False
    return True


def is_allowed(action: bytes, value: Json) -> bool:
    """Return whether a body has no text that Postgres cannot hold, and fits the OpenAPI document."""
    content = DOCUMENT["paths"][f"/v1/groups/{{group_id}}/{action.decode()}"]["post"]["requestBody"]["content"]
    schema = {**content["application/json"]["schema"], "components": DOCUMENT["components"]}
    return StrictValidator(schema).is_valid(value) and not _has_unstorable_text(value)


def _has_unstorable_text(value: Json) -> bool:
    if isinstance(value, str):
        return "\0" in value or SURROGATE.search(value) is not None
    if isinstance(value, dict):
        value = [*value.items()]
    return isinstance(value, (list, tuple)) and any(map(_has_unstorable_text, value))
