"""The simulated world: a heap of future events, and a time that jumps from one event to the next.

Everything that happens is decided by the seed. Nothing here or above reads a clock, draws from another source of
chance, or goes by the order of a set.
"""

import hashlib
import heapq
import random
from collections import Counter, defaultdict, deque
from collections.abc import Callable
from dataclasses import dataclass

from tests.system.simulation.loop import Due, SimulatedLoop

LOOKS_MAX = 50_000
"""Looks at a clock, and events, that one moment may see; a busy one sees some hundreds."""
LINES_KEPT = 80
"""Lines of transcript that are kept for each group, and for the world as a whole."""


@dataclass(frozen=True, slots=True)
class Violation:
    """An invariant that did not hold."""

    invariant: str
    detail: str
    at_s: float
    group_id: str | None


class World:
    """Time, chance, the transcript, and what went wrong."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.now_s = 0.0
        self.events = 0
        self.struck: Counter[str] = Counter()
        """Fault → how often it struck."""
        self.violation: Violation | None = None
        self.looks = 0
        """How often processes have looked at their clocks, and how much has happened, since time last passed."""
        self.running: SimulatedLoop | None = None
        """The loop whose turn it is."""
        self._heap: list[tuple[float, int, SimulatedLoop | None, Due]] = []
        self._order = 0
        self._awake: deque[SimulatedLoop] = deque()
        self._lines: dict[str, deque[str]] = defaultdict(lambda: deque(maxlen=LINES_KEPT))
        self._hash = hashlib.blake2b(digest_size=16)
        self.after_turn: Callable[[SimulatedLoop], None] = _nothing

    # -- time ------------------------------------------------------------------------------------------

    def schedule(self, at_s: float, due: Due, loop: SimulatedLoop | None = None) -> None:
        """Let something happen at a time: a call, or a timer of a loop."""
        self._order += 1
        heapq.heappush(self._heap, (max(self.now_s, at_s), self._order, loop, due))

    def after(self, delay_s: float, call: Callable[[], object]) -> None:
        """Let a call happen after a while."""
        self.schedule(self.now_s + delay_s, call)

    def wake(self, loop: SimulatedLoop) -> None:
        """Note that a loop has something to do now."""
        self._awake.append(loop)

    def run(self, until_s: float) -> None:
        """Let everything happen that is due by then, or up to the first violation."""
        heap = self._heap
        self._complete()
        while heap and heap[0][0] <= until_s and self.violation is None:
            at_s, _, loop, due = heapq.heappop(heap)
            self.events += 1
            if at_s > self.now_s:
                self.now_s, self.looks = at_s, 0
            else:
                self._count_look()
            if loop is None:
                due()  # type: ignore[operator]  # what has no loop is a call
            elif not due._cancelled:  # type: ignore[union-attr]  # what has one is a timer of it
                loop.pop_due(due)  # type: ignore[arg-type]
            if self._awake:
                self._complete()

    def _complete(self) -> None:
        """Let every loop turn until none has anything to do at this moment; each in its turn."""
        awake = self._awake
        while awake and self.violation is None:
            self.running = loop = awake.popleft()
            loop.turn()
            if loop.touched:
                self.after_turn(loop)
        self.running = None

    def _count_look(self) -> None:
        self.looks += 1
        if self.looks > LOOKS_MAX:
            self.fail("NoBusyLoops", "one thing follows the other for ever, and no time passes")

    def spin(self, name: str) -> None:
        """End a busy loop: a process reads its clock often while no time passes.

        Raises:
            RuntimeError: which ends the spinning; the violation is noted.
        """
        self.fail("NoBusyLoops", f"{name} reads its clock without end while no time passes")
        raise RuntimeError("spinning")

    # -- chance ----------------------------------------------------------------------------------------

    def happens(self, probability: float) -> bool:
        """Draw whether something happens."""
        return self.chance.random() < probability

    def between(self, low: float, high: float) -> float:
        """Draw a number."""
        return low + (high - low) * self.chance.random()

    def name(self) -> str:
        """Draw a name that nothing else has: 32 hexadecimal digits, the form of a UUID without its dashes."""
        return f"{self.chance.getrandbits(128):032x}"

    # -- what happened ---------------------------------------------------------------------------------

    def strike(self, fault: str, what: str, group_id: str = "") -> None:
        """Count a fault, and write it into the transcript."""
        self.struck[fault] += 1
        self.note(group_id, f"-- fault {fault}: {what}")

    def note(self, group_id: str, text: str, *, is_kept: bool = True) -> None:
        """Write a line into the transcript of a group, or ("") of the world; one that is not kept is only hashed."""
        line = f"{self.now_s:10.4f}  {text}"
        if is_kept:
            self._lines[group_id].append(line)
        self._hash.update(line.encode())

    def fail(self, invariant: str, detail: str, group_id: str | None = None) -> None:
        """Note that an invariant does not hold; the first one counts, and ends the run after this turn."""
        if self.violation is None:
            self.violation = Violation(invariant, detail, self.now_s, group_id)

    def transcript(self, group_id: str | None) -> list[str]:
        """Return the last lines of a group and of the world, in order of time."""
        lines = [*self._lines[""], *(self._lines[group_id] if group_id else ())]
        return sorted(lines, key=lambda line: float(line.split(maxsplit=1)[0]))

    @property
    def fingerprint(self) -> str:
        """Return a hash of every line that was ever written."""
        return self._hash.hexdigest()


def _nothing(_: SimulatedLoop) -> None:
    """Do nothing after a turn."""
