"""A remote runtime: the same facades, over a connection that is made again when it is lost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Self

from reenact.actors.asking import Asker, Asking
from reenact.actors.kernel.at_exit import AtExit
from reenact.client.address import check_token, websocket_address
from reenact.client.caller import Caller
from reenact.client.dialing import Dialer
from reenact.client.events import RemoteEvents
from reenact.client.handlers import Handlers
from reenact.client.link import Link
from reenact.client.reconnect import Reconnect
from reenact.domain.errors import ConfigurationError, ReenactError, ServerUnreachableError
from reenact.domain.events import Envelope
from reenact.domain.messages import check_text
from reenact.domain.plain import seconds_of


class RemoteRuntime(Asking):
    """What `Runtime.connect` returns. Use it as a context manager, or `close` it."""

    def __init__(self, link: Link, client_id: str | None, timeout: float | None) -> None:
        self._link = link
        self._handlers = Handlers(link)
        self._caller = Caller(link, timeout)
        self.events = RemoteEvents(link, self._handlers, client_id, timeout)
        self._at_exit = AtExit(f"the connection to {link.address}", self.close)
        super().__init__(self._caller, self.events, Asker(self))

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        token: str | None = None,
        client_id: str | None = None,
        timeout: float | None = 30.0,
        heartbeat: float = 10.0,
        reconnect: Reconnect | None = None,
        first: Future[None] | None = None,
    ) -> Self:
        """Connect to a server; see `Runtime.connect`. Who cancels `first`, from any thread, ends it at once."""
        seconds = seconds_of(timeout)
        name = None if client_id is None else check_text("the client id", client_id)
        dialer = Dialer(websocket_address(url), check_token(token), _seconds(heartbeat))
        link = Link(dialer, reconnect or Reconnect(), first)
        try:
            link.first.result(seconds)
        except TimeoutError:
            why = link.failure
            link.close()
            raise ServerUnreachableError(f"no server within {timeout} s: {why}") from None
        except BaseException:
            link.close()
            raise
        return cls(link, name, seconds)

    @property
    def failure(self) -> ReenactError | None:
        """Why there is no connection at present; None when all is well.

        Unless it is an `AuthenticationError` or a `ProtocolError`, it is tried again, and again, until it is closed.
        """
        return self._link.failure

    def request(self, type: str, data: Mapping[str, object], timeout: float | None = 30) -> Envelope:  # noqa: A002
        """Have the server carry out a request of the command protocol; return its response.

        `data` has the parameters of the facade's method under their names; the result stands under `.data.result`.
        `timeout` is in seconds. With a `request_id` of its own in the data, a request that is made again, also by
        another client or after a crash, is not carried out a second time.

        Raises:
            UnknownCommandError: there is no such request; see `reenact.events.REQUESTS`.
            InvalidInputError: the data does not fit it.
            RequestTimeoutError: no answer came in time; what was asked for may still happen.
            ReenactError: what the facade's method raises.
        """
        return self._caller.request(type, data, timeout)

    def close(self, timeout: float | None = None) -> None:
        """Acknowledge what is dealt with, end the subscriptions and the connection. Idempotent.

        The server goes on. Handlers hear what has come before this returns. After `timeout` seconds it returns in any
        case, and logs a warning that names what has not ended and is left behind.
        """
        if timeout is not None:
            self._at_exit.close_within(timeout)
            return
        self._link.close()
        self._handlers.close()
        self._at_exit.closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _seconds(heartbeat: object) -> float:
    if isinstance(heartbeat, int | float) and not isinstance(heartbeat, bool) and 0 < heartbeat < math.inf:
        return heartbeat
    raise ConfigurationError(f"heartbeat is a number of seconds above 0, not {heartbeat!r}")
