"""Ray, as far as it is used here. As a program, `python -m reenact._ray HOST:PORT NAME`, it prints where hosts are."""

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
"""The name of hosts that were given none."""
ANSWERED_WITHIN = 2.0
"""Seconds in which a host says where it is; one that is stopped or about to start is left out."""
_NAME = re.compile(r"[\w.-]+", re.ASCII)


class Found(msgspec.Struct, frozen=True):
    """What the program prints: where hosts are and the token of each, or why it could not look."""

    hosts: tuple[tuple[str, str], ...] = ()
    failure: str | None = None


class Method(Protocol):
    """A method of an actor of Ray's."""

    def remote(self) -> object:
        """Call it, and return what `ray.get` takes."""
        ...


class Actor(Protocol):
    """The handle of a host."""

    place: Method
    close: Method


def check_name(name: str) -> str:
    """Return the name, or raise `ConfigurationError` if hosts cannot have it."""
    if _NAME.fullmatch(name):
        return name
    raise ConfigurationError(f"the name of hosts is of letters, digits, `_`, `-` and `.`, not {name!r:.200}")


def require_ray() -> None:
    """Raise `MissingExtraError` if Ray, or what its client needs, is not installed; neither is loaded."""
    with needing_extra("ray", "what Ray runs"):
        for package in ("ray", "grpc"):
            if importlib.util.find_spec(package) is None:
                raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def load_ray() -> ModuleType:
    """Return Ray. By its name: it is not there when the types are checked.

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
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told to who began this program
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
