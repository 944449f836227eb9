"""Every limit of a node can be set."""

from contextlib import closing
from dataclasses import asdict, fields

from coordinator_core.queries.limits import QueryLimits
from coordinator_core.runtime.config import NodeConfig
from muster.node.serve import _node_config, open_queries
from muster.settings import Settings

UNITS = ("_ms", "_rows", "_ahead", "_chunk", "_groups", "_reads", "_requests", "_days", "_evictions", "_hours")
LIMITS = [field.name for field in fields(NodeConfig) if field.name.endswith(UNITS)]


def test_configured_limit_is_passed_to_the_node() -> None:
    changed = {name: Settings.model_fields[name].default + 1 for name in LIMITS}
    config = _node_config(Settings(**changed), "0")
    assert {name: getattr(config, name) for name in LIMITS} == changed
    assert len(LIMITS) == 13


def test_configured_limits_are_those_of_queries() -> None:
    limits = {field.name for field in fields(QueryLimits)}
    changed = {name: Settings.model_fields[name].default + 1 for name in limits}
    url = "postgresql+psycopg2://nobody@127.0.0.1:1/none"
    with closing(open_queries(Settings(database_url=url, **changed))) as queries:  # type: ignore[arg-type]  # a text, validated there
        assert asdict(queries.limits) == changed
