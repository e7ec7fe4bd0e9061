"""Which version this is."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version of the package that is installed."""
    try:
        return metadata.version("reenact")
    except metadata.PackageNotFoundError:  # nothing is installed that would know
        return "from a checkout"
