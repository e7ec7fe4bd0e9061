"""Finds the hosts that Ray runs, for a client that is given the address of the head node."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from reenact._ray import NAME, Found, check_name, require_ray
from reenact.client.dialing import ServerAddress, websocket_address
from reenact.domain.errors import ConfigurationError, ServerUnreachableError

SCHEME = "ray://"
PORT = 10001
"""The default port for Ray clients."""
FOUND_WITHIN = 30.0
"""Seconds that finding hosts may take."""


@dataclass(frozen=True)
class RayHosts:
    """The hosts of a name on a Ray cluster, whose head node has this address."""

    address: str
    name: str

    @classmethod
    def at(cls, url: str) -> RayHosts:
        """Return the hosts at `ray://host:port/name`; port and name are optional.

        Raises:
            ConfigurationError: the address is not valid.
            MissingExtraError: Ray is not installed.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port or PORT
        except ValueError as error:
            raise ConfigurationError(f"{url!r:.200} is not an address of a Ray cluster: {error}") from None
        if not host or parts.username is not None or parts.query or parts.fragment:
            raise ConfigurationError(f"{url!r:.200} is not an address of a Ray cluster; one is ray://host:{PORT}")
        name = check_name(parts.path.strip("/") or NAME)
        require_ray()
        return cls(f"[{host}]:{port}" if ":" in host else f"{host}:{port}", name)

    def __str__(self) -> str:
        return f"{SCHEME}{self.address}/{self.name}"

    async def find(self) -> tuple[ServerAddress, ...]:
        """Return the addresses of the hosts.

        A separate program asks Ray: a Ray client is one for a whole process, which it changes for good, and which may
        be connected to a cluster already.

        Raises:
            ServerUnreachableError: Ray cannot be reached, or no host answers.
        """
        program = await asyncio.create_subprocess_exec(
            sys.executable,
            *("-P", "-m", "reenact._ray", self.address, self.name),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        try:
            async with asyncio.timeout(FOUND_WITHIN):
                printed, _ = await program.communicate()
        except TimeoutError:
            raise self._unreachable(f"Ray has not answered within {FOUND_WITHIN:g} s") from None
        finally:
            with contextlib.suppress(ProcessLookupError):
                program.kill()
            await program.wait()
        try:
            found = msgspec.json.decode(printed, type=Found)
        except msgspec.DecodeError:
            raise self._unreachable(f"looking for them ended with {program.returncode}") from None
        if found.failure is not None:
            raise self._unreachable(found.failure)
        if not found.hosts:
            raise self._unreachable("none answers; `reenact.ray.start` starts them")
        return tuple(ServerAddress(websocket_address(url), token) for url, token in found.hosts)

    def _unreachable(self, why: str) -> ServerUnreachableError:
        return ServerUnreachableError(f"the hosts at {self} cannot be found: {why}")
