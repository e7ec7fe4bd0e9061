"""The log that the user's settings name."""

from __future__ import annotations

import os
from collections.abc import Mapping

from reenact.cli.settings.environment import home_directory, read_variable, settings_files


def preferred_database(environ: Mapping[str, str]) -> str | None:
    """Return the log that the user's settings name, unless `REENACT_DB` is set; None if they name none.

    Raises:
        ConfigurationError: the user's settings file is invalid.
    """
    user, _ = settings_files(environ)
    if read_variable(environ, "REENACT_DB") is not None or not os.path.lexists(user):
        return None
    from reenact.cli.settings.files import read_file  # noqa: PLC0415 - not imported without settings

    settings, _ = read_file(user, "user", home=home_directory(environ))
    return str(settings["db"].value) if "db" in settings else None
