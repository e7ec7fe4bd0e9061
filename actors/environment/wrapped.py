"""An environment around another one: what goes in, or out, is seen on its way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from reenact.actors.environment.api import (
    ChecksTools,
    Effector,
    Environment,
    Handler,
    Receptor,
    SystemBusConsumer,
    Unsubscribe,
)
from reenact.domain.events import Envelope
from reenact.domain.messages import Said


class WrappedEnvironment:
    """Another environment, with these ways in and out in the place of its own."""

    def __init__(self, environment: Environment, receptor: Receptor, effector: Effector) -> None:
        self._environment = environment
        self._receptor = receptor
        self._effector = effector

    @property
    def name(self) -> str:
        """What kind of environment the other one is."""
        return self._environment.name

    @property
    def receptor(self) -> Receptor:
        """The way in."""
        return self._receptor

    @property
    def effector(self) -> Effector:
        """The way out."""
        return self._effector

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if the other environment does."""
        if isinstance(self._environment, ChecksTools):
            self._environment.check_tool(name)

    def dispose(self) -> None:
        """Dispose of the other environment. Idempotent."""
        self._environment.dispose()


class WrappedConsumer:
    """Another consumer, whose handlers are those that `wrap` returns for them."""

    def __init__(self, consumer: SystemBusConsumer, wrap: Callable[[Handler], Handler]) -> None:
        self._consumer = consumer
        self._wrap = wrap

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type, as it is wrapped."""
        return self._consumer.on(type, self._wrap(handler))

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the handler with every event, as it is wrapped."""
        return self._consumer.on_all(self._wrap(handler))

    def request(self, type: str, data: Mapping[str, Any], timeout: float = 30) -> Envelope:  # noqa: A002 - likewise
        """Send a request of the command protocol and return its response."""
        return self._consumer.request(type, data, timeout)

    def conversation(self) -> Sequence[Said]:
        """Return what was said."""
        return self._consumer.conversation()

    def must_compress(self) -> bool:
        """Return whether the conversation is to be summarised before the model is asked."""
        return self._consumer.must_compress()
