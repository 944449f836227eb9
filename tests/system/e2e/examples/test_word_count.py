"""The word count example: several processes, one is killed, and each line is counted exactly once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from threading import Event, Thread

import pytest
import urllib3

from agent import ConsumerAgent
from examples.word_count.__main__ import main
from examples.word_count.access import Access
from examples.word_count.consumer import WordCounter
from examples.word_count.counts import Counts
from examples.word_count.errors import UserError
from examples.word_count.topic import Topic
from examples.word_count.topic_metadata import register
from tests.support.certificates import write_certificate
from tests.support.fake_coordinator import FakeCoordinator, Hold
from tests.support.nodes import CLUSTER_SECRET, running_node
from tests.support.tokens_file import TokensFile
from tests.support.waiting import PATIENCE_S, poll_until

PARTITIONS = 4


class Readers:
    """Processes of the example, and what they print."""

    def __init__(self, directory: Path, url: str, running: ExitStack) -> None:
        self.directory = directory
        self.environment: dict[str, str] = {}
        self._url = url
        self._running = running
        self._outputs: dict[str, Path] = {}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Run a command in the background."""
        self._outputs[name] = self.directory.parent / f"{name}.txt"
        output = self._running.enter_context(self._outputs[name].open("wb"))
        environment = {**os.environ, **self.environment}
        process = subprocess.Popen(command(*arguments), env=environment, stdout=output, stderr=output)
        self._running.callback(end, process)
        return process

    def consume(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        place = (str(self.directory), "--url", self._url, "--session-timeout-ms", "3000")
        return self.start(name, "consume", *place, *options)

    def wait_for(self, name: str, words: str) -> None:
        poll_until(lambda: words in self.said(name))

    def said(self, name: str) -> str:
        return self._outputs[name].read_text()

    def offsets(self) -> dict[int, tuple[int, int]]:
        """Return the committed offset of every partition, and where it ended then."""
        with urllib3.PoolManager() as http:
            answer = http.request("GET", f"{self._url}/v1/groups/word-count/offsets").json()
        return {each["partition"]: (each["offset"], each["log_end_offset"]) for each in answer["offsets"]}

    def wait_until_all_is_committed(self) -> None:
        topic = Topic(self.directory)
        sizes = {number: topic.end(number) for number in range(PARTITIONS)}
        poll_until(lambda: self.offsets() == {number: (size, size) for number, size in sizes.items()})


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "examples.word_count", *arguments]


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.kill()
    process.wait()


def words_in(directory: Path) -> Counter[str]:
    return Counter(word for path in directory.glob("*.log") for word in path.read_text().split())


def words_counted(directory: Path) -> Counter[str]:
    topic = Topic(directory)
    return sum((Counts.load(topic.path(number)).words for number in range(topic.partitions)), Counter())


@pytest.fixture
def readers(tmp_path: Path, reader_node: str) -> Iterator[Readers]:
    with ExitStack() as running:
        readers = Readers(tmp_path / "orders", reader_node, running)
        assert main(["produce", str(readers.directory), "--lines", "200", "--pause-s", "0"]) == 0
        yield readers


@pytest.mark.slow
def test_killed_consumer_is_replaced_and_every_line_counts_once(readers: Readers) -> None:
    doomed = readers.consume("doomed")
    readers.wait_for("doomed", "owns orders-0 orders-1 orders-2 orders-3")
    heir = readers.consume("heir")
    readers.wait_for("heir", "owns orders-")
    writing = readers.start("writer", "produce", str(readers.directory), "--lines", "1500", "--pause-s", "0.002")
    poll_until(lambda: readers.said("doomed").count("counted") >= 3)
    doomed.send_signal(signal.SIGKILL)
    readers.wait_for("heir", "owns orders-0 orders-1 orders-2 orders-3")
    writing.wait()
    readers.wait_until_all_is_committed()
    heir.send_signal(signal.SIGTERM)

    assert heir.wait() == 0
    assert words_counted(readers.directory) == words_in(readers.directory)
    assert sum(words_in(readers.directory).values()) == 3 * 1_700


def test_a_batch_that_was_saved_and_not_committed_is_not_counted_again(readers: Readers) -> None:
    topic = Topic(readers.directory)
    Counts.load(topic.path(2)).add(topic.read(2, 0))
    readers.consume("reader")
    readers.wait_until_all_is_committed()

    assert words_counted(readers.directory) == words_in(readers.directory)


def test_from_start_counts_every_file_from_its_start(readers: Readers) -> None:
    for number in range(PARTITIONS):
        path = Topic(readers.directory).path(number)
        Counts(path.with_suffix(".counts.json"), words=Counter(wrong=7)).add(Topic(readers.directory).read(number, 0))
    readers.consume("reader", "--from-start")
    readers.wait_until_all_is_committed()

    assert words_counted(readers.directory) == words_in(readers.directory)


def test_topic_metadata_has_the_topic_and_its_partitions(readers: Readers, reader_node: str) -> None:
    readers.consume("reader")
    readers.wait_until_all_is_committed()
    with ConsumerAgent(reader_node, "another-group", ["orders"]) as agent:
        partitions = agent.poll(timeout_s=30)

    assert [each.partition for each in partitions] == list(range(PARTITIONS))


def test_node_with_tls_is_used_with_the_token_of_an_agent(tmp_path: Path, reader_database: str) -> None:
    (Path(a_directory(tmp_path, "orders-0.log")) / "orders-0.log").write_text("one two\n")
    certificate = write_certificate(tmp_path / "node.pem")
    entry = {"sha256": sha256(b"billing's").hexdigest(), "actor": "billing", "role": "agent"}
    options: dict[str, int | str] = {
        "group_initial_rebalance_delay_ms": 100,
        "tls_certificate_file": str(certificate),
        "tokens_file": str(TokensFile.written(tmp_path, entry).path),
        "cluster_secret": CLUSTER_SECRET,
    }
    with running_node(reader_database, **options) as node, ExitStack() as running:
        readers = Readers(tmp_path / "orders", node.url, running)
        readers.environment = {"MUSTER_TOKEN": "billing's", "MUSTER_TLS_CA_FILE": str(certificate)}
        readers.consume("reader", "--session-timeout-ms", "6000")
        readers.wait_for("reader", "counted 1 lines")
        with pytest.raises(UserError, match=r"self-signed .*; MUSTER_TLS_CA_FILE names trusted authorities$"):
            register([node.url], Access.of_environment(), Topic(readers.directory))

    assert readers.said("reader").splitlines()[0] == (
        "the token may not set the number of partitions; an operator may: muster topics set orders --partitions 1"
    )


def test_incomplete_line_is_not_counted(tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    path = tmp_path / "orders" / "orders-0.log"
    path.write_text("one two\nthree")
    topic = Topic(tmp_path / "orders")
    first = topic.read(0, 0)
    with path.open("a") as file:
        file.write(" four\n")

    assert (first.lines, first.end) == (["one two"], 8)
    assert topic.read(0, first.end).lines == ["three four"]


def test_total_prints_the_words_the_most_frequent_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "orders").mkdir()
    (tmp_path / "orders" / "orders-0.log").write_text("tea bread tea\n")
    topic = Topic(tmp_path / "orders")
    Counts.load(topic.path(0)).add(topic.read(0, 0))

    assert main(["total", str(topic.directory)]) == 0
    assert capsys.readouterr().out == "       2 tea\n       1 bread\n"


def a_directory(tmp_path: Path, *names: str) -> str:
    directory = tmp_path / "orders"
    directory.mkdir()
    for name in names:
        (directory / name).touch()
    return str(directory)


@pytest.mark.parametrize("lines", ["0", "many"])
def test_invalid_number_is_reported_in_one_sentence(lines: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["produce", "orders", "--lines", lines])
    assert f"argument --lines: must be a whole number from 1 on, and is {lines}\n" in capsys.readouterr().err


@pytest.mark.parametrize("pause", ["a while", "-1", "nan", "inf", "86401"])
def test_invalid_pause_is_reported_in_one_sentence(pause: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["produce", "orders", "--pause-s", pause])
    assert f"argument --pause-s: must be from 0 to 86400 seconds, and is {pause}\n" in capsys.readouterr().err


def test_missing_directory_is_reported_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["consume", str(tmp_path / "nowhere")]) == 1
    assert capsys.readouterr().err == f"there is no directory {tmp_path}/nowhere; `produce` creates it\n"


def test_directory_without_partitions_is_reported_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = a_directory(tmp_path, "notes.txt")

    assert main(["total", directory]) == 1
    assert capsys.readouterr().err == f"{directory} holds no partition; the first one would be orders-0.log\n"


def test_missing_partition_file_is_reported_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = a_directory(tmp_path, "orders-0.log", "orders-2.log")

    assert main(["total", directory]) == 1
    assert "lacks a partition: it has [0, 2]" in capsys.readouterr().err


def test_unreadable_counts_are_reported_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = a_directory(tmp_path, "orders-0.log", "orders-0.counts.json")

    assert main(["total", directory]) == 1
    assert "orders-0.counts.json cannot be read" in capsys.readouterr().err


def test_unreachable_node_is_reported_in_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = a_directory(tmp_path, "orders-0.log")

    assert main(["consume", directory, "--url", "http://127.0.0.1:1"]) == 1
    assert capsys.readouterr().err == (
        "there is no Muster node at http://127.0.0.1:1; `make run` starts one at http://127.0.0.1:8080\n"
    )


def test_another_node_is_asked_where_one_does_not_answer(tmp_path: Path, reader_node: str) -> None:
    topic = Topic(Path(a_directory(tmp_path, "orders-0.log")))
    register(["http://127.0.0.1:1", reader_node], Access.of_environment(), topic)

    with urllib3.PoolManager() as http:
        stored = http.request("GET", f"{reader_node}/v1/topics").json()["topics"]
    assert [(each["topic"], each["partitions"]) for each in stored] == [("orders", 1)]


def test_fewer_files_than_partitions_are_reported_in_one_sentence(readers: Readers, reader_node: str) -> None:
    reader = readers.consume("reader")
    readers.wait_until_all_is_committed()
    end(reader)
    (readers.directory / "orders-3.log").unlink()
    late = readers.consume("late")

    assert late.wait() == 1
    assert f"the node at {reader_node} rejects the topic orders" in readers.said("late")
    assert len(readers.said("late").splitlines()) == 1


@pytest.fixture
def coordinator() -> Iterator[FakeCoordinator]:
    fake = FakeCoordinator()
    fake.start()
    yield fake
    fake.stop()


def a_counter(coordinator: FakeCoordinator, directory: str) -> WordCounter:
    access, topic = Access.of_environment(), Topic(Path(directory))
    return WordCounter([coordinator.url], access, "word-count", topic, 6_000, is_from_start=False)


def test_broken_counts_end_a_consumer_with_one_sentence(
    tmp_path: Path, coordinator: FakeCoordinator, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = a_directory(tmp_path, "orders-0.log", "orders-1.log", "orders-2.log")
    (tmp_path / "orders" / "orders-1.counts.json").write_text("{broken")

    with pytest.raises(UserError, match=r"orders-1\.counts\.json cannot be read; delete it"):
        a_counter(coordinator, directory).run()
    assert coordinator.member_id == ""
    assert capsys.readouterr().out == "generation 1: released orders-0 orders-1 orders-2\n"


def test_stopping_consumer_waits_for_a_commit_no_longer_than_its_timeout(
    tmp_path: Path, coordinator: FakeCoordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("examples.word_count.consumer.COMMIT_TIMEOUT_S", 0.05)
    directory = a_directory(tmp_path, "orders-0.log", "orders-1.log", "orders-2.log")
    (tmp_path / "orders" / "orders-1.log").write_text("one two\n")
    never = Event()
    coordinator.next("commit", Hold(never))
    counter = a_counter(coordinator, directory)
    running = Thread(target=counter.run)
    running.start()
    coordinator.wait_for_calls("commit", 1)
    counter.stop()
    running.join(PATIENCE_S)
    is_over = not running.is_alive()
    never.set()

    assert is_over
    assert coordinator.member_id == ""
