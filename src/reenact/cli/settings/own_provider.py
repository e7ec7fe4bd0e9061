"""Imports the provider that `--provider MODULE:NAME` names."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

from reenact.actors.environment.api import LLMProvider
from reenact.cli.settings.configuration import what_happened
from reenact.domain.errors import ConfigurationError


def own_provider(place: str) -> LLMProvider:
    """Import the provider that `MODULE:NAME` names: an object, or a callable without arguments that creates it.

    Raises:
        ConfigurationError: it cannot be imported or created, or is not a provider; the message names file and line.
    """
    where, _, name = place.partition(":")
    who = f"--provider {place}"
    module = _attempt(who, where, lambda: importlib.import_module(where))
    if not hasattr(module, name):
        raise ConfigurationError(f"{who}: {where} has no {name!r}")
    found: object = getattr(module, name)
    if callable(found) and (isinstance(found, type) or not isinstance(found, LLMProvider)):
        found = _attempt(who, where, found)
    if not isinstance(found, LLMProvider):
        raise ConfigurationError(
            f"{who}: it is not a provider, which has a `name`, and a `provide` that returns a driver"
        )
    return found


def _attempt(who: str, where: str, act: Callable[[], object]) -> object:
    try:
        return act()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{where}.".startswith(f"{error.name}."):
            raise ConfigurationError(f"{who}: {what_happened(error, _file_of(where))}") from error
        raise ConfigurationError(
            f"{who}: there is no module {error.name!r}: it must be installed, or in a folder of PYTHONPATH; "
            "the current folder does not count"
        ) from error
    except (Exception, SystemExit) as error:  # the module may raise anything
        raise ConfigurationError(f"{who}: {what_happened(error, _file_of(where))}") from error


def _file_of(module: str) -> Path:
    return Path(f"{module.rpartition('.')[2]}.py")
