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
from muster.settings import Settings
from tests.support.documented_commands import sessions
from tests.support.repository import ROOT

FOLDER = ROOT / "docker" / "kubernetes"
MANIFESTS: list[dict[str, Any]] = [
    manifest for file in sorted(FOLDER.glob("*.yaml")) for manifest in yaml.safe_load_all(file.read_text())
]
VERSIONS = ("1.29", "1.37")
"""The oldest and newest releases of Kubernetes that the manifests are checked for."""
WORKLOADS = [each for each in MANIFESTS if "template" in each["spec"]]
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
    commands = [shlex.split(command) for session in sessions("docs/production.md") for command in session]
    words_of_secrets = [word for words in commands if words[:3] == ["kubectl", "create", "secret"] for word in words]
    created = {found[1] for word in words_of_secrets if (found := re.match(r"--from-(?:literal|file)=([\w.-]+)", word))}
    text = "".join(file.read_text() for file in FOLDER.glob("*.yaml"))
    assert created == {*re.findall(r"secretKeyRef: .*key: ([\w-]+)", text), *re.findall(r"/run/muster/([\w.]+)", text)}
    applied = {words[-1] for words in commands if words[:2] == ["kubectl", "apply"]}
    assert applied == {str(file.relative_to(ROOT)) for file in FOLDER.glob("*.yaml")}
    for words in commands:
        if words[:4] == ["muster", "token", "new", "--actor"]:
            subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, check=True, capture_output=True)
    assert len(read_tokens_file(tmp_path / "tokens.json")) == 2


@pytest.mark.parametrize("workload", WORKLOADS, ids=name_of)
def test_variables_are_settings(workload: dict[str, Any]) -> None:
    for container in workload["spec"]["template"]["spec"]["containers"]:
        named = {each["name"] for each in container["env"]} - {"POD_NAME", "NAMESPACE"}
        assert named <= {f"MUSTER_{name.upper()}" for name in Settings.model_fields}


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
