"""Access to Ray. As a program, `python -m reenact._ray HOST:PORT NAME`, it prints the addresses of hosts."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import re
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol

import msgspec

from reenact.domain.errors import ConfigurationError, needing_extra

NAMESPACE = "reenact"
"""Ray's namespace for the actors that are hosts; their names in it are `NAME/ID`."""
NAME = "reenact"
"""The default name of hosts."""
ANSWERED_WITHIN = 2.0
"""Seconds in which a host must return its address; one that is stopping or starting is left out."""
_NAME = re.compile(r"[\w.-]+", re.ASCII)


class Found(msgspec.Struct, frozen=True):
    """The program's output: the address and token of each host, or the reason for a failure."""

    hosts: tuple[tuple[str, str], ...] = ()
    failure: str | None = None


class Method(Protocol):
    """A method of a Ray actor."""

    def remote(self) -> object:
        """Call it, and return the reference that `ray.get` takes."""
        ...


class Actor(Protocol):
    """The handle of a host."""

    place: Method
    close: Method


def check_name(name: str) -> str:
    """Return the name, or raise `ConfigurationError` if it is not valid for hosts."""
    if _NAME.fullmatch(name):
        return name
    raise ConfigurationError(f"the name of hosts must consist of letters, digits, `_`, `-` and `.`, not {name!r:.200}")


def require_ray() -> None:
    """Raise `MissingExtraError` if Ray, or a package that its client needs, is not installed; neither is imported."""
    with needing_extra("ray", "what Ray runs"):
        for package in ("ray", "grpc"):
            if importlib.util.find_spec(package) is None:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def load_ray() -> ModuleType:
    """Return the module `ray`. It is imported by name, because it is not installed where types are checked.

    Raises:
        MissingExtraError: it is not installed.
    """
    require_ray()
    return importlib.import_module("ray")


def actors_of(ray: ModuleType, name: str) -> list[Actor]:
    """Return the actors that are hosts of this name."""
    named: list[dict[str, str]] = ray.util.list_named_actors(all_namespaces=True)
    actors: list[Actor] = []
    for each in named:
        if each["namespace"] == NAMESPACE and each["name"].startswith(f"{name}/"):
            with contextlib.suppress(ValueError):  # it has ended meanwhile
                actors.append(ray.get_actor(each["name"], namespace=NAMESPACE))
    return actors


def main(arguments: Sequence[str]) -> None:
    """Print the hosts of a name, as JSON."""
    address, name = arguments
    try:
        found = Found(hosts=tuple(_ask(load_ray(), address, name)))
    except Exception as error:  # noqa: BLE001 - reported to the calling program
        said = str(error).strip().splitlines() or [type(error).__name__]
        found = Found(failure=f"Ray says: {said[0]}")
    sys.stdout.write(msgspec.json.encode(found).decode())


def _ask(ray: ModuleType, address: str, name: str) -> list[tuple[str, str]]:
    ray.init(f"ray://{address}", namespace=NAMESPACE, log_to_driver=False)
    asked = [actor.place.remote() for actor in actors_of(ray, name)]
    if not asked:
        return []
    answered, _ = ray.wait(asked, num_returns=len(asked), timeout=ANSWERED_WITHIN)
    hosts: list[tuple[str, str]] = []
    for answer in answered:
        with contextlib.suppress(ray.exceptions.RayError):  # it has ended meanwhile
            hosts.append(ray.get(answer))
    return hosts


if __name__ == "__main__":
    main(sys.argv[1:])
