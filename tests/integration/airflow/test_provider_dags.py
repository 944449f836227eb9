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
from tests.support.fake_node import FakeNode as AnyServer
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
    no_file = "client_certificate_file /nowhere.pem: [Errno 2] No such file or directory"
    assert without["error"] == f"InvalidConnection: The connection muster_default: {no_file}"
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
    assert error == "InvalidConnection: The connection muster_default: schema: ftp is neither http nor https"


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"host": ""}, "host: name a node"),
        ({"host": "http://node:8080"}, "host: 'http://node:8080' is neither host nor host:port"),
        ({"host": "node-1:80,node-2:80a"}, "host: 'node-2:80a' is neither host nor host:port"),
        (
            {"host": "ada:hunter2@node"},
            "host: a node has no user and no password; the token is the connection's password",
        ),
        ({"host": "node-1 node-2"}, "host: 'node-1 node-2' is neither host nor host:port"),
        ({"extra": {"verify": "no"}}, "verify: 'no' is neither true nor false"),
        ({"extra": {"timeout_s": "soon"}}, "timeout_s: 'soon' is no number of seconds"),
        ({"extra": "[]"}, "extra is no JSON object"),
        ({"password": "s3cret\n"}, "a token is one line of printable ASCII"),
        ({"schema": "https", "extra": {"ca_file": "/no.pem"}}, "ca_file /no.pem: [Errno 2] No such file or directory"),
    ],
)
def test_invalid_connection_is_refused(airflow: AirflowProcess, fields: dict[str, object], why: str) -> None:
    found = airflow.read("muster_default", RUN, connection("http://node:8080", **fields))
    assert found["error"] == f"InvalidConnection: The connection muster_default: {why}"


def test_environment_that_cannot_be_used_is_refused(airflow: AirflowProcess) -> None:
    error = airflow.read("muster_default", RUN, {"MUSTER_URL": "node:8080"})["error"]
    assert error == "InvalidConnection: MUSTER_URL, MUSTER_TOKEN: node:8080 is no URL of http or https"
    uri = {"AIRFLOW_CONN_MUSTER_DEFAULT": "muster://node-1:8080,node-2:8080", "MUSTER_URL": "http://127.0.0.1:1"}
    error = airflow.read("muster_default", RUN, uri)["error"]
    why = "cannot be read: several nodes with ports need its JSON form"
    assert error == f"InvalidConnection: AIRFLOW_CONN_MUSTER_DEFAULT {why}"
    prod = {"AIRFLOW_CONN_MUSTER_PROD": uri["AIRFLOW_CONN_MUSTER_DEFAULT"]}
    assert airflow.read("muster_prod", RUN, prod)["error"] == f"InvalidConnection: AIRFLOW_CONN_MUSTER_PROD {why}"


def test_hook_reads_the_text_of_an_extra_in_a_uri(airflow: AirflowProcess, tmp_path: Path) -> None:
    with running(FakeNode(), write_certificate(tmp_path / "node.pem")) as node:
        uri = f"muster://{node.url.removeprefix('https://')}/https?verify=false&timeout_s=5"
        assert airflow.read("muster_default", RUN, {"AIRFLOW_CONN_MUSTER_DEFAULT": uri})["error"] is None


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


# -- waits ----------------------------------------------------------------------------------------------------


def wait(airflow: AirflowProcess, url: str, params: dict[str, object], **arguments: object) -> str:
    """Return the state of a wait with these arguments of the sensor."""
    env = {**connection(url), "WAIT": json.dumps(arguments)}
    return str(airflow.run("one_wait", params, env, folder=PROVIDER_DAGS)["tasks"]["wait"])


@pytest.mark.parametrize("is_deferrable", [True, False])
def test_text_is_one_topic(
    airflow: AirflowProcess, client: Client, topic: str, group: Group, *, is_deferrable: bool
) -> None:
    arguments = {"group_id": group.group_id, "max_lag": 6, "deferrable": is_deferrable}
    assert wait(airflow, client.url, {"topic": topic}, topics="{{ params.topic }}", **arguments) == "success"
    assert wait(airflow, client.url, {}, topics=None, **arguments) == "success"


@pytest.mark.parametrize("is_deferrable", [True, False])
def test_skip_of_a_missing_group_says_why(airflow: AirflowProcess, node_url: str, *, is_deferrable: bool) -> None:
    group_id = fresh_id("missing")
    assert wait(airflow, node_url, {}, group_id=group_id, soft_fail=True, deferrable=is_deferrable) == "skipped"
    lines = [line for line in airflow.log().splitlines() if f"Group {group_id} does not exist." in line]
    assert any("[error" in line for line in lines), lines


def test_trigger_polls_as_the_sensor_would(airflow: AirflowProcess) -> None:
    backoff = {"poke_interval": 5, "exponential_backoff": True, "max_wait": 40}
    assert airflow.defer({"group_id": "g", "topics": "orders", "max_lag": "3", **backoff}) == {
        "muster_conn_id": "muster_default",
        "poll_interval_s": 5.0,
        "exponential_backoff": True,
        "max_wait_s": 40.0,
        "wait_for_group": False,
        "group_id": "g",
        "topics": ["orders"],
        "max_lag": 3,
        "max_lag_seconds": None,
    }


@pytest.mark.parametrize("name", ["7", "1_000", "1.10", "True", "'g'", "0x10"])
def test_native_templates_leave_names_as_they_are(airflow: AirflowProcess, name: str) -> None:
    arguments = {"group_id": "{{ params.name }}", "topics": ["{{ params.name }}"], "max_lag": "{{ params.number }}"}
    rendered = airflow.render("lag", arguments, {"name": name, "number": 5})
    assert (rendered["group_id"], rendered["topics"], rendered["max_lag"]) == (name, [name], "5")
    arguments = {"group_id": "{{ params.name }}", "to": "earliest", "topics": "{{ params.name }}", "reason": "{{ 7 }}"}
    rendered = airflow.render("reset", arguments, {"name": name})
    assert (rendered["group_id"], rendered["topics"], rendered["reason"]) == (name, name, "7")


def test_native_templates_of_collections_and_none_are_their_values(airflow: AirflowProcess) -> None:
    arguments = {"group_id": "g", "topics": "{{ params.topics }}", "max_lag_seconds": "{{ params.limit }}"}
    rendered = airflow.render("lag", arguments, {"topics": ["7", "b"], "limit": None})
    assert (rendered["topics"], rendered["max_lag_seconds"]) == (["7", "b"], None)


def test_sensor_without_its_connection_says_so_before_it_defers(airflow: AirflowProcess) -> None:
    """Airflow replaces the error of a trigger by "Trigger failure", in alerts too."""
    error = "AirflowNotFoundException: The conn_id `other` isn't defined"
    assert airflow.defer({"group_id": "g", "muster_conn_id": "other"}) == {"error": error}


def test_wait_that_times_out_ends_with_a_last_look(airflow: AirflowProcess, client: Client, group: Group) -> None:
    env = connection(client.url)
    late = airflow.time_out({"group_id": group.group_id, "max_lag": 2}, env)
    assert late == {"result": None, "error": "AirflowSensorTimeout: Trigger timeout"}
    assert f"Group {group.group_id} is Empty. Known lag: 3 records (target: 2)" in airflow.log()
    skipped = airflow.time_out({"group_id": group.group_id, "max_lag": 1, "soft_fail": True}, env)
    assert skipped["error"].startswith("AirflowSkipException")
    assert f"Group {group.group_id} is Empty. Known lag: 3 records (target: 1)" in airflow.log()
    in_time = airflow.time_out({"group_id": group.group_id, "max_lag": 3}, env)
    assert (in_time["result"]["lag"], in_time["error"]) == (3, None)


def test_invalid_fields_fail_when_the_dag_is_read(airflow: AirflowProcess) -> None:
    invalid = {"max_lag": 1.5, "topics": ["{{ params.topic }}"]}
    for arguments, why in ((invalid, "max_lag: 1.5 is no whole number"), ({"max_lag": None}, "set one of them")):
        (error,) = airflow.describe({"WAIT": json.dumps(arguments)}, PROVIDER_DAGS)["import_errors"].values()
        assert why in error
    valid = {"max_lag": "{{ params.max_lag }}", "topics": ["{{ params.topic }}"], "max_lag_seconds": 5}
    assert airflow.describe({"WAIT": json.dumps(valid)}, PROVIDER_DAGS)["import_errors"] == {}


@pytest.mark.parametrize("is_deferrable", [True, False])
def test_invalid_value_of_a_template_fails_without_retries(
    airflow: AirflowProcess, node_url: str, *, is_deferrable: bool
) -> None:
    state = wait(airflow, node_url, {"max_lag": -1}, max_lag="{{ params.max_lag }}", deferrable=is_deferrable)
    assert (state, "AirflowFailException: max_lag: -1 is below 0" in airflow.log()) == ("failed", True)


@pytest.mark.parametrize("is_deferrable", [True, False])
def test_invalid_connection_fails_the_wait_without_retries(airflow: AirflowProcess, *, is_deferrable: bool) -> None:
    assert wait(airflow, "http://a:b:c", {}, deferrable=is_deferrable) == "failed"
    assert "AirflowFailException: The connection muster_default: host: 'a:b:c' is neither" in airflow.log()


@pytest.mark.parametrize("is_deferrable", [True, False])
def test_skip_for_an_invalid_value_of_a_template(
    airflow: AirflowProcess, node_url: str, *, is_deferrable: bool
) -> None:
    invalid = {"max_lag": "{{ params.max_lag }}", "soft_fail": True}
    assert wait(airflow, node_url, {"max_lag": -2}, deferrable=is_deferrable, **invalid) == "skipped"
    assert "max_lag: -2 is below 0" in airflow.log()


def test_polling_task_goes_on_when_a_proxy_has_no_node_for_a_moment(airflow: AirflowProcess) -> None:
    partition = {"topic": "t", "partition": 0, "is_lag_lower_bound": False, "is_log_end_stale": False}
    with closing(AnyServer()) as server:
        for lag in (1, 0):
            server.says(200, {"state": "Stable"})
            server.says(200, {"partitions": [{**partition, "lag": lag, "lag_seconds": 0.0}]})
        server.answers.insert(2, (404, b"<html>"))
        assert wait(airflow, server.url, {}, max_lag=0, deferrable=False) == "success"


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


def test_reset_of_one_topic_by_its_name(airflow: AirflowProcess, client: Client, topic: str, group: Group) -> None:
    group.post("offsets", {**SIMPLE_CONSUMER, "offsets": [position(7, topic=fresh_id("other"), log_end_offset=7)]})
    env = {**connection(client.url), "RESET_TOPICS": json.dumps(topic)}
    run = airflow.run("one_reset", {"group_id": group.group_id, "max_lag": 6}, env, folder=PROVIDER_DAGS)
    assert [each["topic"] for each in run["results"]["reset"]["offsets"]] == [topic]


def test_text_without_a_whole_number_fails_the_reset(airflow: AirflowProcess, client: Client, group: Group) -> None:
    assert reset(airflow, client.url, group, shift_by="1.5")["state"] == "failed"
    assert "AirflowFailException: shift_by: '1.5' is no whole number" in airflow.log()


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
