"""Kafka's client libraries as parameters of tests: those of Python are installed, others need Java, Go or Node.js."""

from pathlib import Path
from typing import Final

import pytest

from tests.support.go_members import GO_LIBRARIES, GoUnavailable, go_member
from tests.support.kafka_broker import KafkaUnavailable, fetch_jars, java_or_unavailable
from tests.support.node_members import NodeUnavailable, fetch_kafkajs

PYTHON_LIBRARIES: Final = ("kafka-python", "aiokafka", "confluent-kafka")
PEERS: Final = ("kafka-clients", *GO_LIBRARIES, "kafkajs")
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
        elif library == "kafkajs":
            fetch_kafkajs()
    except (GoUnavailable, KafkaUnavailable, NodeUnavailable) as why:
        pytest.skip(str(why))
