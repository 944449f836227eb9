"""Kafka's client libraries as parameters of tests: those of Python are installed, others are fetched."""

from pathlib import Path
from typing import Final

import pytest

from tests.support.go_members import GO_LIBRARIES, GoUnavailable, go_member
from tests.support.kafka_broker import KafkaUnavailable, fetch_jars, java_or_unavailable
from tests.support.kafka_member import OLD_JAVA_VERSION, OLD_PACKAGES
from tests.support.node_members import NodeUnavailable, fetch_kafkajs
from tests.support.python_packages import PackageUnavailable, fetch_package

PYTHON_LIBRARIES: Final = ("kafka-python", "aiokafka", "confluent-kafka")
OLD_VERSIONS: Final = (*OLD_PACKAGES, f"kafka-clients=={OLD_JAVA_VERSION}")
PEERS: Final = ("kafka-clients", *GO_LIBRARIES, "kafkajs", *OLD_VERSIONS)
LIBRARIES: Final = [*PYTHON_LIBRARIES, *(pytest.param(each, marks=pytest.mark.peers) for each in PEERS)]


def skip_without(library: str, directory: Path) -> None:
    """Skip the test if a library cannot be had.

    Args:
        library: one of `LIBRARIES`.
        directory: where programs may be built.
    """
    try:
        if library in GO_LIBRARIES:
            go_member(directory, library)
        elif library == "kafka-clients":
            fetch_jars(java_or_unavailable(directory), artifact="kafka-tools")
        elif library.startswith("kafka-clients=="):
            fetch_jars(java_or_unavailable(directory), artifact="kafka-clients", version=OLD_JAVA_VERSION)
        elif library in OLD_PACKAGES:
            fetch_package(library)
        elif library == "kafkajs":
            fetch_kafkajs()
    except (GoUnavailable, KafkaUnavailable, NodeUnavailable, PackageUnavailable) as why:
        pytest.skip(str(why))
