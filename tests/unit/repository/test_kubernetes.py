"""The manifests are valid, agree with compose.yaml, and give no pod more rights than it needs."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]  # it has no types
import pytest
import yaml

from api.shared.tokens import read_tokens_file
from muster.settings import ENVIRONMENT_PREFIX, Settings, load_settings
from tests.support.documented_commands import sessions
from tests.support.repository import ROOT

FOLDER = ROOT / "docker" / "kubernetes"
MANIFESTS: list[dict[str, Any]] = [
    manifest for file in sorted(FOLDER.glob("*.yaml")) for manifest in yaml.safe_load_all(file.read_text())
]
VERSIONS = ("1.29", "1.37")
"""The oldest and newest releases of Kubernetes that the manifests are checked for."""
WORKLOADS = [each for each in MANIFESTS if "template" in each["spec"]]
SECRETS = {"MUSTER_DATABASE_URL": "postgresql://muster@db/muster", "MUSTER_CLUSTER_SECRET": "s" * 32}
NODES = next(each for each in WORKLOADS if each["kind"] == "StatefulSet")


def name_of(manifest: dict[str, Any]) -> str:
    return f"{manifest['kind']}-{manifest['metadata']['name']}"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=name_of)
def test_a_manifest_has_the_schema_of_its_kind(manifest: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(manifest, version, strict=True)


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_a_pod_has_no_rights_that_it_does_not_need(workload: dict[str, Any]) -> None:
    pod = workload["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert "memory" in container["resources"]["limits"]


def test_documented_commands_create_the_secrets_and_files_that_pods_use(tmp_path: Path) -> None:
    commands = [shlex.split(command) for command in sessions("docs/production.md")[0]]
    created = {
        (words[4], found[1])
        for words in commands
        if words[:4] == ["kubectl", "create", "secret", "generic"]
        for word in words
        if (found := re.fullmatch(r"--from-file=([\w.-]+)", word))
    }
    text = "".join(file.read_text() for file in FOLDER.glob("*.yaml"))
    (tokens,) = NODES["spec"]["template"]["spec"]["volumes"][:1]
    assert created == {
        *re.findall(r"secretKeyRef: {name: ([\w-]+), key: ([\w-]+)}", text),
        *((tokens["secret"]["secretName"], file) for file in re.findall(r"/run/muster/([\w.]+)", text)),
    }
    applied = {words[-1] for words in commands if words[:2] == ["kubectl", "apply"]}
    assert applied == {str(file.relative_to(ROOT)) for file in FOLDER.glob("*.yaml")}
    issuing = [words for words in commands if words[:3] == ["muster", "token", "new"]]
    for words in issuing:
        subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    assert len(read_tokens_file(tmp_path / "tokens.json")) == len(issuing)


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_variables_are_valid_settings(workload: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    for each in container["env"]:
        if each["name"].startswith(ENVIRONMENT_PREFIX):
            assert each["name"].removeprefix(ENVIRONMENT_PREFIX).lower() in Settings.model_fields
            value = each.get("value") or SECRETS[each["name"]]
            monkeypatch.setenv(each["name"], value.replace("$(POD_NAME)", "muster-0").replace("$(NAMESPACE)", "ours"))
    load_settings()


def test_services_and_policies_select_the_nodes() -> None:
    labels = NODES["spec"]["template"]["metadata"]["labels"]
    for manifest in MANIFESTS:
        spec = manifest["spec"]
        if manifest["kind"] == "Service":
            assert spec["selector"] == labels
        elif manifest["kind"] != "Job":
            assert (spec.get("selector") or spec["podSelector"])["matchLabels"] == labels
    assert NODES["spec"]["serviceName"] in {each["metadata"]["name"] for each in MANIFESTS if each["kind"] == "Service"}


def test_a_node_gets_the_name_at_which_its_service_finds_it() -> None:
    (node,) = NODES["spec"]["template"]["spec"]["containers"]
    variables = {each["name"]: each.get("value") for each in node["env"]}
    assert variables["MUSTER_ADVERTISED_URL"] == (
        f"http://$(POD_NAME).{NODES['spec']['serviceName']}.$(NAMESPACE).svc:{variables['MUSTER_HTTP_PORT']}"
    )
    assert node["ports"] == [{"name": "http", "containerPort": int(variables["MUSTER_HTTP_PORT"])}]
