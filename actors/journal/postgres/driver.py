"""The driver: an optional dependency, imported by whoever has a log in PostgreSQL."""

from __future__ import annotations

from importlib import import_module

from reenact.domain.errors import needing_extra


def require_driver() -> None:
    """See that the driver can be imported.

    Raises:
        MissingExtraError: it is not installed, or does not find what it needs itself.
    """
    with needing_extra("postgresql", "a log in PostgreSQL"):
        import_module("psycopg")
