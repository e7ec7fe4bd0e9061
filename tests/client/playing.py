"""A session that is told over connections which break, by a server that repeats itself, to a consumer that is slow."""

from __future__ import annotations

import json

from reenact import Runtime
from reenact.client import subscription as module
from reenact.client.dialing import Reconnect
from reenact.client.subscription import RemoteSubscription
from tests.client.conftest import Waits
from tests.client.scripted import Beyond, Line, Scripted, events


class Teller:
    """The server's side: what the session has had, and where the present subscription stands."""

    def __init__(self, scripted: Scripted, line: Line) -> None:
        self._scripted = scripted
        self.line = line
        self.id: str | None = None
        self.told = 0
        self.last = 0

    def listen(self, silence: float = 0.002) -> None:
        """Obey what the client asks for, until it is silent for so many seconds."""
        while True:
            try:
                frame = self.line.connection.recv(silence)
            except TimeoutError:
                return
            self._obey(_read(frame))

    def send(self, count: int) -> None:
        """Let so many events happen, and tell them if anybody follows."""
        self.last += count
        self.listen()
        self._tell(self.told + 1)

    def repeat(self, count: int) -> None:
        """Tell once more what was told."""
        self.listen()
        self._tell(max(1, self.told - count))

    def reconnect(self, code: int | None) -> None:
        """Break or close the connection, and take the next."""
        if code is None:
            self.line.drop()
        else:
            self.line.close(code)
        self.line = self._scripted.line()
        self.id = None
        self.listen(0.02)  # whoever has come back usually asks for something

    def _tell(self, first: int) -> None:
        if self.id is not None and first <= self.last:
            self.line.events(self.id, *events(first, self.last))
            self.told = self.last

    def _obey(self, frame: dict[str, object]) -> None:
        match frame["type"]:
            case "subscribe":
                after = frame["after"]
                self.id, self.told = str(frame["id"]), after if isinstance(after, int) else 0
                self.line.say("subscribed", id=self.id, after=self.told)
                self._tell(self.told + 1)
            case "unsubscribe":
                if frame["id"] == self.id:
                    self.id = None
            case "ack":
                self.line.say("acked", id=frame["id"], cursor=frame["cursor"])
            case _:
                raise AssertionError(frame)


def play(steps: list[tuple[str, int]]) -> None:
    """Let these things happen, and see that each event is handed out once and in order."""
    most, module.MOST = module.MOST, 10
    scripted, beyond, waits = Scripted(), Beyond(), Waits()
    try:
        connecting = beyond.call(
            lambda: Runtime.connect(scripted.url, client_id="me", reconnect=Reconnect(wait=waits.wait))
        )
        line = scripted.line()
        with connecting.result() as runtime:
            subscribing = beyond.call(lambda: runtime.events.subscribe("s"))
            teller = Teller(scripted, line)
            line.connection.socket.settimeout(None)
            while not subscribing.is_over:
                teller.listen()
            _play(subscribing.result(), teller, steps)
    finally:
        module.MOST = most
        beyond.join()
        scripted.stop()


def _play(subscription: RemoteSubscription, teller: Teller, steps: list[tuple[str, int]]) -> None:
    taken: list[int | None] = []
    for kind, count in steps:
        match kind:
            case "send":
                teller.send(count)
            case "repeat":
                teller.repeat(count)
            case "drop":
                teller.reconnect(None)
            case "close":
                teller.reconnect(1001)
            case _:
                taken.extend(envelope.cursor for envelope in subscription.take(count))
    while len(taken) < teller.last:
        teller.listen()
        taken.extend(envelope.cursor for envelope in subscription.take())
    assert taken == list(range(1, teller.last + 1))
    assert subscription.take() == []


def _read(frame: str | bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(frame)
    return found
