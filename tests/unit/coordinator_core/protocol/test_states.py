"""The table of states equals the diagram, and is exactly what a group can do.

Source: protocol.md section 2.
"""

import pytest

from coordinator_core.protocol.group import Group
from coordinator_core.protocol.records import (
    AssignmentAccepted,
    GenerationStarted,
    GroupDied,
    GroupEmptied,
    GroupRecord,
    RebalanceStarted,
    Trigger,
)
from coordinator_core.protocol.requests import DeadlineKind, DeleteGroup, Request, RetireGroup
from coordinator_core.protocol.states import MAY_REBALANCE, TRANSITIONS, GroupState, is_legal
from tests.support.repository import ROOT
from tests.unit.coordinator_core.protocol.groups import (
    TOKEN,
    A,
    completing,
    decided,
    empty,
    expire,
    join,
    leave,
    preparing,
    stable,
    sync,
)

ARCHITECTURE = ROOT / "ARCHITECTURE.md"
UNLOADED = {"PreparingRebalance → Dead", "CompletingRebalance → Dead", "Stable → Dead"}
"""A node that loses a group drops the object; that is no decision and has no record."""

DECIDED: list[tuple[Group, Request, str]] = [
    (empty(["h"]), join("h"), "Empty → PreparingRebalance"),
    (empty(), DeleteGroup(TOKEN, (), "change"), "Empty → Dead"),
    (empty(), RetireGroup(TOKEN, has_offsets=False), "Empty → Dead"),
    (preparing(joined=["a"]), expire(DeadlineKind.JOIN), "PreparingRebalance → CompletingRebalance"),
    (preparing(A), expire(DeadlineKind.JOIN), "PreparingRebalance → Empty"),
    (completing(), sync("a"), "CompletingRebalance → Stable"),
    (completing(), leave("b"), "CompletingRebalance → PreparingRebalance"),
    (stable(), leave("b"), "Stable → PreparingRebalance"),
]


def test_diagram_in_architecture_md_equals_the_table() -> None:
    text = ARCHITECTURE.read_text(encoding="utf-8")
    between = text.partition("<!-- states: begin -->")[2].partition("<!-- states: end -->")[0]
    arrows = [
        f"    {source} --> {target}: {cause}"
        for source, targets in TRANSITIONS.items()
        for target, cause in targets.items()
    ]
    diagram = ["stateDiagram-v2", "    [*] --> Empty: first join or simple commit", *arrows, "    Dead --> [*]"]
    assert between.strip() == "\n".join(["```mermaid", *diagram, "```"])


@pytest.mark.parametrize(("group", "request_", "arrow"), DECIDED)
def test_requests_follow_legal_transitions(group: Group, request_: Request, arrow: str) -> None:
    assert f"{group.state} → {decided(group, request_).group.state}" == arrow


def test_every_transition_is_reached() -> None:
    arrows = {f"{source} → {target}" for source, targets in TRANSITIONS.items() for target in targets}
    assert {arrow for _, _, arrow in DECIDED} | UNLOADED == arrows


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (GroupState.PREPARING_REBALANCE, GroupState.PREPARING_REBALANCE),
        (GroupState.PREPARING_REBALANCE, GroupState.STABLE),
        (GroupState.STABLE, GroupState.STABLE),
        (GroupState.STABLE, GroupState.COMPLETING_REBALANCE),
        (GroupState.STABLE, GroupState.EMPTY),
        (GroupState.EMPTY, GroupState.EMPTY),
        (GroupState.EMPTY, GroupState.COMPLETING_REBALANCE),
        (GroupState.EMPTY, GroupState.STABLE),
        (GroupState.COMPLETING_REBALANCE, GroupState.EMPTY),
        *((GroupState.DEAD, target) for target in GroupState),
    ],
)
def test_no_other_transition_is_possible(source: GroupState, target: GroupState) -> None:
    assert not is_legal(source, target)


def test_rebalance_starts_only_in_states_of_the_table() -> None:
    assert {state for state in GroupState if is_legal(state, GroupState.PREPARING_REBALANCE)} == MAY_REBALANCE


@pytest.mark.parametrize(
    ("group", "record", "state"),
    [
        (stable(), RebalanceStarted(5, 0, Trigger.ADMIN, None, None, None, None), GroupState.PREPARING_REBALANCE),
        (
            preparing(joined=["a"]),
            GenerationStarted(5, 0, None, 8, "range", "a", frozenset(), 0),
            GroupState.COMPLETING_REBALANCE,
        ),
        (completing(), AssignmentAccepted(5, 1, ()), GroupState.STABLE),
        (preparing(A), GroupEmptied(5, 8), GroupState.EMPTY),
        (empty(), GroupDied(5, "deleted"), GroupState.DEAD),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_state_and_its_time_change_together(group: Group, record: GroupRecord, state: GroupState) -> None:
    after = group.fold([record])
    assert (after.state, after.state_since_ms) == (state, 5)


@pytest.mark.parametrize("record", [AssignmentAccepted(5, 1, ()), GroupEmptied(5, 8)])
def test_record_of_an_illegal_transition_breaks_an_invariant(record: GroupRecord) -> None:
    with pytest.raises(AssertionError, match=r"Stable → .* is no legal transition"):
        stable().fold([record])
