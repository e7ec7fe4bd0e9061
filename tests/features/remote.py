"""A server with a mock, clients that are somewhere else, and the network between them."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from reenact import Image, Runtime
from reenact.client.runtime import RemoteRuntime
from reenact.client.subscription import RemoteSubscription as Subscription
from reenact.server import Server
from reenact.testing import wait_until
from tests.domain.stream.grammar import Heard
from tests.logs import copy_log, log_at
from tests.reliability.proxy import Proxy
from tests.reliability.tap import Tap, TapFactory
from tests.reliability.truth import deltas_of, kept, taken
from tests.runtime.witness import journal_of

PATIENCE = 60.0
HEARTBEAT = 0.25
"""Seconds of silence after which a client takes the server for gone."""


class Client:
    """A client that follows the session under its name, and all that it has heard."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url
        self.heard: list[Heard] = []
        self._runtime: RemoteRuntime | None = None
        self._subscription: Subscription | None = None
        self.come()

    @property
    def runtime(self) -> RemoteRuntime:
        assert self._runtime is not None, "the client is not there"
        return self._runtime

    def come(self) -> None:
        """Connect, and go on behind the last event that was heard."""
        after = self.heard[-1].cursor if self.heard else None
        self._runtime = Runtime.connect(self._url, heartbeat=HEARTBEAT)
        self._subscription = self._runtime.events.subscribe("chat", self.name, after=after)

    def come_as_one_that_has_forgotten(self) -> None:
        """Connect, and go on behind what the server knows to be acknowledged."""
        self._runtime = Runtime.connect(self._url, heartbeat=HEARTBEAT)
        self._subscription = self._runtime.events.subscribe("chat", self.name)

    def read(self, deltas: int, last: str = "") -> None:
        """Read until so many deltas in all, and an event of the type `last`, were heard."""
        assert self._subscription is not None
        while len(deltas_of(self.heard)) < deltas or (last and last not in [event.type for event in self.heard]):
            event = self._subscription.next(PATIENCE)
            assert event is not None, f"heard nothing behind {self.heard[-1:]}"
            self.heard += taken([event])

    def acknowledge(self) -> None:
        """Acknowledge all that was heard."""
        assert self._subscription is not None
        self._subscription.ack()

    def go(self) -> None:
        """Be gone."""
        if self._runtime is not None:
            self._runtime.close()
            self._runtime = self._subscription = None


class World:
    """The server, the network in front of it, and its clients."""

    def __init__(self, folder: Path) -> None:
        self.tap = Tap()
        self.mock = TapFactory(self.tap)
        self._folder = folder
        self._stack = ExitStack()
        self._log = log_at(folder / "agents.db")
        self.clients: dict[str, Client] = {}
        self.emitted = 0
        self.turn_id: object = None
        self.is_silent = False
        """Whether the network says nothing, not even that it does not work."""
        self.runtime, self.server = self._serve(0)
        self.proxy = self._stack.enter_context(Proxy(self.server.url))

    def client(self, name: str = "client") -> Client:
        """Return the client; it comes when it is first named."""
        if name not in self.clients:
            self.clients[name] = Client(name, self.proxy.url)
        return self.clients[name]

    def emit(self, count: int) -> None:
        """Let the mock say so much more, and return when all of that is in the log."""
        self.tap.allow(count)
        self.emitted += count
        journal = journal_of(self.runtime)
        wait_until(lambda: len(deltas_of(kept(self.runtime, "chat"))) == self.emitted, PATIENCE, "the mock to speak")
        assert journal.head() > 0

    def stop_listening(self) -> None:
        """Stop the server, but not the runtime."""
        self.server.stop()

    def listen_again(self) -> None:
        """Serve the runtime again, on the same port."""
        self.server = self._stack.enter_context(Server(self.runtime, port=self.server.port))

    def fail_over(self) -> None:
        """Go on with the files as they are at this moment, on a server that listens where the old one did."""
        port = self.server.port
        self.runtime.containers.list()  # returns when the projections have nothing to do
        self._log = copy_log(self._log, "ruins")
        self.proxy.refuse()
        self.proxy.cut()
        self.server.stop()
        self.runtime.close()
        self.runtime, self.server = self._serve(port)
        self.proxy.accept()

    def close(self) -> None:
        """End it all."""
        for client in self.clients.values():
            client.go()
        self._stack.close()

    def furnish(self, image_id: str) -> None:
        """Have an image, and a session of the same name."""
        self.runtime.containers.create(container_id="default")
        self.runtime.images.register(Image(id=image_id))
        self.runtime.sessions.create("default", image_id, session_id=image_id)

    def _serve(self, port: int) -> tuple[Runtime, Server]:
        runtime = self._stack.enter_context(Runtime.open(self._log, environment=self.mock, synchronous="OFF"))
        return runtime, self._stack.enter_context(Server(runtime, port=port))
