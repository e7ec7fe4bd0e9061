"""The check that the PostgreSQL driver, an optional dependency, is installed."""

from __future__ import annotations

from importlib import import_module

from reenact.domain.errors import needing_extra


def require_driver() -> None:
    """Check that the driver can be imported.

    Raises:
        MissingExtraError: it is not installed, or lacks a dependency of its own.
    """
    with needing_extra("postgresql", "a log in PostgreSQL"):
        import_module("psycopg")
