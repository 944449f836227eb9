"""The simulated network: messages are lost, duplicated, delayed and reordered; connections end with their node."""

from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from itertools import count

from tests.system.simulation.loop import SimulatedLoop
from tests.system.simulation.node import Answer, Message, Node, Say
from tests.system.simulation.weather import Weather
from tests.system.simulation.world import World

LATE_S = (0.05, 8.0)
"""How late a delayed message is."""
PATIENCE_S = 4.0
"""How long a sender waits beyond what it lets the node take."""


class NoAnswer(Exception):
    """There was no response: no process listens, the connection ended, or the time limit passed."""


class Network:
    """What lies between the agents' loop and the nodes."""

    def __init__(self, world: World, weather: Weather, nodes: Mapping[str, Node], clients: SimulatedLoop) -> None:
        self.nodes = nodes
        self._world = world
        self._weather = weather
        self._clients = clients
        self._numbers = count(1)
        self._newest: dict[str, int] = defaultdict(int)
        """Sender → the newest of its messages that has arrived."""

    async def ask(self, node_name: str, message: Message) -> Answer:
        """Send a message, and return what the node answers; errors are returned, not raised.

        Raises:
            NoAnswer: none came.
        """
        future = self._clients.create_future()

        def settle(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        timer = self._clients.call_later(message.max_wait_s + PATIENCE_S, settle, NoAnswer("time is up"))
        self._send(self.nodes[node_name], message, settle)
        try:
            answer = await future
        finally:
            timer.cancel()
        if isinstance(answer, NoAnswer):
            raise answer
        return answer

    def _send(self, node: Node, message: Message, settle: Say) -> None:
        number = next(self._numbers)
        copies = 1
        match self._weather.draw(self._weather.network, "request_"):
            case "request_lost":
                self._world.strike("request_lost", message.sender, message.group_id)
                return
            case "request_doubled":
                self._world.strike("request_doubled", message.sender, message.group_id)
                copies = 2
            case "request_delayed":
                self._world.strike("request_delayed", message.sender, message.group_id)
                self._world.after(self._world.between(*LATE_S), partial(self._arrive, node, message, number, settle))
                return
            case _:
                pass
        for copy in range(copies):
            delay_s = self._weather.network_delay_s() + (self._world.between(*LATE_S) if copy else 0)
            self._world.after(delay_s, partial(self._arrive, node, message, number, settle))

    def _arrive(self, node: Node, message: Message, number: int, settle: Say) -> None:
        if node.cut_until_s > self._world.now_s:
            return
        if number < self._newest[message.sender]:
            self._world.strike("request_reordered", message.sender, message.group_id)
        self._newest[message.sender] = max(number, self._newest[message.sender])
        say = partial(self._reply, node, message, settle)
        if node.process is None or not node.process.receive(message, say):
            self._world.after(
                self._weather.network_delay_s(), partial(self._deliver_later, settle, NoAnswer("refused"))
            )

    def _reply(self, node: Node, message: Message, settle: Say, answer: Answer) -> None:
        delay_s = self._weather.network_delay_s()
        if isinstance(answer, ConnectionError):
            answer = NoAnswer(str(answer))
        elif node.cut_until_s > self._world.now_s:
            return
        match self._weather.draw(self._weather.network, "reply_"):
            case "reply_lost":
                self._world.strike("reply_lost", message.sender, message.group_id)
                return
            case "reply_delayed":
                self._world.strike("reply_delayed", message.sender, message.group_id)
                delay_s = self._world.between(*LATE_S)
            case _:
                pass
        self._world.after(delay_s, partial(self._deliver_later, settle, answer))

    def _deliver_later(self, settle: Say, answer: Answer) -> None:
        self._clients.deliver(settle, answer)
