"""Fixtures of the agent's tests: a fake coordinator, agents that are closed after the test, and a callback recorder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from agent import ConsumerAgent
from agent.threaded.runtime import ThreadRuntime
from tests.integration.agent.agents import QUICK, AgentMaker, CallbackLog
from tests.support.fake_coordinator import FakeCoordinator
from tests.support.manual_clock import ManualClock
from tests.support.waiting import PATIENCE_S


@pytest.fixture
def coordinator() -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def other_node() -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a self-signed certificate for 127.0.0.1; the file also has its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a node of a test")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "node.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def secure(certificate: Path) -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator(certificate)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def callback_log() -> CallbackLog:
    return CallbackLog()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def make_agent(coordinator: FakeCoordinator, other_node: FakeCoordinator) -> Iterator[AgentMaker]:
    """Make agents of the group "billing" on the fake coordinator; each is closed when the test is over."""
    made: list[ConsumerAgent] = []

    def make(base_url: str | list[str] | None = None, group_id: str = "billing", **options: Any) -> ConsumerAgent:  # noqa: ANN401  # whatever an agent takes
        topics = options.pop("topics", ("orders",))
        if clock := options.pop("clock", None):
            options["runtime"] = ThreadRuntime(clock)
        made.append(ConsumerAgent(base_url or coordinator.url, group_id, topics, **(QUICK | options)))
        return made[-1]

    yield make
    for agent in made:
        agent.close(timeout_s=0.2)
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("consumer-billing")]
    assert left == []


@pytest.fixture
def joined(make_agent: AgentMaker) -> AgentMaker:
    """Make an agent, and let it join."""

    def make(**options: Any) -> ConsumerAgent:  # noqa: ANN401  # whatever an agent takes
        agent = make_agent(**options)
        agent.poll(PATIENCE_S)
        assert agent.generation > 0
        return agent

    return make
