"""A process with many agents, each in a thread, that consume imaginary records and commit increasing offsets.

An agent starts at the committed offset of a partition, so the committed offsets of a partition only increase.
"""

import argparse
import json
import logging
import signal
import sys
import threading
import time
from http.client import HTTPException
from pathlib import Path
from random import Random
from urllib.request import urlopen

from agent import AgentError, ConsumerAgent
from muster.local.demo_member import set_parent_death_signal
from tests.system.chaos.journal import CommitOffsetsResponse, Journal, OffsetsFetched, PartitionsAssigned

TOPIC = "chaos"
POLL_INTERVAL_MS = 15_000
ANSWER_TIMEOUT_MS = 3_000
STEP_S = 0.4
RECORDS_MAX = 100
PARTITIONS_A_MEMBER = 2


class Consumer:
    """One agent, and the journal of its responses."""

    def __init__(self, name: str, options: argparse.Namespace, journal: Journal) -> None:
        self._name = name
        self._urls = options.url
        self._group_id = group_id = f"chaos-{int(name.rpartition('-')[2]) // options.members}"
        self._journal = journal
        self._random = Random(name)
        self._agent = ConsumerAgent(
            options.url,
            group_id,
            [TOPIC],
            client_id=name,
            session_timeout_ms=options.session_timeout_ms,
            max_poll_interval_ms=POLL_INTERVAL_MS,
            request_timeout_ms=ANSWER_TIMEOUT_MS,
            api_timeout_ms=ANSWER_TIMEOUT_MS,
            partitions_of=lambda _: options.members * PARTITIONS_A_MEMBER,
            on_assigned=lambda _: self._record_assignment(),
        )

    def run(self, stopping: threading.Event) -> None:
        """Consume until stopped; retry after every failure."""
        while not stopping.is_set():
            try:
                self._step()
            except AgentError:
                stopping.wait(STEP_S)
        self._agent.close()

    def _step(self) -> None:
        positions = self._agent.poll(timeout_s=STEP_S)
        offsets = {each: position + self._random.randint(1, RECORDS_MAX) for each, position in positions.items()}
        if offsets:
            for partition, offset in offsets.items():
                self._agent.seek(partition, offset)
            self._agent.commit(offsets)
            stored = {partition.partition: offset for partition, offset in offsets.items()}
            self._journal.write_event(CommitOffsetsResponse(time.monotonic(), self._name, self._group_id, stored))
            self._fetch_from(self._random.choice(self._urls))
        self._agent.wait(timeout_s=STEP_S)

    def _fetch_from(self, url: str) -> None:
        """Fetch the group's offsets at a node, once."""
        began_s = time.monotonic()
        try:
            with urlopen(f"{url}/v1/groups/{self._group_id}/offsets", timeout=ANSWER_TIMEOUT_MS / 1000) as response:
                found = {one["partition"]: one["offset"] for one in json.load(response)["offsets"]}
        except (OSError, HTTPException):
            return
        self._journal.write_event(OffsetsFetched(time.monotonic(), began_s, url, self._group_id, found))

    def _record_assignment(self) -> None:
        partitions = tuple(sorted(each.partition for each in self._agent.assignment()))
        generation, member_id = self._agent.generation, self._agent.member_id
        event = PartitionsAssigned(time.monotonic(), self._name, self._group_id, generation, member_id, partitions)
        self._journal.write_event(event)


def main() -> None:
    """Run COUNT agents, numbered from FIRST, until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", action="append", required=True)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--first", type=int, required=True)
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--members", type=int, required=True, help="of each group")
    parser.add_argument("--session-timeout-ms", type=int, required=True)
    options = parser.parse_args()
    if not set_parent_death_signal():
        return
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    journal = Journal(options.journal)
    numbers = range(options.first, options.first + options.count)
    consumers = [Consumer(f"agent-{number}", options, journal) for number in numbers]
    threads = [threading.Thread(target=consumer.run, args=(stopping,)) for consumer in consumers]
    for thread in threads:
        thread.start()
    stopping.wait()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
