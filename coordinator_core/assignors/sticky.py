"""Sticky: as even as subscriptions allow, with as few moved partitions as possible.

With equal subscriptions, shares differ by at most one partition, and no even assignment keeps more
(`constrained_assignment`). Otherwise no partition is with a member that has at least two more than another subscriber
of its topic (`general_assignment`). A member that joins without claims is treated like any other.

Source: protocol.md section 17; Kafka's ``StickyAssignor``, an ``AbstractStickyAssignor`` where no racks are known.
"""

from coordinator_core.assignors.claims import Claims, resolve_claims
from coordinator_core.assignors.constrained_assignment import constrained_assignment
from coordinator_core.assignors.general_assignment import general_assignment
from coordinator_core.assignors.group_spec import GroupSpec, Shares


def assign_sticky(group_spec: GroupSpec) -> Shares:
    """Assign all partitions evenly with as few moves as possible."""
    return assign_with_claims(group_spec, resolve_claims(group_spec))


def assign_with_claims(group_spec: GroupSpec, claims: Claims) -> Shares:
    """Assign all partitions evenly, given the resolved claims."""
    return (
        constrained_assignment(group_spec, claims)
        if group_spec.is_uniform()
        else general_assignment(group_spec, claims)
    )
