"""Runs hosts on Ray: runtimes on one log in PostgreSQL, each behind a server; Ray decides where they run.

Needs `reenact[ray]`, here and on the nodes of the cluster.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING

from reenact._ray import NAME, NAMESPACE, Actor, actors_of, check_name, load_ray
from reenact.domain.errors import ConfigurationError, LogUnreachableError

if TYPE_CHECKING:
    from reenact._runtime import Runtime

ENDED_WITHIN = 60.0
"""Seconds in which a host must end its turns and hand over its shards."""
PAUSE = 1.0
"""Seconds between two attempts to open a log that cannot be reached."""
_log = logging.getLogger("reenact.ray")


def start(
    open_runtime: Callable[[], Runtime],
    nodes: int,
    *,
    name: str = NAME,
    options: Mapping[str, object] | None = None,
) -> None:
    """Start `nodes` hosts on Ray, which restarts a host when it or its machine fails; return when they serve.

    Running hosts of this name are replaced one after the other: each ends when a new one serves. So new code and other
    settings are deployed without a pause. This program must be connected to the cluster, with `ray.init`.
    `Runtime.connect("ray://head:10001")` connects to the hosts, or `ray://head:10001/name` to those of a name.

    Args:
        open_runtime: returns the runtime of a host, in the process of that host: `Runtime.open("postgresql://…", …)`.
        nodes: how many hosts; Ray spreads them over its nodes.
        name: distinguishes the hosts of several logs on the same cluster.
        options: Ray's options for each host, as for `ActorClass.options`: `{"num_cpus": 2, "resources": …}`.

    Raises:
        ConfigurationError: this program is not connected to Ray, or the name or the number of hosts is not valid.
        MissingExtraError: the extra `ray` is not installed.
    """
    if nodes < 1:
        raise ConfigurationError(f"a log has 1 host or more, not {nodes}")
    ray = _connected(name)
    old = actors_of(ray, name)
    token = secrets.token_urlsafe()
    for _ in range(nodes):
        host = _begin(ray, open_runtime, token, name, options or {})
        try:
            ray.get(host.place.remote())
        except BaseException:
            ray.kill(host)
            raise
        if old:
            _end(ray, old.pop())
    for host in old:
        _end(ray, host)


def stop(*, name: str = NAME) -> None:
    """Stop the hosts of this name, one after the other. Running turns end as interrupted; the log stays.

    Raises:
        ConfigurationError: this program is not connected to Ray.
        MissingExtraError: the extra `ray` is not installed.
    """
    ray = _connected(name)
    for host in actors_of(ray, name):
        _end(ray, host)


class Host:
    """The Ray actor: a runtime and its server, in a process of its own."""

    def __init__(self, open_runtime: Callable[[], Runtime], token: str) -> None:
        """Open the runtime and serve it; wait while the database cannot be reached, since Ray would not try again."""
        from reenact.server import Server  # noqa: PLC0415 - needed only in the host

        self._token = token
        self._runtime = _opened(open_runtime)
        try:
            address: str = load_ray().util.get_node_ip_address()
            self._server = Server(self._runtime, address, tokens=[token]).start()
        except BaseException:
            self._runtime.close()
            raise

    def place(self) -> tuple[str, str]:
        """Return the URL of the server, and its token."""
        return self._server.url, self._token

    def close(self) -> None:
        """Stop the server and close the runtime."""
        self._server.stop()
        self._runtime.close()


def _opened(open_runtime: Callable[[], Runtime]) -> Runtime:
    while True:
        try:
            return open_runtime()
        except LogUnreachableError as error:
            _log.warning("%s; trying again", error)
            time.sleep(PAUSE)


def _connected(name: str) -> ModuleType:
    ray = load_ray()
    if not ray.is_initialized():
        raise ConfigurationError("connect to Ray first, by `ray.init(…)`: hosts are to outlive this program")
    check_name(name)
    return ray


def _begin(
    ray: ModuleType, open_runtime: Callable[[], Runtime], token: str, name: str, options: Mapping[str, object]
) -> Actor:
    given: dict[str, object] = {
        "scheduling_strategy": "SPREAD",
        **options,
        "name": f"{name}/{secrets.token_hex(4)}",
        "namespace": NAMESPACE,
        "lifetime": "detached",
        "max_restarts": -1,
    }
    host: Actor = ray.remote(Host).options(**given).remote(open_runtime, token)
    return host


def _end(ray: ModuleType, host: Actor) -> None:
    try:
        ray.get(host.close.remote(), timeout=ENDED_WITHIN)
    except ray.exceptions.RayError as error:  # other hosts take over its shards
        _log.warning("a host is ended by force: %s", error)
    ray.kill(host)
