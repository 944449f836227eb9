"""Every container runs with the rights that compose.yaml leaves it, as the kernel sees it."""

import pytest

from tests.system.containers.platform import PROJECT, Platform, containers

pytestmark = pytest.mark.containers

NO_CAPABILITY = "0" * 16


def running(platform: Platform) -> list[str]:
    """Return all containers but those of tasks, which have ended."""
    return [each for service in platform.services.values() if service.health_check for each in containers(service)]


def test_no_process_is_root_or_can_become_it(platform: Platform) -> None:
    for container in running(platform):
        lines = platform.podman("exec", container, "cat", "/proc/1/status").splitlines()
        status = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
        assert "0" not in status["Uid"] + status["Gid"], container
        assert {status[f"Cap{kind}"][0] for kind in ("Eff", "Prm", "Bnd", "Amb")} == {NO_CAPABILITY}, container
        assert status["NoNewPrivs"] == ["1"], container


def test_no_container_can_change_its_image_or_take_the_machines_memory(platform: Platform) -> None:
    for service in platform.services.values():
        for container in containers(service):
            host = platform.inspect(container)["HostConfig"]
            assert host["ReadonlyRootfs"], container
            assert host["Memory"] > 0, container
            assert host["PidsLimit"] > 0, container


def test_root_file_system_is_read_only(platform: Platform) -> None:
    for container in running(platform):
        mounts = platform.podman("exec", container, "cat", "/proc/mounts").splitlines()
        (root,) = [line.split() for line in mounts if line.split()[1] == "/"]
        assert "ro" in root[3].split(","), container


def test_nodes_refuse_requests_without_a_token(platform: Platform) -> None:
    ran = platform.podman.attempt("exec", f"{PROJECT}-node-1-1", "muster", "groups", "list")
    assert ran.returncode != 0
    assert "SASL_AUTHENTICATION_FAILED" in ran.stderr
