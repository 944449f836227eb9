"""Members of a group, as immutable values."""

from typing import Self

from msgspec import Struct
from msgspec.structs import replace

from coordinator_core.protocol.requests import SupportedProtocol


class Member(Struct, frozen=True, gc=False):
    """One member of a group. Source: protocol.md section 1."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    """As requested; the effective timeout may differ (`GroupSettings.effective_session_timeout_ms`)."""
    rebalance_timeout_ms: int
    protocols: tuple[SupportedProtocol, ...]
    """In the member's order of preference."""
    joined_at_ms: int
    assignment: bytes = b""
    is_new: bool = True
    """Until its first join phase ends; until then the new-member timeout takes the place of a session."""
    in_generation: bool = False
    """Whether it was part of a stored generation; only such members survive the loss of their node."""

    @property
    def is_static(self) -> bool:
        """Return whether the member has an instance id."""
        return self.group_instance_id is not None

    def in_new_generation(self) -> Self:
        """Return the member as part of the generation that starts, without an assignment."""
        return replace(self, assignment=b"", is_new=False, in_generation=True)

    def supports(self, protocol_name: str | None) -> bool:
        """Return whether the member supports this protocol."""
        return any(name == protocol_name for name, _ in self.protocols)

    def metadata_for(self, protocol_name: str | None) -> bytes:
        """Return the member's metadata for this protocol; empty if it does not support the protocol."""
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""

    def vote(self, candidates: frozenset[str]) -> str:
        """Return the first of the member's own protocols that is a candidate.

        Every member supports every candidate, so a result exists whenever there are candidates.
        """
        return next(name for name, _ in self.protocols if name in candidates)
