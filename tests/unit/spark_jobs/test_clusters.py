"""Tests of the clusters that one Airflow serves: names of DAGs, variables and archives."""

import pytest

from spark_jobs import submit
from spark_jobs.errors import JobError


def test_own_cluster_comes_first_and_each_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MUSTER_CLUSTERS", raising=False)
    assert submit.clusters() == ("default",)
    monkeypatch.setenv("MUSTER_CLUSTERS", " prod, staging,prod ,default,")
    assert submit.clusters() == ("default", "prod", "staging")


@pytest.mark.parametrize("name", ["Prod", "eu-west", "a.b", "2nd", "a b"])
def test_name_that_is_no_part_of_an_id_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("MUSTER_CLUSTERS", name)
    with pytest.raises(JobError, match="lower-case letters and digits"):
        submit.clusters()


def test_names_of_the_own_cluster_are_those_of_the_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_ARCHIVE_URI", "s3a://archive/")
    assert submit.with_cluster("timeout_advice", "default") == "timeout_advice"
    assert submit.database_variable("default") == "MUSTER_JOBS_DATABASE_URL"
    assert submit.archive_of("default") == "s3a://archive/"


def test_names_of_another_cluster_end_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_ARCHIVE_URI", "s3a://archive/")
    dag_id = submit.with_cluster("timeout_advice", "prod")
    assert (dag_id, submit.job_of(dag_id).name) == ("timeout_advice.prod", "timeout_advice")
    assert submit.database_variable("prod") == "MUSTER_JOBS_DATABASE_URL_PROD"
    assert submit.archive_of("prod") == "s3a://archive/cluster=prod"
    monkeypatch.delenv("MUSTER_ARCHIVE_URI")
    assert submit.archive_of("prod") == ""


def test_only_a_mirror_gives_a_notice() -> None:
    assert submit.mirror_notice({"values": {}}) is None, "a node of release 0.1.0"
    assert submit.mirror_notice({"mirrored_cluster": None}) is None
    notice = submit.mirror_notice({"mirrored_cluster": "c-1"})
    assert notice == "The nodes mirror the Kafka cluster c-1: its offsets and groups expire there."
