"""A member of a group, as a value: a change of it is a new one."""

from dataclasses import dataclass

from coordinator_core.protocol.requests import Offer


@dataclass(frozen=True, slots=True)
class Member:
    """One consumer's place in a group. Source: protocol.md section 1."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    """As asked; what is in force may differ (`GroupSettings.session_in_force_ms`)."""
    rebalance_timeout_ms: int
    protocols: tuple[Offer, ...]
    """In the member's order of preference."""
    joined_at_ms: int
    assignment: bytes = b""
    is_new: bool = True
    """Until its first join phase ends; a newcomer has the new-member timeout in place of a session."""
    in_generation: bool = False
    """Whether it was part of a generation that was stored; only such members outlive their node."""

    @property
    def is_static(self) -> bool:
        """Tell whether the member keeps its place by an instance id."""
        return self.group_instance_id is not None

    def offers(self, protocol_name: str | None) -> bool:
        """Tell whether the member offers this protocol."""
        return any(name == protocol_name for name, _ in self.protocols)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return what the member said under this protocol, or nothing."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first of the member's own protocols that is a candidate.

        Every candidate is supported by every member, so there is one whenever there are candidates.
        """
        return next(name for name, _ in self.protocols if name in candidates)
