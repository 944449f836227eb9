"""Fixtures for one Airflow process per test session, with real Spark and a fake node."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.local.java import find_java, spark_environment
from tests.integration.airflow.airflow_process import AirflowProcess, started
from tests.support.fake_maintenance_node import FakeNode, running
from tests.support.webhook import Webhook, listening


@pytest.fixture(scope="session")
def airflow(tmp_path_factory: pytest.TempPathFactory, warm_spark: Path) -> Iterator[AirflowProcess]:
    home = tmp_path_factory.mktemp("airflow")
    env = {**os.environ, **spark_environment(find_java(home), os.environ)}
    with started(home, {**env, "PATH": os.pathsep.join([str(warm_spark), env["PATH"]])}) as process:
        yield process


@pytest.fixture
def webhook() -> Iterator[Webhook]:
    with listening(Webhook()) as webhook:
        yield webhook


@pytest.fixture
def node() -> Iterator[FakeNode]:
    with running(FakeNode()) as node:
        yield node
