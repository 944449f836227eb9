"""Hook, operator and sensors of the provider in Airflow, against real nodes."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster_airflow.client import MusterClient
from muster_airflow.conditions import GroupNotFound, StateCondition, look_once
from tests.integration.airflow.airflow_process import EXAMPLE_DAGS, PROVIDER_DAGS, AirflowProcess
from tests.support.certificates import write_certificate
from tests.support.cutting_proxy import CuttingProxy
from tests.support.fake_maintenance_node import FakeNode, running
from tests.support.http_client import Client, Group, fresh_id, position

SIMPLE_CONSUMER = {"generation": -1, "member_id": ""}
RUN = "/v1/maintenance/runs/7"


def connection(*urls: str, **more: object) -> dict[str, str]:
    """Return the variable of a connection to these nodes."""
    scheme, hosts = urls[0].partition("://")[0], ",".join(url.partition("://")[2] for url in urls)
    return {"AIRFLOW_CONN_MUSTER_DEFAULT": json.dumps({"conn_type": "muster", "host": hosts, "schema": scheme, **more})}


@pytest.fixture
def client(node_url: str) -> Iterator[Client]:
    with closing(Client(node_url)) as client:
        # However long a slow machine takes, log ends are not stale.
        client.ok("PUT", "/v1/config", {"values": {"log_end_max_age_ms": 2**31 - 1}, "reason": "a test"})
        yield client


@pytest.fixture
def topic() -> str:
    return fresh_id("topic")


@pytest.fixture
def group(client: Client, topic: str) -> Group:
    """Return a group that has read 7 of 10 records, and has no members."""
    group = client.group(fresh_id())
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(7, topic=topic, log_end_offset=10)]})
    return group


def offset_of(group: Group) -> int:
    (found,) = group.client.ok("GET", f"{group.path}/lag")["partitions"]
    offset: int = found["current_offset"]
    return offset


# -- the hook -------------------------------------------------------------------------------------------------


def test_hook_asks_the_next_node_with_the_token_of_the_connection(airflow: AirflowProcess, node: FakeNode) -> None:
    with running(FakeNode()) as gone:
        pass
    found = airflow.read("muster_default", RUN, connection(gone.url, node.url, password="t0ken"))
    assert (found["answer"]["status"], found["error"]) == ("applied", None)
    assert node.seen[0].headers["Authorization"] == "Bearer t0ken"


def test_hook_verifies_certificates_with_the_ca_file(airflow: AirflowProcess, tmp_path: Path) -> None:
    certificate = write_certificate(tmp_path / "node.pem")
    with running(FakeNode(), certificate) as node:
        refused = airflow.read("muster_default", RUN, connection(node.url))
        trusted = airflow.read("muster_default", RUN, connection(node.url, extra={"ca_file": str(certificate)}))
        unverified = airflow.read("muster_default", RUN, connection(node.url, extra={"verify": False}))
        pair = {"verify": False, "client_certificate_file": str(certificate)}
        with_certificate = airflow.read("muster_default", RUN, connection(node.url, extra=pair))
        absent = {"ca_file": str(certificate), "client_certificate_file": "/nowhere.pem"}
        without = airflow.read("muster_default", RUN, connection(node.url, extra=absent))
        names = {"MUSTER_URL": node.url, "MUSTER_TLS_CA_FILE": str(certificate)}
        by_variable = airflow.read("muster_default", RUN, names)
    assert with_certificate["answer"] == by_variable["answer"] == trusted["answer"]
    assert "No such file" in without["error"]
    assert "CERTIFICATE_VERIFY_FAILED" in refused["error"]
    assert [found["answer"]["status"] for found in (trusted, unverified)] == ["applied", "applied"]


def test_hook_without_a_connection_uses_the_variables_of_the_commands(airflow: AirflowProcess, node: FakeNode) -> None:
    found = airflow.read("muster_default", RUN, {"MUSTER_URL": node.url, "MUSTER_TOKEN": "t0ken"})
    assert found["answer"]["status"] == "applied"
    assert node.seen[0].headers["Authorization"] == "Bearer t0ken"
    assert "The conn_id `other` isn't defined" in airflow.read("other", RUN, {"MUSTER_URL": node.url})["error"]


def test_connection_without_a_host_is_refused(airflow: AirflowProcess) -> None:
    env = {"AIRFLOW_CONN_MUSTER_DEFAULT": json.dumps({"conn_type": "muster", "schema": "ftp"})}
    error = airflow.read("muster_default", RUN, env)["error"]
    assert error == (
        "ValueError: The connection muster_default needs a host, and a schema that is http or https, not ftp."
    )


def test_button_of_the_connection_shows_the_node_s_answer(airflow: AirflowProcess, node_url: str) -> None:
    assert airflow.read("muster_default", RUN, connection(node_url))["test"] == [
        True,
        "A node answers, and accepts the token.",
    ]
    with running(FakeNode()) as gone:
        pass
    is_ok, text = airflow.read("muster_default", RUN, connection(gone.url))["test"]
    assert not is_ok
    assert text.startswith(f"No node answers. {gone.url}: ")


# -- the example ----------------------------------------------------------------------------------------------


def test_example_dag_resets_an_empty_group_and_waits_until_it_has_caught_up(
    airflow: AirflowProcess, client: Client, topic: str, group: Group
) -> None:
    # Its only partition ends at its start, so that the reset group has caught up.
    client.ok("PUT", f"/v1/topics/{topic}", {"partitions": 1, "log_start_offset": 10, "reason": "a test"})
    run = airflow.run(
        "replay_consumer_group",
        {"group_id": group.group_id, "topic": topic},
        connection(client.url),
        folder=EXAMPLE_DAGS,
    )
    assert (run["state"], set(run["tasks"].values())) == ("success", {"success"})
    done = run["results"]["reset_offsets"]
    assert offset_of(group) == 10
    change = client.ok("GET", f"/v1/changes/{done['change_id']}")
    assert (change["actor"], change["reason"]) == ("dag:replay_consumer_group", f"replay by {run['run_id']}")
    assert done["undo"] == f"muster changes undo {done['change_id']}"
    assert done["offsets"] == [{"topic": topic, "partition": 0, "old_offset": 7, "new_offset": 10, "note": None}]
    assert run["results"]["wait_until_caught_up"] == {
        "group_id": group.group_id,
        "state": "Empty",
        "lag": 0,
        "lag_seconds": 0.0,
    }
    assert f"Group {group.group_id} is Empty (target: Empty)." in airflow.log()


def test_missing_group_fails_the_wait_at_once(airflow: AirflowProcess, node_url: str) -> None:
    group_id = fresh_id("missing")
    run = airflow.run(
        "replay_consumer_group", {"group_id": group_id, "topic": "t"}, connection(node_url), folder=EXAMPLE_DAGS
    )
    assert (run["state"], run["tasks"]["wait_until_empty"]) == ("failed", "failed")
    assert f"Group {group_id} does not exist." in airflow.log()


def test_deleted_or_missing_group_can_be_waited_for(client: Client, group: Group) -> None:
    client.ok("DELETE", f"{group.path}?reason=a+test")
    asking = MusterClient([client.url])
    for group_id, why in ((group.group_id, "was deleted."), (fresh_id("missing"), "does not exist.")):
        condition = StateCondition(group_id, ["Empty"])
        with pytest.raises(GroupNotFound, match=f"^Group {group_id} {why}$"):
            asyncio.run(look_once(condition, asking, wait_for_group=False))
        found = asyncio.run(look_once(condition, asking, wait_for_group=True))
        assert (found.is_met, found.text) == (False, f"Group {group_id} {why} Waiting for it.")


# -- resets ---------------------------------------------------------------------------------------------------


def reset(airflow: AirflowProcess, url: str, group: Group, **params: object) -> dict[str, object]:
    return airflow.run(
        "one_reset", {"group_id": group.group_id, "max_lag": 6, **params}, connection(url), folder=PROVIDER_DAGS
    )


def test_reset_whose_response_is_lost_is_made_once(airflow: AirflowProcess, client: Client, group: Group) -> None:
    proxy = CuttingProxy(client.url)
    with proxy.running():
        # The first one is the dry run.
        proxy.lose_next_request_to("/offsets/reset")
        proxy.lose_next_answer_to("/offsets/reset")
        run = reset(airflow, proxy.url, group)
    assert run["state"] == "success"
    assert sum(path.endswith("/offsets/reset") for path in proxy.paths) == 4
    assert offset_of(group) == 4
    assert len(client.ok("GET", f"/v1/changes?group_id={group.group_id}")["changes"]) == 1


def test_plan_is_logged_as_a_table(airflow: AirflowProcess, client: Client, topic: str, group: Group) -> None:
    assert reset(airflow, client.url, group)["state"] == "success"
    log = airflow.log()
    plan = f"Plan for group {group.group_id}, to shift:\n"
    width = len(topic)
    assert f"{plan}{'TOPIC':{width}}  PARTITION  OLD OFFSET  NEW OFFSET  NOTE\n{topic}  0          7           4" in log


@pytest.mark.parametrize("dry_run", ["True", "yes"])
def test_dry_run_changes_nothing(airflow: AirflowProcess, client: Client, group: Group, dry_run: str) -> None:
    run = reset(airflow, client.url, group, dry_run=dry_run)
    result = run["results"]["reset"]  # type: ignore[index]  # JSON
    assert (result["dry_run"], result["change_id"], result["undo"]) == (True, None, None)
    assert result["offsets"][0]["new_offset"] == 4
    assert offset_of(group) == 7


def test_group_with_members_is_not_reset(airflow: AirflowProcess, client: Client, topic: str) -> None:
    group = client.group(fresh_id())
    group.stable(topic).commit(position(7, topic=topic, log_end_offset=10))
    run = reset(airflow, client.url, group)
    assert (run["state"], run["tasks"]["reset"]) == ("failed", "failed")  # type: ignore[index]  # JSON
    assert "NON_EMPTY_GROUP (409): the group has members; stop them first" in airflow.log()


def test_reset_needs_a_reason(airflow: AirflowProcess, client: Client, group: Group) -> None:
    assert reset(airflow, client.url, group, reason=" ")["state"] == "failed"
    assert "reason: a reset needs one, for the audit log" in airflow.log()
    assert offset_of(group) == 7
