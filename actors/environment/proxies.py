"""Proxies: an environment around another one, and a consumer around another one."""

from __future__ import annotations

from collections.abc import Callable

from reenact.actors.environment.api import (
    ChecksTools,
    Effector,
    Environment,
    Handler,
    Receptor,
    SystemBusConsumer,
    Unsubscribe,
)


class EnvironmentProxy:
    """Another environment, with these ways in and out in the place of its own."""

    def __init__(self, environment: Environment, receptor: Receptor, effector: Effector) -> None:
        self._environment = environment
        self.name = environment.name
        self.receptor = receptor
        self.effector = effector

    def check_tool(self, name: str) -> None:
        """Raise `ToolUnavailableError` if the other environment does."""
        if isinstance(self._environment, ChecksTools):
            self._environment.check_tool(name)

    def dispose(self) -> None:
        """Dispose of the other environment. Idempotent."""
        self._environment.dispose()


class ConsumerProxy:
    """Another consumer, whose handlers are those that `wrap` returns for them."""

    def __init__(self, consumer: SystemBusConsumer, wrap: Callable[[Handler], Handler]) -> None:
        self._consumer = consumer
        self._wrap = wrap
        self.request = consumer.request
        self.conversation = consumer.conversation
        self.must_compress = consumer.must_compress

    def on(self, type: str, handler: Handler) -> Unsubscribe:  # noqa: A002 - the word users know it by
        """Call the handler with each event of the type, as it is wrapped."""
        return self._consumer.on(type, self._wrap(handler))

    def on_all(self, handler: Handler) -> Unsubscribe:
        """Call the handler with every event, as it is wrapped."""
        return self._consumer.on_all(self._wrap(handler))
