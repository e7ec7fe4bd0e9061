"""Serves the inspector of one log by itself, on loopback, until it is stopped."""

from __future__ import annotations

from reenact.actors.api.asking import Asking
from reenact.domain.errors import ConfigurationError
from reenact.inspector.app import create_app, new_token
from reenact.inspector.source import Source
from reenact.server.limits import Limits
from reenact.server.service import Access, Service, hosts_of, is_loopback
from reenact.server.serving import Listener, check_port


class Inspector(Listener):
    """The pages of a log at an address of this machine. `start` and `stop` it, or use it as a context manager."""

    def __init__(
        self, source: Source, host: str = "127.0.0.1", port: int = 0, *, owner: Asking | None = None, by: str = ""
    ) -> None:
        """Prepare to serve the source, which stays yours to close; port 0 takes any that is free.

        With the `owner`, the runtime that writes the log, here or behind a server, people may act, in the name `by`.

        Raises:
            ConfigurationError: the address is no loopback address, or none of this machine.
        """
        check_port(port)
        self.token = new_token()
        hosts = hosts_of(host, host, ())
        service = Service(source.served, Access((), (), hosts), Limits(), allow_programs=False)
        super().__init__(create_app(source, self.token, service=service, owner=owner, by=by), service, host, port)
        if not is_loopback(self._address):
            raise ConfigurationError(f"the inspector is for this machine alone, and {host} can be reached from others")

    @property
    def address(self) -> str:
        """The address that opens the pages; whoever has it may read the log."""
        return f"{self.url}/?token={self.token}"
