"""What a mirror answers of the timeouts of its groups."""

from coordinator_core.analytics.advice.policy import too_little_data
from coordinator_core.queries.timeout_advice import INITIAL_DELAY, REBALANCE, SESSION, advice_of_mirror


def test_mirror_says_why_there_is_no_advice() -> None:
    """It will not have heartbeats later either."""
    advice = dict.fromkeys((SESSION, REBALANCE, INITIAL_DELAY), too_little_data(10_000, "0 heartbeats", "1,000"))
    found = advice_of_mirror(advice)
    assert {key: each.verdict for key, each in found.items()} == {
        SESSION: "not_measured", REBALANCE: "not_measured", INITIAL_DELAY: "too_little_data"
    }  # fmt: skip
    assert found[SESSION].because.startswith("Kafka's log has no heartbeats")
    assert {each.present_ms for each in found.values()} == {10_000}
