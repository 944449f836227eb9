"""The local platform as a mirror of a Kafka cluster: its groups, a second start, and what is refused."""

import asyncio
from itertools import count
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer  # type: ignore[import-untyped]  # comes without types

from muster.errors import FAILURE_EXIT_CODE, UNREACHABLE_EXIT_CODE
from tests.support.kafka_broker import KafkaBroker
from tests.support.kafka_log import create_topics
from tests.support.waiting import PATIENCE_S, poll_until
from tests.system.e2e.terminal_user import NewUser, new_user, processes_of

pytestmark = [pytest.mark.postgres, pytest.mark.jvm, pytest.mark.slow]

_serial = count(1)


@pytest.fixture
def group_id(kafka: KafkaBroker) -> str:
    """Return a group of the cluster that has committed an offset and is Empty."""
    name = f"local-mirror-{next(_serial)}"

    async def consume() -> None:
        await create_topics(kafka.bootstrap, {name: 1})
        options = {"bootstrap_servers": kafka.bootstrap, "group_id": name, "enable_auto_commit": False}
        async with AIOKafkaConsumer(name, **options) as member:
            while not member.assignment():  # noqa: ASYNC110 - the client notifies of nothing
                await asyncio.sleep(0.02)
            await member.commit(dict.fromkeys(member.assignment(), 7))

    asyncio.run(consume())
    return name


def shows(platform: NewUser, group_id: str) -> bool:
    """Return whether the mirror has stored the group's commit."""
    return platform.sql("SELECT committed_offset FROM offsets WHERE group_id = %s", group_id) == [(7,)]


def refused(platform: NewUser, sentence: str, exit_code: int = FAILURE_EXIT_CODE) -> None:
    """Assert that a run ends with an error."""
    platform.reads(sentence)
    assert platform.process.wait(PATIENCE_S) == exit_code


@pytest.mark.timeout(600)
def test_the_platform_mirrors_a_cluster_in_each_run(kafka: KafkaBroker, group_id: str, tmp_path: Path) -> None:
    mirror = ("--no-airflow", "--nodes", "2", "--mirror", kafka.bootstrap)
    with new_user(tmp_path / "data", *mirror) as platform:
        platform.reads(rf"^Mirror   read-only, of Kafka cluster \S+ at {kafka.bootstrap}, 4 partitions")
        poll_until(lambda: shows(platform, group_id))
        assert platform.get(f"/v1/groups/{group_id}")["state"] == "Empty"
        assert platform.sql("SELECT count(*) FROM groups WHERE group_id = 'orders-billing'") == [(0,)], "no fleet"
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []

    with new_user(platform.data_dir, *mirror) as again:
        again.reads(r"own their shards")
        assert shows(again, group_id)
        assert again.stop() == 0

    with new_user(platform.data_dir, "--no-airflow", "--mirror", "127.0.0.1:1") as unreachable:
        refused(unreachable, r"^muster: The Kafka cluster 127\.0\.0\.1:1 cannot be reached", UNREACHABLE_EXIT_CODE)
    with new_user(platform.data_dir, "--no-airflow") as not_a_mirror:
        refused(not_a_mirror, r"^muster: The database mirrors the Kafka cluster .* `muster up --mirror`")


@pytest.mark.usefixtures("group_id")
def test_a_mirror_is_refused_in_the_directory_of_a_platform(kafka: KafkaBroker, tmp_path: Path) -> None:
    with new_user(tmp_path / "data", "--no-airflow", "--no-demo") as platform:
        platform.reads(r"owns its shards")
        assert platform.stop() == 0
    with new_user(platform.data_dir, "--no-airflow", "--mirror", kafka.bootstrap) as mirror:
        refused(mirror, r"^muster: The database has 50 shards .* choose another --data-dir")


@pytest.mark.airflow
@pytest.mark.timeout(1200)
def test_the_airflow_of_a_mirror_reports_and_expires_nothing(kafka: KafkaBroker, group_id: str, tmp_path: Path) -> None:
    with new_user(tmp_path / "data", "--mirror", kafka.bootstrap) as platform:
        platform.reads(r"Airflow's database")
        platform.reads(r"user admin, password")
        poll_until(lambda: shows(platform, group_id))
        run_id = platform.start("offset_retention", {})
        assert "assignment_balance_audit: success" in platform.reads("A report.*").group()
        assert platform.end_of("offset_retention", run_id) == "success"
        assert set(platform.task_states("offset_retention", run_id).values()) == {"skipped"}
        assert platform.sql("SELECT count(*) FROM maintenance_runs WHERE kind = 'offset_retention'") == [(0,)]
        assert shows(platform, group_id)
        assert platform.stop() == 0
    assert processes_of(platform.data_dir) == []
