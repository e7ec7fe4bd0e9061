"""A TCP proxy before a server: it can hold back what travels, as a network that is cut does, or end it."""

from __future__ import annotations

import selectors
import socket
import threading
from pathlib import Path
from typing import Self

from psycopg.conninfo import conninfo_to_dict

from reenact.actors.journal.postgres.address import address_of


class Proxy:
    """Carries bytes between connections to a port of its own and the server's socket, on one thread."""

    def __init__(self, server_url: str) -> None:
        self._target = str(Path(str(conninfo_to_dict(server_url)["host"]), ".s.PGSQL.5432"))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._may_go_on = threading.Event()
        self._may_go_on.set()
        self._ends, self._ended = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.go_on()
        self._ended.close()
        self._thread.join()

    def url(self, log: str) -> str:
        """Return the URL of a log, by way of this."""
        port = self._listener.getsockname()[1]
        return f"postgresql://postgres@127.0.0.1:{port}/postgres?schema={address_of(log).schema}"

    def hold(self) -> None:
        """Carry nothing more, and tell nobody."""
        self._may_go_on.clear()

    def go_on(self) -> None:
        self._may_go_on.set()

    def cut(self) -> None:
        """End the connections that there are, in the middle of whatever they carry; new ones may come."""
        self._ended.send(b"cut")

    def _run(self) -> None:
        others: dict[socket.socket, socket.socket] = {}
        with selectors.DefaultSelector() as selector:
            selector.register(self._listener, selectors.EVENT_READ)
            selector.register(self._ends, selectors.EVENT_READ)
            while True:
                ready = [key.fileobj for key, _ in selector.select()]
                self._may_go_on.wait()
                if self._ends in ready:
                    if not self._ends.recv(64):
                        break
                    for end in others:
                        selector.unregister(end)
                        end.close()
                    others.clear()
                    continue  # what was ready is gone, or will be so again
                for one in ready:
                    assert isinstance(one, socket.socket)
                    if one is self._listener:
                        client, server = one.accept()[0], socket.socket(socket.AF_UNIX)
                        try:
                            server.connect(self._target)
                        except OSError:  # it is not there at present
                            client.close()
                            server.close()
                            continue
                        others |= {client: server, server: client}
                        selector.register(client, selectors.EVENT_READ)
                        selector.register(server, selectors.EVENT_READ)
                    elif one in others and not _carry(one, others[one]):
                        for end in (one, others.pop(one)):
                            others.pop(end, None)
                            selector.unregister(end)
                            end.close()
        for end in (*others, self._listener, self._ends):
            end.close()


def _carry(source: socket.socket, target: socket.socket) -> bool:
    """Carry what has come; return whether more may come."""
    try:
        data = source.recv(65536)
        target.sendall(data)
    except OSError:
        return False
    return bool(data)
