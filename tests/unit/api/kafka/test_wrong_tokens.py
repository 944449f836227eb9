"""Wrong tokens: the answer is delayed, and the log names the token and why it is refused."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from api.kafka import connection
from api.kafka.apis import ApiKey
from api.kafka.messages import load_all
from api.shared.identity import Role
from api.shared.limits import ListenerLimits
from api.shared.node_context import NodeContext
from api.shared.tokens import known_token, token_entry, token_id_of
from tests.support.kafka_wire import frame
from tests.support.memory_store import MemoryStore
from tests.support.no_queries import NO_QUERIES
from tests.support.tokens_file import ADA, TokensFile
from tests.support.waiting import turns
from tests.unit.api.kafka.wire import Wire
from tests.unit.coordinator_core.runtime.nodes import running

pytestmark = pytest.mark.anyio

SASL_AUTHENTICATION_FAILED = 58


@pytest.fixture
async def wire(tmp_path: Path) -> AsyncIterator[Wire]:
    load_all()
    tokens = TokensFile.written(tmp_path, ADA).read()
    bobs = known_token(token_entry("bob's", "bob", Role.OPERATOR, ("",)))
    tokens.replace_stored({bobs.digest: bobs})
    async with running(MemoryStore()) as coordinator:
        wire = Wire(NodeContext(coordinator, NO_QUERIES, ListenerLimits(), tokens=tokens))
        yield wire
        wire.close()


@pytest.mark.parametrize("version", [0, 1], ids=["without a header", "with a header"])
async def test_a_client_with_a_wrong_token_waits_and_gets_no_other_answer(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setattr(connection, "FAILED_AUTHENTICATION_DELAY_S", 3_600)
    await wire.call(ApiKey.SASL_HANDSHAKE, version, {"mechanism": "PLAIN"})
    token = b"\0any\0wrong"
    wire.send_bytes(frame(ApiKey.SASL_AUTHENTICATE, 2, auth_bytes=token) if version else len(token).to_bytes(4) + token)
    answered = wire.frames()
    wire.send_bytes(frame(ApiKey.API_VERSIONS, 0))
    await turns()

    assert (wire.frames(), wire.is_closed) == (answered, False)


@pytest.mark.parametrize(
    ("tokens", "reason"),
    [
        (("wrong",), "the token is unknown or has expired"),
        (("ada's", "bob's"), "the token is of another actor than the one before"),
    ],
    ids=["unknown", "of another actor"],
)
async def test_the_answer_and_the_log_say_why_a_token_is_refused(
    wire: Wire, monkeypatch: pytest.MonkeyPatch, tokens: tuple[str, ...], reason: str
) -> None:
    monkeypatch.setattr(connection, "FAILED_AUTHENTICATION_DELAY_S", 0)
    await wire.call(ApiKey.SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
    answers: list[Any] = []
    with capture_logs() as logs:
        for token in tokens:
            fields = {"auth_bytes": f"\0any\0{token}".encode()}
            answers.append(await wire.call(ApiKey.SASL_AUTHENTICATE, 2, fields))

    assert (answers[-1].error_code, answers[-1].error_message) == (SASL_AUTHENTICATION_FAILED, reason)
    (event,) = [each for each in logs if each["event"] == "kafka_authentication_failed"]
    assert (event["token_id"], event["reason"]) == (token_id_of(tokens[-1].encode()), reason)
    assert wire.is_closed
