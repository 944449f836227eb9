"""Concurrent runs of many scenarios against one real node, each with its own groups and clock.

A run that fails while the machine kept its time has failed. If a step or the node was later than the scenario's slack
allows, the run is inconclusive: it is repeated at half the pace when the others have started, and reported.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Event, Lock, Thread
from time import monotonic
from typing import Final, Self

from tests.support.databases import Databases
from tests.support.nodes import running_kafka_node, running_node
from tests.system.conformance.http_driver import NOTHING_TO_COMMIT, HttpDriver, Site
from tests.system.conformance.interpreter import Interpreter
from tests.system.conformance.outside import Plan
from tests.system.conformance.scaled_clock import ScaledClock
from tests.system.conformance.wire import Wire, group_path

NODE: Final = {"lease_ttl_ms": 30_000, "request_timeout_ms": 30_000}
"""A lease long enough for a busy machine to renew in time."""
APART_S: Final = 0.15
"""How far apart scenarios start, the longest first: the node is not met by all at once, and the end is no later."""
CALM_SLACK_MS: Final = 500.0
"""Scenarios with less real slack start when the short ones, which keep the node busy, have ended."""
SHORT_S: Final = 20.0
ATTEMPTS_MAX: Final = 3
LATE_SHARE: Final = 0.3
"""The part of a scenario's slack that lateness may take before its run shows nothing: latenesses add up, as that of the
end of a rebalance and that of the sessions which begin then.
"""
PULSE_S: Final = 0.05
PATIENCE_MAX_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a scenario."""

    scale: float
    complaint: str | None
    """The failed expectation; None if all hold."""
    late_ms: float
    """By how much the machine was late, at most."""
    allowed_ms: float
    unseen: tuple[str, ...]

    @property
    def is_void(self) -> bool:
        """Return whether the run failed and the machine was too late for a conclusion."""
        return self.complaint is not None and self.late_ms > self.allowed_ms


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a scenario."""

    plan: Plan
    attempts: tuple[Attempt, ...]

    @property
    def complaint(self) -> str | None:
        """Return what the last attempt found wrong, or None."""
        return self.attempts[-1].complaint

    @property
    def repeats(self) -> tuple[str, ...]:
        """Return a sentence for every repeated attempt."""
        return tuple(
            f"{self.plan.scenario.scenario_id}: repeated, because the machine was {each.late_ms:.0f} ms late"
            f" where {each.allowed_ms:.0f} ms are allowed ({each.complaint})"
            for each in self.attempts[:-1]
        )


class Fleet:
    """Runs plans, from `start` on."""

    def __init__(self, databases: Databases, plans: Iterable[Plan], driver: type[HttpDriver] = HttpDriver) -> None:
        self._databases = databases
        self._driver = driver
        self._plans = sorted((each for each in plans if each.reason is None), key=lambda each: -each.real_s)
        self._outcomes: dict[str, Outcome] = {}
        self._is_there = {each.scenario.scenario_id: Event() for each in self._plans}
        self._have_others_started = Event()
        self._raw_names = Lock()
        self._numbers = count(1)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        url = self._stack.enter_context(_database(self._databases))
        node = self._stack.enter_context(running_kafka_node(url, **NODE))
        self._site = Site(node.url, url, node.settings.kafka_address)
        self._pulse = self._stack.enter_context(Pulse(node.url))
        self._director = Thread(target=self._direct, name="conformance")
        self._director.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._director.join()
        self._stack.close()

    def outcome(self, scenario_id: str) -> Outcome:
        """Return the result of a scenario, when it has ended."""
        self._is_there[scenario_id].wait()
        return self._outcomes[scenario_id]

    # -- in which order ----------------------------------------------------------------------------------

    def _direct(self) -> None:
        """Start all, those with little slack after the short ones; return when all have ended."""
        calm = [each for each in self._plans if each.real_slack_ms < CALM_SLACK_MS]
        others = [each for each in self._plans if each not in calm]
        started = self._start(others)
        self._have_others_started.set()
        for each, thread in zip(others, started, strict=True):
            if each.real_s <= SHORT_S:
                thread.join()
        for thread in started + self._start(calm):
            thread.join()

    def _start(self, plans: Iterable[Plan]) -> list[Thread]:
        """Start each on its own thread, in this order."""
        threads = []
        for each in plans:
            threads.append(Thread(target=self._run_to_its_end, args=(each,), name=each.scenario.scenario_id))
            threads[-1].start()
            Event().wait(APART_S)
        return threads

    def _run_to_its_end(self, plan: Plan) -> None:
        """Run a plan, and repeat it at half the pace while that shows nothing."""
        attempts = [self._attempt(plan)]
        while attempts[-1].is_void and len(attempts) < ATTEMPTS_MAX:
            self._have_others_started.wait()
            plan = plan.slower()
            attempts.append(self._attempt(plan))
        self._outcomes[plan.scenario.scenario_id] = Outcome(plan, tuple(attempts))
        self._is_there[plan.scenario.scenario_id].set()

    # -- one run -------------------------------------------------------------------------------------------

    def _attempt(self, plan: Plan) -> Attempt:
        with ExitStack() as stack:
            if plan.needs_raw_names:
                stack.enter_context(self._raw_names)
            site = stack.enter_context(_own_site(self._databases)) if plan.needs_own_node else self._site
            return self._run(plan, site)

    def _run(self, plan: Plan, site: Site) -> Attempt:
        slack_s = PATIENCE_MAX_S if plan.slack_ms is None else plan.real_slack_ms / 1000
        clock = ScaledClock(plan.scale)
        prefix = f"{plan.scenario.scenario_id}-{next(self._numbers)}"
        driver = self._driver(plan.scenario, site, clock, prefix, min(slack_s, PATIENCE_MAX_S))
        interpreter = Interpreter(plan.scenario, driver, plan.skipped_steps)
        complaint = None
        began_s = monotonic()
        try:
            driver.prepare()
            began_s = monotonic()
            interpreter.run()
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is this scenario's outcome; others go on
            complaint = str(failure) if isinstance(failure, AssertionError) else f"{type(failure).__name__}: {failure}"
        finally:
            driver.close()
        late_ms = max(clock.late_ms, self._pulse.late_ms(began_s, monotonic()))
        return Attempt(plan.scale, complaint, late_ms, slack_s * 1000 * LATE_SHARE, tuple(sorted(interpreter.unseen)))


# -- nodes ------------------------------------------------------------------------------------------------


@contextmanager
def _database(databases: Databases) -> Iterator[str]:
    url = databases.create()
    try:
        yield url
    finally:
        databases.drop(url)


@contextmanager
def _own_site(databases: Databases) -> Iterator[Site]:
    """Yield a node that can be restarted, on its own database."""
    with _database(databases) as url, ExitStack() as running:
        node = running.enter_context(running_node(url, **NODE))

        def restart() -> str:
            running.close()
            return running.enter_context(running_node(url, **NODE)).url

        yield Site(node.url, url, restart=restart)


class Pulse:
    """Commits to its own group repeatedly, to measure how late the node is."""

    def __init__(self, url: str) -> None:
        self._wire = Wire(url)
        self._beats: list[tuple[float, float]] = []
        self._due_s: float | None = None
        """When the commit in progress was due; None: there is none."""
        self._is_over = Event()
        self._thread = Thread(target=self._beat, name="pulse")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._wire.close()

    def late_ms(self, from_s: float, to_s: float) -> float:
        """Return the longest commit between two moments; one in progress counts as it is."""
        due_s = self._due_s
        in_progress = [] if due_s is None else [(due_s, monotonic() - due_s)]
        beats = [*self._beats, *in_progress]
        return max((took_s * 1000 for at_s, took_s in beats if from_s <= at_s <= to_s), default=0.0)

    def _beat(self) -> None:
        due_s = monotonic()
        while not self._is_over.is_set():
            self._due_s = due_s
            self._wire.post(group_path("pulse", "offsets"), NOTHING_TO_COMMIT)
            self._beats.append((due_s, monotonic() - due_s))
            self._due_s = None
            due_s = monotonic() + PULSE_S
            self._is_over.wait(PULSE_S)
