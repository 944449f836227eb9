"""A demonstration consumer: a real agent in its own process that reads generated records.

Each partition's end offset is a function of the wall clock alone, so every member sees the same partitions without
anything being stored, and lag rises and falls as bursts come in. The process can be killed to show what the group does
then; it ends by itself when its parent does.
"""

from __future__ import annotations

import argparse
import ctypes
import logging
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Final

from agent import ConsumerAgent, RejoinError, RequestError, RetryError, TopicPartition
from muster.client_tls import client_ssl_context

RECORDS_BEGAN_AT_S: Final = 1_793_491_200.0
"""The time at which every partition was empty: 2026-11-01T00:00:00Z."""
RECORDS_PER_SECOND: Final = 3
BURST_RECORDS: Final = 240
BURST_EVERY_S: Final = 60
BURST_STEP_S: Final = 10
"""The delay of the burst of a partition after that of the previous partition."""
READS_PER_SECOND: Final = 100
"""The rate of records that one member reads, over all of its partitions."""
STEP_S: Final = 0.5
COMMIT_EVERY_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 1.5
SESSION_TIMEOUT_MS: Final = 6_000
ANSWER_TIMEOUT_MS: Final = 1_000
"""The timeout of a commit, which delays the stop of this process by as much."""
DEFAULT_PARTITIONS: Final = 6
PR_SET_PDEATHSIG: Final = 1


def main(arguments: list[str] | None = None) -> int:
    """Run one demonstration member until SIGTERM or SIGINT; return its exit status."""
    options = _parsed(arguments)
    if not set_parent_death_signal():
        return 0
    logging.basicConfig(stream=sys.stdout, level=logging.WARNING, format="%(message)s")
    try:
        member = DemoMember(options.url, options.group, options.topic, options.client_id)
    except ValueError as problem:
        print(problem, file=sys.stderr)
        return 2
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: member.stop())
    return member.run()


def end_offset(partition: TopicPartition, at_s: float) -> int:
    """Return the log end offset of a partition at a Unix time: a constant rate, and a burst each minute."""
    age_s = max(0.0, at_s - RECORDS_BEGAN_AT_S)
    bursts = int(age_s + BURST_STEP_S * partition.partition) // BURST_EVERY_S
    return int(RECORDS_PER_SECOND * age_s) + BURST_RECORDS * bursts


class DemoMember:
    """A member that reads, commits about every second, and prints its rebalances."""

    def __init__(self, urls: list[str], group_id: str, topic: str, client_id: str) -> None:
        self._is_stopping = False
        self._committed_at_s = 0.0
        self._is_committing_in_vain = False
        self._agent = ConsumerAgent(
            urls,
            group_id,
            [topic],
            client_id=client_id,
            token=os.environ.get("MUSTER_TOKEN"),
            ssl_context=client_ssl_context(),
            session_timeout_ms=SESSION_TIMEOUT_MS,
            request_timeout_ms=ANSWER_TIMEOUT_MS,
            api_timeout_ms=ANSWER_TIMEOUT_MS,
            auto_offset_reset="latest",
            partitions_of=lambda _: DEFAULT_PARTITIONS,
            end_offset_of=lambda partition: end_offset(partition, time.time()),
            on_assigned=lambda partitions: self._log(f"generation {self._agent.generation}: assigned", partitions),
            on_revoked=self._release,
            on_lost=lambda partitions: self._log("lost", partitions),
        )

    def stop(self) -> None:
        """Make `run` return soon; for signal handlers."""
        self._is_stopping = True
        self._agent.wakeup()

    def run(self) -> int:
        """Consume until a stop is requested, leave the group, and return the exit status."""
        try:
            while not self._is_stopping:
                self._step()
        except RequestError as problem:
            self._log(f"cannot go on: {problem}")
            return 1
        finally:
            self._agent.close(timeout_s=CLOSE_TIMEOUT_S)
        self._log("left the group")
        return 0

    def _step(self) -> None:
        self._read(self._agent.poll(timeout_s=STEP_S))
        if time.monotonic() - self._committed_at_s >= COMMIT_EVERY_S:
            self._commit()
        self._agent.wait(timeout_s=STEP_S)

    def _read(self, positions: Mapping[TopicPartition, int]) -> None:
        """Move each position towards the log end, by as many records as this member reads."""
        now_s = time.time()
        share = int(READS_PER_SECOND * STEP_S) // max(1, len(positions))
        for partition, position in positions.items():
            self._agent.seek(partition, min(max(position, end_offset(partition, now_s)), position + share))

    def _commit(self) -> None:
        try:
            self._agent.commit()
        except (RejoinError, RetryError) as problem:
            if not self._is_committing_in_vain:
                self._log(f"not committed: {problem}")
            self._is_committing_in_vain = True
        else:
            self._committed_at_s = time.monotonic()
            self._is_committing_in_vain = False

    def _release(self, partitions: tuple[TopicPartition, ...]) -> None:
        self._log("gives back", partitions)
        if not self._is_stopping:
            self._commit()

    def _log(self, what: str, partitions: tuple[TopicPartition, ...] = ()) -> None:
        print(what, *partitions, flush=True)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m muster.local.demo_member", description=__doc__)
    parser.add_argument("--url", action="append", required=True, help="a Muster node; may be given several times")
    parser.add_argument("--group", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--client-id", default="demo", help="-pid<number> is added to it")
    options = parser.parse_args(arguments)
    options.client_id = f"{options.client_id}-pid{os.getpid()}"
    return options


def set_parent_death_signal() -> bool:
    """Have the kernel end this process when the thread that started it ends; False if it has ended already."""
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    return os.getppid() == parent


if __name__ == "__main__":
    sys.exit(main())
