"""Dockerfiles are valid as far as that can be checked without a container engine."""

import itertools
import re
import shlex
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.repository import ROOT

DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("Dockerfile.*"))
IMAGE_LOCKS = sorted(DOCKER.glob("requirements-*.lock"))
EXTRAS_OF_IMAGE = {"node": ("server", "kafka", "mirror"), "airflow": ("airflow",), "spark": ("spark",)}

every_dockerfile = pytest.mark.parametrize("dockerfile", DOCKERFILES, ids=lambda file: file.suffix[1:])


def test_there_is_an_image_for_each_part_of_the_platform() -> None:
    assert {file.suffix[1:] for file in DOCKERFILES} == set(EXTRAS_OF_IMAGE)


def test_docker_is_never_a_package() -> None:
    # With one of these on the import path, `import docker` would find ours instead of the library.
    assert not (DOCKER / "__init__.py").exists()


@every_dockerfile
def test_every_instruction_is_valid(dockerfile: Path) -> None:
    known = {"ARG", "FROM", "RUN", "COPY", "ENV", "USER", "WORKDIR", "CMD"}
    assert {word for word, _ in instructions(dockerfile)} <= known


@every_dockerfile
def test_everything_copied_is_in_the_tree_and_in_the_build_context(dockerfile: Path) -> None:
    sources = copied_from_the_tree(dockerfile)
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert [source for source in sources if not reaches_the_context(source)] == []


@every_dockerfile
def test_every_package_of_the_project_is_in_the_image(dockerfile: Path) -> None:
    packages = project()["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert set(packages) <= set(copied_from_the_tree(dockerfile))


@every_dockerfile
def test_image_installs_locked_packages_only(dockerfile: Path) -> None:
    installs = [command for command in run_commands(dockerfile) if re.search(r"\bpip install\b", command)]
    assert installs
    for command in installs:
        assert "--no-deps" in command
        ours = ("--no-build-isolation .", "--no-build-isolation . ./airflow_provider")
        assert "--require-hashes" in command or command.endswith(ours)
    named = {path for command in installs for path in re.findall(r"-r (\S+)", command)}
    assert named == {"docker/requirements-build.lock", f"docker/requirements-{dockerfile.suffix[1:]}.lock"}


@every_dockerfile
def test_nothing_runs_as_root(dockerfile: Path) -> None:
    final = stages(dockerfile)[-1]
    users = [argument for word, argument in final if word == "USER"]
    made = " ".join(argument for word, argument in final if word == "RUN" and "useradd" in argument)
    assert users
    assert users[-1] != "root"
    assert made.split("&&")[0].split()[-1] == users[-1]


@every_dockerfile
def test_the_command_is_a_program_of_the_environment(dockerfile: Path) -> None:
    [command] = [argument for word, argument in instructions(dockerfile) if word == "CMD"]
    program = shlex.split(command.strip("[]").replace(",", " "))[0]
    assert (ROOT / ".venv" / "bin" / program).is_file()


def test_all_images_have_one_base_pinned_by_digest_so_driver_and_workers_run_one_python() -> None:
    found = [instructions(file) for file in DOCKERFILES]
    assert {argument.split()[0] for lines in found for word, argument in lines if word == "FROM"} == {"${BASE}"}
    (base,) = {argument for lines in found for word, argument in lines if word == "ARG"}
    assert re.fullmatch(r"BASE=[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}", base)
    assert variables(DOCKER / "Dockerfile.airflow")["PYSPARK_PYTHON"] == "/opt/muster/bin/python"
    assert variables(DOCKER / "Dockerfile.spark")["PYSPARK_PYTHON"] == "/opt/muster/bin/python"


@pytest.mark.parametrize("image", EXTRAS_OF_IMAGE)
def test_lock_of_an_image_has_the_packages_of_its_extras(image: str) -> None:
    locked = pins(DOCKER / f"requirements-{image}.lock")
    for requirement in itertools.chain.from_iterable(map(extra, EXTRAS_OF_IMAGE[image])):
        assert requirement.name in locked
        assert requirement.specifier.contains(locked[requirement.name])


@pytest.mark.parametrize("lock", IMAGE_LOCKS, ids=lambda file: file.stem)
def test_an_image_runs_the_versions_that_are_tested_here(lock: Path) -> None:
    tested = set(ROOT.joinpath("requirements.lock").read_text().splitlines())
    assert [line for line in lock.read_text().splitlines() if line not in tested] == []


def instructions(dockerfile: Path) -> list[tuple[str, str]]:
    """Return each instruction and its argument, continued lines joined, comments left out."""
    lines = [line for line in dockerfile.read_text().splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    split = [line.split(maxsplit=1) for line in joined.splitlines() if line.strip()]
    return [(word, " ".join(argument.split())) for word, argument in split]


def stages(dockerfile: Path) -> list[list[tuple[str, str]]]:
    """Return the instructions of each build stage."""
    found: list[list[tuple[str, str]]] = []
    for word, argument in instructions(dockerfile):
        if word == "FROM":
            found.append([])
        if word != "ARG":  # It names the base, before the first stage.
            found[-1].append((word, argument))
    return found


def copied_from_the_tree(dockerfile: Path) -> list[str]:
    """Return what COPY takes from the repository, not from another stage."""
    arguments = [argument for word, argument in instructions(dockerfile) if word == "COPY"]
    return [source for argument in arguments if "--from=" not in argument for source in argument.split()[:-1]]


def run_commands(dockerfile: Path) -> list[str]:
    """Return each shell command of RUN."""
    runs = [argument for word, argument in instructions(dockerfile) if word == "RUN"]
    return [command.strip() for run in runs for command in run.split("&&")]


def variables(dockerfile: Path) -> dict[str, str]:
    """Return what ENV sets."""
    pairs = [pair for word, argument in instructions(dockerfile) if word == "ENV" for pair in argument.split()]
    return {name: value for name, _, value in (pair.partition("=") for pair in pairs)}


def reaches_the_context(path: str) -> bool:
    """Tell whether .dockerignore lets a path through; the last pattern that fits decides."""
    is_in = True
    for pattern in ROOT.joinpath(".dockerignore").read_text().splitlines():
        if pattern and not pattern.startswith("#") and fnmatch(path, pattern.removeprefix("!")):
            is_in = pattern.startswith("!")
    return is_in


def project() -> dict:  # type: ignore[type-arg]  # a TOML document of any shape
    """Return pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def extra(name: str) -> list[Requirement]:
    """Return the requirements of an extra, including extras that it names."""
    found = []
    for text in project()["project"]["optional-dependencies"][name]:
        requirement = Requirement(text)
        if requirement.name == "muster":
            found += [inner for named in requirement.extras for inner in extra(named)]
        else:
            found.append(requirement)
    return found


def pins(lock: Path) -> dict[str, str]:
    """Return the version of each package in a lock."""
    return dict(re.findall(r"^([a-z0-9-]+)==([^ ;\\]+)", lock.read_text(), flags=re.MULTILINE))
