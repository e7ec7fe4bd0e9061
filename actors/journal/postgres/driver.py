"""The driver: an optional dependency, imported by whoever has a log in PostgreSQL."""

from __future__ import annotations

from importlib import import_module

from reenact.domain.errors import ConfigurationError


def require_driver() -> None:
    """See that the driver can be imported.

    Raises:
        ConfigurationError: it is not installed, or does not find what it needs itself.
    """
    try:
        import_module("psycopg")
    except ImportError as error:
        message = f"a log in PostgreSQL needs the driver psycopg ({error}): pip install 'reenact[postgresql]'"
        raise ConfigurationError(message) from error
