"""What environment variables say, the folders that follow from them, and the version."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

CI_SERVICES = frozenset(
    {
        "AC_APPCIRCLE",
        "AGOLA_GIT_REF",
        "ALPIC_HOST",
        "APPCENTER_BUILD_ID",
        "APPVEYOR",
        "bamboo_planKey",
        "BITBUCKET_BUILD_NUMBER",
        "BITBUCKET_COMMIT",
        "BITRISE_IO",
        "BUDDY_WORKSPACE_ID",
        "BUILDER_OUTPUT",
        "BUILDKITE",
        "CF_BUILD_ID",
        "CF_PAGES",
        "CI",
        "CI_NAME",
        "CI_XCODE_PROJECT",
        "CIRCLECI",
        "CIRRUS_CI",
        "CM_BUILD_ID",
        "CODEBUILD_BUILD_ARN",
        "CODEBUILD_BUILD_ID",
        "CONTINUOUS_INTEGRATION",
        "DRONE",
        "DSARI",
        "EARTHLY_CI",
        "EAS_BUILD",
        "GERRIT_PROJECT",
        "GITEA_ACTIONS",
        "GITHUB_ACTIONS",
        "GITLAB_CI",
        "GO_PIPELINE_LABEL",
        "HARNESS_BUILD_ID",
        "HUDSON_URL",
        "JENKINS_URL",
        "LAYERCI",
        "MAGNUM",
        "NETLIFY",
        "NEVERCODE",
        "NOW_BUILDER",
        "PROW_JOB_ID",
        "RELEASE_BUILD_ID",
        "RENDER",
        "SAILCI",
        "SCREWDRIVER",
        "SEMAPHORE",
        "STRIDER",
        "TEAMCITY_VERSION",
        "TF_BUILD",
        "TRAVIS",
        "VELA",
        "VERCEL",
        "WORKERS_CI",
        "XCS",
    }
)
"""The variables by which services say that a build runs."""
_TASKCLUSTER = frozenset({"TASK_ID", "RUN_ID"})
"""Both are set there; the first run is number 0."""

_DUMB = frozenset({"", "dumb", "unknown"})
SETTINGS = Path(".reenact", "settings.json")
"""Where settings are, from a home or a project on."""

KEYS = "REENACT_KEYS"
"""The variable that names the key ring of the log."""
_VARIABLE = "env:"
"""What it begins with if it names a variable that holds the key ring."""

_NOBODYS_HOME = Path("/nonexistent")


def in_ci(environ: Mapping[str, str]) -> bool:
    """Return whether no person is there because a build runs."""
    return environ.keys() >= _TASKCLUSTER or any(is_on(environ.get(name)) for name in CI_SERVICES)


def is_on(value: str | None) -> bool:
    """Return whether a variable is set to something other than nothing, `0` and `false`."""
    return (value or "").strip().casefold() not in ("", "0", "false")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal understands no sequences, as far as `TERM` says."""
    return environ.get("TERM", "") in _DUMB


def default_database(environ: Mapping[str, str]) -> Path:
    """Return where the log is that no one has named: in the directory for the user's data."""
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "reenact.db"


def database_of(named: str | None, environ: Mapping[str, str]) -> str:
    """Return the log that is meant: the one that is named, that of the environment, or the default one."""
    return named or given(environ, "REENACT_DB") or str(default_database(environ))


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return where the history of the line editor is, the log of what nobody expected, and what is trusted."""
    return _base(environ, "XDG_STATE_HOME", ".local/state")


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's home: `HOME`, or what the system has if that is not an absolute path.

    A relative one would make another folder everybody's home, and what is in a project the user's own.
    """
    home = Path(environ.get("HOME", ""))
    if home.is_absolute():
        return home
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user whom the system does not know, as in a container
        return _NOBODYS_HOME


def settings_files(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return where the settings of the user and those of the project are, should there be any."""
    home = home_directory(environ)
    try:
        project = Path.cwd()
    except OSError:  # it is gone
        project = home
    return home / SETTINGS, project / SETTINGS


def has_settings(environ: Mapping[str, str]) -> bool:
    """Return whether there is anything where settings are; nothing is read."""
    return any(map(os.path.lexists, settings_files(environ)))


def given(environ: Mapping[str, str], name: str) -> str | None:
    """Return the variable; None if it is blank."""
    return environ.get(name, "").strip() or None


def ring_variable(environ: Mapping[str, str]) -> str | None:
    """Return the variable that holds the key ring of the log, None if none does."""
    named = given(environ, KEYS) or ""
    return named[len(_VARIABLE) :] if named.startswith(_VARIABLE) else None


def _base(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():  # the XDG specification: a relative path is to be ignored
        base = home_directory(environ) / otherwise
    return base / "reenact"


def version() -> str:
    """Return the version of the package that is installed."""
    try:
        return metadata.version("reenact")
    except metadata.PackageNotFoundError:  # nothing is installed that would know
        return "from a checkout"
