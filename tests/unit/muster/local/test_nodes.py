"""The ports of the nodes of the local platform."""

import pytest

from muster.errors import UserError
from muster.local.nodes import local_nodes
from muster.settings import Settings, load_settings


def test_nodes_have_consecutive_ports_beside_that_of_airflow() -> None:
    nodes = local_nodes(Settings(http_port=8_080, airflow_port=8_081, kafka_port=9_092), 3)
    assert [(node.port, node.settings.kafka_port) for node in nodes] == [(8_080, 9_092), (8_082, 9_093), (8_083, 9_094)]


@pytest.mark.parametrize(
    ("ports", "option"),
    [({"http_port": 65_534}, "--port"), ({"http_port": 8_080, "kafka_port": 65_534}, "MUSTER_KAFKA_PORT")],
)
def test_ports_that_are_too_high_for_all_nodes_are_refused(ports: dict[str, int], option: str) -> None:
    with pytest.raises(UserError, match=f"^There are too few ports from 65534 on for 3 nodes; lower {option}.$"):
        local_nodes(load_settings(**ports), 3)
