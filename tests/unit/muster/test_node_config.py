"""Every limit of a node can be set."""

from dataclasses import fields

from coordinator_core.runtime.config import NodeConfig
from muster.node import _node_config
from muster.settings import Settings

UNITS = ("_ms", "_rows", "_ahead", "_chunk", "_groups", "_reads", "_requests", "_days", "_evictions", "_hours")
LIMITS = [field.name for field in fields(NodeConfig) if field.name.endswith(UNITS)]


def test_configured_limit_is_passed_to_the_node() -> None:
    changed = {name: Settings.model_fields[name].default + 1 for name in LIMITS}
    config = _node_config(Settings(**changed), "0")
    assert {name: getattr(config, name) for name in LIMITS} == changed
    assert len(LIMITS) == 16
