"""compose.yaml: addresses, variables and secrets of the services agree, and none has more rights than it needs."""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest
import yaml
from cryptography.fernet import Fernet
from typer import Context
from typer.core import TyperGroup
from typer.main import get_command

from api.shared.tokens import read_tokens_file
from muster.cli.main import app
from muster.settings import Settings, load_settings
from spark_jobs.database import parse_url
from tests.support.repository import ROOT

DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(COMPOSE.read_text())["services"]
# Variables of jobs and their submission besides the settings.
JOB_VARIABLES = {
    "MUSTER_ARCHIVE_URI",
    "MUSTER_CONSOLE_URL",
    "MUSTER_JOBS_DATABASE_URL",
    "MUSTER_REPORTS_SINCE",
    "MUSTER_SPARK_POOL",
    "MUSTER_SPARK_REPORT_POOL",
    "MUSTER_TOKEN",
    "MUSTER_URL",
}
JOB_CODE = ("airflow_provider", "dags", "spark_jobs")
SECRET = re.compile(r"\$\{(\w+):\?run docker/new-secrets\.sh\}")
LOOPBACK = "127.0.0.1"
DIGEST = re.compile(r":v?[\w.-]+@sha256:[0-9a-f]{64}$")
NODES = ("node-1", "node-2", "node-3")
SPARK = ("spark-master", "spark-worker")
BALANCING = (DOCKER / "haproxy.cfg").read_text()
SCRAPING = (DOCKER / "prometheus" / "prometheus.yml").read_text()
SOURCES = (DOCKER / "grafana" / "provisioning" / "datasources" / "muster.yaml").read_text()

every_service = pytest.mark.parametrize("service", SERVICES)


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the output of new-secrets.sh in a copy, without changing docker/.env."""
    folder = tmp_path_factory.mktemp("docker")
    shutil.copy(DOCKER / "new-secrets.sh", folder)
    subprocess.run([folder / "new-secrets.sh"], check=True, capture_output=True)
    pairs = (line.partition("=") for line in (folder / ".env").read_text().splitlines())
    return {name: value.strip("'") for name, _, value in pairs}


def test_compose_names_the_whole_platform() -> None:
    airflow = {"airflow-api-server", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"}
    watching = {"prometheus", "grafana"}
    assert set(SERVICES) == {
        "postgres",
        "migrate",
        "airflow-migrate",
        "airflow-pools",
        "load-balancer",
        *SPARK,
        *NODES,
        *airflow,
        *watching,
    }


@every_service
def test_a_service_is_built_from_a_dockerfile_that_exists_or_from_an_image_pinned_by_digest(service: str) -> None:
    build = SERVICES[service].get("build")
    if build is None:
        assert DIGEST.search(SERVICES[service]["image"])
    else:
        context = (DOCKER / build["context"]).resolve()
        assert context == ROOT
        assert (context / build["dockerfile"]).is_file()


@every_service
def test_a_service_waits_for_services_that_exist(service: str) -> None:
    for name, condition in SERVICES[service].get("depends_on", {}).items():
        assert name in SERVICES
        if condition["condition"] == "service_healthy":
            assert "healthcheck" in SERVICES[name]
        elif condition["condition"] == "service_completed_successfully":
            assert SERVICES[name].get("restart", "no") == "no", "what ends well must not be started again"
        else:
            assert condition["condition"] == "service_started"
            assert SERVICES[name]["restart"] != "no"


@every_service
def test_a_service_has_no_rights_and_resources_beyond_its_own(service: str) -> None:
    described = SERVICES[service]
    assert described["read_only"]
    assert described["cap_drop"] == ["ALL"]
    assert described["security_opt"] == ["no-new-privileges:true"]
    assert described["mem_limit"]
    assert described["pids_limit"] > 0
    assert described["logging"] == {"driver": "local"}, "else its output fills the disk"
    # A test of Dockerfiles checks the users of images that are built here.
    assert "build" in described or not described["user"].startswith(("0", "root"))
    assert not {"privileged", "network_mode", "cap_add", "pid", "ipc"} & described.keys()


@every_service
def test_a_service_has_a_health_check_unless_it_is_a_task(service: str) -> None:
    assert "test" in SERVICES[service]["healthcheck"] or SERVICES[service]["restart"] == "no"


@every_service
def test_a_service_is_published_on_this_machine_only(service: str) -> None:
    # Airflow, Postgres and Spark's UI have unencrypted passwords, or none.
    for published in SERVICES[service].get("ports", []):
        host, _, port = published.split(":")
        assert host == LOOPBACK
        assert int(port) > 0


def test_no_two_services_are_published_on_one_port() -> None:
    ports = [port.split(":")[1] for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports))


def test_every_address_is_of_a_service_at_a_port_that_it_listens_on() -> None:
    found = list(addresses())
    assert found
    published = {int(port.split(":")[1]) for service in SERVICES.values() for port in service.get("ports", [])}
    for where, host, port in found:
        listening = listening_ports(where) | published if host == LOOPBACK else listening_ports(host)
        assert port in listening, f"{where} asks {host}:{port}"


@every_service
def test_every_environment_variable_is_read(service: str) -> None:
    ours = {name for name in environment(service) if name.startswith("MUSTER_")}
    settings = {f"MUSTER_{name.upper()}" for name in Settings.model_fields}
    assert ours <= settings | JOB_VARIABLES


def test_the_job_variables_are_read_by_the_jobs_and_their_dags() -> None:
    sources = "".join(file.read_text() for folder in JOB_CODE for file in (ROOT / folder).rglob("*.py"))
    assert [name for name in JOB_VARIABLES if f'"{name}"' not in sources] == []


@every_service
def test_every_variable_of_airflow_is_an_option_that_it_has(service: str) -> None:
    options = airflow_options()
    for name in environment(service):
        if name.startswith("AIRFLOW__"):
            _, section, option = name.lower().split("__")
            assert option in options[section], name


@pytest.mark.parametrize("node", NODES)
def test_a_node_accepts_the_settings_it_is_given(
    node: str, secrets: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = filled(environment(node), secrets)
    forget_settings(monkeypatch)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = load_settings()
    assert settings.node_url == f"http://{node}:{settings.http_port}"
    assert settings.tokens_file is not None
    assert settings.cluster_secret is not None
    assert settings.cluster_secret.get_secret_value() == secrets["CLUSTER_SECRET"]


def test_dags_use_the_pools_that_are_made_and_leave_tasks_to_others() -> None:
    pools = json.loads((DOCKER / "airflow-pools.json").read_text())
    given = environment("airflow-scheduler")
    assert set(pools) == {given["MUSTER_SPARK_POOL"], given["MUSTER_SPARK_REPORT_POOL"]}
    assert sum(pool["slots"] for pool in pools.values()) + 2 == int(given["AIRFLOW__CORE__PARALLELISM"])


def test_requests_are_spread_over_all_nodes_and_no_others() -> None:
    balanced = re.findall(r"^    server (\S+) (\S+):(\d+)$", BALANCING, re.MULTILINE)
    assert balanced == [(node, node, str(*listening_ports(node))) for node in NODES]
    assert "option httpchk GET /readyz" in BALANCING
    url = urlsplit(environment("airflow-scheduler")["MUSTER_URL"])
    assert url.hostname == "load-balancer"
    assert url.port in listening_ports("load-balancer")
    assert url.hostname in environment("node-1")["MUSTER_ALLOWED_HOSTS"].split(",")


def test_links_lead_to_where_a_browser_on_this_machine_finds_the_console() -> None:
    url = urlsplit(environment("airflow-scheduler")["MUSTER_CONSOLE_URL"])
    assert f"{url.hostname}:{url.port}:8080" in SERVICES["load-balancer"]["ports"]


def test_the_load_balancer_waits_longer_than_a_join_may() -> None:
    waits_s = {name: int(length) for name, length in re.findall(r"timeout (client|server) (\d+)s", BALANCING)}
    agents_wait_s = Settings.model_fields["group_new_member_join_timeout_ms"].default / 1000 + 5
    assert min(waits_s.values()) > agents_wait_s
    assert set(waits_s) == {"client", "server"}


def test_prometheus_watches_every_node() -> None:
    targets = yaml.safe_load(SCRAPING)["scrape_configs"][0]["static_configs"][0]["targets"]
    assert targets == [f"{node}:{port}" for node in NODES for port in listening_ports(node)]


def test_grafana_reads_the_database_and_prometheus_with_the_password_it_is_given() -> None:
    sources = {source["type"]: source for source in yaml.safe_load(SOURCES)["datasources"]}
    postgres = sources["grafana-postgresql-datasource"]
    assert postgres["url"] == "postgres:5432"
    assert postgres["jsonData"]["database"] == environment("postgres")["POSTGRES_DB"]
    assert postgres["secureJsonData"]["password"].removeprefix("$") in environment("grafana")
    assert {urlsplit(sources["prometheus"]["url"]).port} == listening_ports("prometheus")


def test_grafana_finds_its_dashboards_where_they_are_mounted() -> None:
    mounts = dict(volume.split(":")[:2] for volume in SERVICES["grafana"]["volumes"])
    provided = yaml.safe_load((DOCKER / "grafana" / "provisioning" / "dashboards" / "muster.yaml").read_text())
    folder = provided["providers"][0]["options"]["path"]
    home = environment("grafana")["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert mounts["./grafana/dashboards"] == folder
    assert (DOCKER / "grafana" / "dashboards" / home.removeprefix(folder + "/")).is_file()


def test_jobs_reach_the_database_that_postgres_makes(secrets: dict[str, str]) -> None:
    database = parse_url(filled(environment("airflow-scheduler"), secrets)["MUSTER_JOBS_DATABASE_URL"])
    assert {int(port) for _, port in database.hosts} == listening_ports("postgres")
    assert database.name == environment("postgres")["POSTGRES_DB"]
    assert database.password == secrets["JOBS_DATABASE_PASSWORD"]
    assert f"CREATE ROLE {database.user} LOGIN" in (DOCKER / "first-start.sh").read_text()


def test_tokens_are_those_of_the_files_and_variables(tmp_path: Path) -> None:
    script = shutil.copy(DOCKER / "new-secrets.sh", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    folder = tmp_path / "secrets"
    known = read_tokens_file(folder / "node" / "tokens.json")
    given = dict(line.split("=", 1) for line in (tmp_path / ".env").read_text().splitlines())
    tokens = {
        "operator": (folder / "operator-token").read_text().strip(),
        "agent": (folder / "agent-token").read_text().strip(),
        "airflow": given["AIRFLOW_TOKEN"],
        "prometheus": (folder / "prometheus" / "token").read_text().strip(),
    }
    roles = {"operator": "operator", "agent": "agent", "airflow": "operator", "prometheus": "viewer"}
    found = {actor: known[hashlib.sha256(token.encode()).digest()] for actor, token in tokens.items()}
    identities = {actor: each.identity for actor, each in found.items()}
    assert {actor: each and (each.actor, each.role) for actor, each in identities.items()} == {
        actor: (actor, role) for actor, role in roles.items()
    }
    assert len(known) == len(tokens)
    # Containers have users of their own; only the folder keeps others out.
    assert folder.stat().st_mode & 0o077 == 0
    mounted = [file for name in ("node", "prometheus", "spark") for file in (folder / name).iterdir()]
    assert all(file.stat().st_mode & 0o004 for file in mounted)


def test_spark_refuses_applications_without_the_secret(tmp_path: Path) -> None:
    script = shutil.copy(DOCKER / "new-secrets.sh", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    lines = (tmp_path / "secrets" / "spark" / "spark-defaults.conf").read_text().splitlines()
    conf = dict(line.split() for line in lines)
    assert conf["spark.authenticate"] == "true"
    assert len(conf["spark.authenticate.secret"]) >= 64
    for service in (*SPARK, "airflow-scheduler"):
        assert "./secrets/spark:/etc/spark:ro" in SERVICES[service]["volumes"]


@pytest.mark.parametrize("service", [*NODES, "airflow-scheduler", "spark-worker"])
def test_the_archive_is_where_jobs_write_and_nodes_look_for_it(service: str) -> None:
    uri = urlsplit(environment("airflow-scheduler")["MUSTER_ARCHIVE_URI"])
    mounts = [volume.split(":")[:2] for volume in SERVICES[service]["volumes"]]
    assert ["archive", uri.path] in mounts
    assert environment(service).get("MUSTER_ARCHIVE_URI", uri.geturl()) == uri.geturl()
    assert service not in NODES or "MUSTER_ARCHIVE_URI" in environment(service)


def test_every_secret_is_created_and_used(secrets: dict[str, str]) -> None:
    text = COMPOSE.read_text()
    used = set(SECRET.findall(text))
    assert used == set(secrets)
    # Nothing else is interpolated, so no secret can silently be empty.
    assert set(re.findall(r"\$\{(\w+)", text)) <= used


def test_secrets_are_long_and_of_the_form_that_their_reader_wants(secrets: dict[str, str]) -> None:
    Fernet(secrets["AIRFLOW_FERNET_KEY"])
    assert len(secrets["AIRFLOW_JWT_SECRET"]) >= 64
    assert len(set(secrets.values())) == len(secrets)


def test_interrupted_making_of_secrets_is_begun_again(tmp_path: Path) -> None:
    script = shutil.copy(DOCKER / "new-secrets.sh", tmp_path)
    (tmp_path / "secrets.new" / "node").mkdir(parents=True)
    (tmp_path / ".env.new").write_text("POSTGRES_PASSWORD=")
    subprocess.run([script], check=True, capture_output=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".env", "new-secrets.sh", "secrets"]
    assert len(read_tokens_file(tmp_path / "secrets" / "node" / "tokens.json")) == 4


def test_making_of_secrets_that_was_interrupted_at_its_end_is_completed(tmp_path: Path) -> None:
    script = shutil.copy(DOCKER / "new-secrets.sh", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    made, tokens = (tmp_path / ".env").read_text(), (tmp_path / "secrets" / "node" / "tokens.json").read_text()
    (tmp_path / ".env").rename(tmp_path / ".env.new")
    subprocess.run([script], check=True, capture_output=True)
    assert (tmp_path / ".env").read_text() == made
    assert (tmp_path / "secrets" / "node" / "tokens.json").read_text() == tokens


def test_secrets_are_made_once_and_read_by_their_owner_only(tmp_path: Path) -> None:
    script = shutil.copy(DOCKER / "new-secrets.sh", tmp_path)
    subprocess.run([script], check=True, capture_output=True)
    first = (tmp_path / ".env").read_text()
    again = subprocess.run([script], check=False, capture_output=True, text=True)
    assert again.returncode == 1
    assert again.stderr.count("\n") == 1
    assert (tmp_path / ".env").read_text() == first
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("service", [service for service in SERVICES if "build" in SERVICES[service]])
def test_a_command_is_a_program_and_a_subcommand_that_exist(service: str) -> None:
    command = SERVICES[service]["command"]
    assert (ROOT / ".venv" / "bin" / command[0]).is_file()
    if command[0] == "muster":
        commands = cast("TyperGroup", get_command(app))
        assert commands.get_command(Context(commands), command[1]) is not None


@every_service
def test_a_mounted_file_exists_and_a_mounted_volume_is_declared(service: str) -> None:
    declared = yaml.safe_load(COMPOSE.read_text())["volumes"]
    for volume in SERVICES[service].get("volumes", []):
        source = volume.split(":")[0]
        if source.startswith("./"):
            assert source.startswith("./secrets/") or (DOCKER / source).exists()
        else:
            assert source.startswith("/") or source in declared


@pytest.mark.parametrize("script", sorted(DOCKER.glob("*.sh")), ids=lambda file: file.name)
def test_a_script_can_be_read_by_a_shell_and_run(script: Path) -> None:
    assert subprocess.run(["sh", "-n", script], check=False, capture_output=True).stderr == b""
    assert os.access(script, os.X_OK)


def environment(service: str) -> dict[str, str]:
    """Return the variables that compose.yaml gives a service."""
    return cast("dict[str, str]", SERVICES[service].get("environment", {}))


def filled(variables: dict[str, str], secrets: dict[str, str]) -> dict[str, str]:
    """Return variables with their secrets filled in, as compose does."""
    return {name: SECRET.sub(lambda found: secrets[found[1]], value) for name, value in variables.items()}


def forget_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every setting of ours out of the environment of this test."""
    for name in [name for name in os.environ if name.startswith("MUSTER_")]:
        monkeypatch.delenv(name)


def listening_ports(service: str) -> set[int]:
    """Return the ports that a service listens on, as its variables and its command say, or else by default."""
    variables = ("MUSTER_HTTP_PORT", "AIRFLOW__API__PORT", "GF_SERVER_HTTP_PORT")
    found = {int(environment(service)[name]) for name in variables if name in environment(service)}
    command = SERVICES[service].get("command", [])
    found |= {int(after) for flag, after in pairwise(command) if flag in {"--port", "--webui-port"}}
    found |= {"postgres": {5432}, "prometheus": {9090}}.get(service, set())
    if service == "load-balancer":
        found |= {int(port) for port in re.findall(r"^    bind \S*:(\d+)$", BALANCING, re.MULTILINE)}
    return found


def addresses() -> Iterator[tuple[str, str, int]]:
    """Yield each address in a variable, a command or a health check: which service names it, the host and the port."""
    for service, described in SERVICES.items():
        output = {key: described.get(key) for key in ("environment", "command", "healthcheck")}
        text = yaml.safe_dump(output, width=10**6)
        for url in re.findall(r"\w[\w+]*://[^\s'\"/]+", SECRET.sub("secret", text)):
            parts = urlsplit(url)
            assert parts.hostname is not None
            assert parts.port is not None
            yield service, parts.hostname, parts.port


def airflow_options() -> dict[str, set[str]]:
    """Return the options of each section of Airflow's configuration, without importing Airflow."""
    spec = importlib.util.find_spec("airflow")
    assert spec is not None
    assert spec.submodule_search_locations
    described = Path(spec.submodule_search_locations[0]) / "config_templates" / "config.yml"
    return {section: set(found["options"]) for section, found in yaml.safe_load(described.read_text()).items()}
