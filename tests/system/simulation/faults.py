"""The kinds of faults and operations in a simulation, each of which has to occur in a long run."""

from tests.system.simulation.weather import EVENTS, NETWORK, STORE

FAULTS = (
    *EVENTS,
    *(name for name in STORE if name != "write_refused"),
    *(name.replace("write", "checkpoint") for name in STORE if name.startswith("write_") and name != "write_refused"),
    *NETWORK,
    "group_refused",
    "request_reordered",
    "lease_overtaken",
    "pending_rebalance_taken_over",
    "timeout_changed_in_phase",
    "stale_write_refused",
    "write_landed_late",
    "checkpoint_landed_late",
    "queue_full",
    "act_repeated",
    "agent_eager",
    "agent_left_by_instance",
)
"""In the order in which they are printed: first what is planned, then what follows from it."""

LOSSES = ("database_failed_over", "database_rolled_back")
"""Faults of `failovers` only."""

UNREADABLE = ("group_unreadable", "group_reloaded")
"""Faults of `unreadable` only."""
