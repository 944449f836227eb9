"""The Java that Spark is given: the one that is named, the system's, or the wheel's behind its shim."""

import os
import subprocess
from pathlib import Path

import pytest

from muster.errors import UserError
from muster.local import java
from muster.local.java import QUICK_START, find_java, spark_environment


def pretend_java(home: Path, version: str, *, has_module: bool = True) -> Path:
    """Write a `java` that reports this version, and rejects a missing module."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"    java.home = {home}\n    java.specification.version = {version}\n"
    refusal = "" if has_module else 'case "$*" in *jdk.incubator.vector*) exit 1;; esac\n'
    program.write_text(f"#!/bin/sh\n{refusal}cat >&2 <<'END'\n{answer}END\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def nothing_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide every Java but the wheel's; the tools that a script needs stay."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat"):
        (tools / name).symlink_to(f"/bin/{name}")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tools))


@pytest.mark.usefixtures("nothing_around")
def test_configured_java_takes_precedence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path = pretend_java(tmp_path / "system", "21")
    monkeypatch.setenv("PATH", f"{on_path}/bin{os.pathsep}{os.environ['PATH']}")
    assert find_java(tmp_path / "cache") == on_path
    named = pretend_java(tmp_path / "named", "17")
    monkeypatch.setenv("JAVA_HOME", str(named))
    assert find_java(tmp_path / "cache") == named


@pytest.mark.usefixtures("nothing_around")
@pytest.mark.parametrize(("version", "has_module"), [("11", True), ("1.8", True), ("21", False)])
def test_unsupported_java_is_skipped(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, has_module: bool
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pretend_java(tmp_path / "named", version, has_module=has_module)))
    assert find_java(tmp_path / "cache") == tmp_path / "cache" / "java-shim"


@pytest.mark.usefixtures("nothing_around")
def test_java_of_the_wheel_starts_despite_a_missing_module(tmp_path: Path) -> None:
    java_program = find_java(tmp_path) / "bin" / "java"
    options = ["-Dkept=a b", "--add-modules=jdk.incubator.vector", "-XshowSettings:properties", "-version"]
    answer = subprocess.run([str(java_program), *options], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert "kept = a b" in answer.stderr


@pytest.mark.usefixtures("nothing_around")
def test_shim_is_created_once(tmp_path: Path) -> None:
    shim = find_java(tmp_path) / "bin" / "java"
    made_at_ns = shim.stat().st_mtime_ns
    assert find_java(tmp_path) / "bin" / "java" == shim
    assert shim.stat().st_mtime_ns == made_at_ns


@pytest.mark.usefixtures("nothing_around")
def test_missing_java_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(java, "WHEEL", "a_package_that_is_not_there")
    with pytest.raises(UserError, match="Spark needs Java 17 or newer"):
        find_java(tmp_path)


def test_spark_binds_to_loopback_and_keeps_java_options() -> None:
    environment = spark_environment(Path("java"), {"PATH": "here"})
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment["PATH"].endswith(f"{os.pathsep}here")
    assert environment["SPARK_SUBMIT_OPTS"] == QUICK_START
    assert spark_environment(Path("java"), {"SPARK_SUBMIT_OPTS": "-Xss4m"})["SPARK_SUBMIT_OPTS"] == "-Xss4m"
