"""The version of the installed package."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Return the version, or "from a checkout" if the package comes without metadata, as in a zip file."""
    try:
        return metadata.version("reenact")
    except metadata.PackageNotFoundError:
        return "from a checkout"
