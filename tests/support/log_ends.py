"""The log ends of one source that the lag of an offset depends on."""

from collections.abc import Sequence

from coordinator_core.protocol.log_ends import LogEnd


def relevant_log_ends(ends: Sequence[LogEnd], offset: int) -> list[LogEnd]:
    """Return the ends of one source that `lag_at` needs: the last at or before an offset, the next one, the last."""
    reached = [place for place, end in enumerate(ends) if end.offset <= offset][-1:]
    beyond = reached[-1] + 1 if reached else 0
    return sorted({*(ends[place] for place in reached), *ends[beyond : beyond + 1], *ends[-1:]})
