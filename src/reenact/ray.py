"""Has Ray run hosts: runtimes on one log in PostgreSQL, each behind a server, where and with what Ray says.

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
"""Seconds in which a host ends its turns and gives its shards to others."""
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
    """Have Ray run so many hosts, and start each again when it or its machine is gone; return when they serve.

    Hosts of this name that run already are replaced, one after the other: each ends when a new one serves. So new code
    and other settings come in without a pause. `ray.init` has connected this program to the cluster before.
    `Runtime.connect("ray://head:10001")` reaches the hosts, or `ray://head:10001/name` those of a name.

    Args:
        open_runtime: returns the runtime of a host, in the process of that host: `Runtime.open("postgresql://…", …)`.
        nodes: how many hosts; Ray spreads them over its nodes.
        name: tells hosts on one log from those on another one on the same cluster.
        options: what Ray is told about each host, as to `ActorClass.options`: `{"num_cpus": 2, "resources": …}`.

    Raises:
        ConfigurationError: this program is not connected to Ray, or hosts cannot have that name or number.
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
    """End the hosts of this name, one after the other. Turns that run end as interrupted; the log stays.

    Raises:
        ConfigurationError: this program is not connected to Ray.
        MissingExtraError: the extra `ray` is not installed.
    """
    ray = _connected(name)
    for host in actors_of(ray, name):
        _end(ray, host)


class Host:
    """The actor: a runtime and its server, in a process of Ray's."""

    def __init__(self, open_runtime: Callable[[], Runtime], token: str) -> None:
        """Open the runtime and serve it; wait for a database that cannot be reached, for Ray starts no second time."""
        from reenact.server import Server  # noqa: PLC0415 - in the host alone

        self._token = token
        self._runtime = _opened(open_runtime)
        try:
            address: str = load_ray().util.get_node_ip_address()
            self._server = Server(self._runtime, address, tokens=[token]).start()
        except BaseException:
            self._runtime.close()
            raise

    def place(self) -> tuple[str, str]:
        """Return the URL of the server, and the token that opens it."""
        return self._server.url, self._token

    def close(self) -> None:
        """End well."""
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
    except ray.exceptions.RayError as error:  # others take its shards
        _log.warning("a host is ended by force: %s", error)
    ray.kill(host)
