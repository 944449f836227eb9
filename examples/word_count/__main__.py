"""Command line of the word count example; an error is one sentence on stderr and exit status 1."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from agent import RequestError
from examples.word_count.access import Access
from examples.word_count.consumer import WordCounter
from examples.word_count.counts import Counts
from examples.word_count.errors import UserError
from examples.word_count.producer import produce
from examples.word_count.topic import Topic
from examples.word_count.topic_metadata import register

PAUSE_MAX_S = 86_400


def main(arguments: list[str] | None = None) -> int:
    """Run one of the commands, and return its exit status."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
    options = _parsed(arguments)
    try:
        options.command(options)
    except (UserError, RequestError, ValueError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    return 0


def _produce(options: argparse.Namespace) -> None:
    stopping = threading.Event()
    _on_signals(stopping.set)
    written = produce(options.directory, options.partitions, options.lines, options.pause_s, stopping)
    print(f"{written} lines appended")


def _consume(options: argparse.Namespace) -> None:
    topic = Topic(options.directory)
    access = Access.of_environment()
    counter = WordCounter(
        options.url, access, options.group, topic, options.session_timeout_ms, is_from_start=options.from_start
    )
    register(options.url, access, topic)
    _on_signals(counter.stop)
    counter.run()


def _total(options: argparse.Namespace) -> None:
    topic = Topic(options.directory)
    words: Counter[str] = Counter()
    for partition in range(topic.partitions):
        words += Counts.load(topic.path(partition)).words
    for word, count in sorted(words.items(), key=lambda each: (-each[1], each[0])):
        print(f"{count:8} {word}")


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.word_count", description="Count the words of a directory."
    )
    commands = parser.add_subparsers(required=True, metavar="produce|consume|total")
    writing = _command(commands, "produce", _produce, "append lines to the files until Ctrl-C")
    writing.add_argument("--partitions", type=_at_least_one, default=4, help="number of files (4)")
    writing.add_argument("--lines", type=_at_least_one, help="stop after this number of lines")
    writing.add_argument("--pause-s", type=_pause_s, default=0.1, help="pause between two lines, in seconds (0.1)")
    reading = _command(commands, "consume", _consume, "count words as a member of a group until Ctrl-C")
    reading.add_argument("--url", action="append", help="a Muster node (http://127.0.0.1:8080); may be repeated")
    reading.add_argument("--group", default="word-count", help="the group's id (word-count)")
    reading.add_argument(
        "--session-timeout-ms", type=_at_least_one, default=6_000, help="time without a heartbeat until eviction (6000)"
    )
    reading.add_argument("--from-start", action="store_true", help="count every file from its start")
    _command(commands, "total", _total, "print the counts")
    options = parser.parse_args(arguments)
    options.url = getattr(options, "url", None) or ["http://127.0.0.1:8080"]
    return options


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    command: Callable[[argparse.Namespace], None],
    summary: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=summary, description=summary)
    parser.set_defaults(command=command)
    parser.add_argument("directory", type=Path, help="the directory that is the topic")
    return parser


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 on, and is {text}")
    return int(text)


def _pause_s(text: str) -> float:
    try:
        pause_s = float(text)
    except ValueError:
        pause_s = -1.0
    if not 0 <= pause_s <= PAUSE_MAX_S:
        raise argparse.ArgumentTypeError(f"must be from 0 to {PAUSE_MAX_S} seconds, and is {text}")
    return pause_s


def _on_signals(stop: Callable[[], object]) -> None:
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, lambda *_: stop())


if __name__ == "__main__":
    sys.exit(main())
