"""Reads environment variables, the folders that depend on them, and the version."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
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
"""Variables that CI services set in a build."""
_TASKCLUSTER = frozenset({"TASK_ID", "RUN_ID"})
"""Taskcluster sets both; the first run has the number 0."""

_DUMB = frozenset({"", "dumb", "unknown"})
SETTINGS = Path(".reenact", "settings.json")
"""Path of the settings file, relative to the home directory or a project."""

KEYS = "REENACT_KEYS"
"""The variable that names the key ring of the log."""
_VARIABLE = "env:"
"""Prefix of a value that names the variable holding the key ring."""

_NOBODYS_HOME = Path("/nonexistent")


def in_ci(environ: Mapping[str, str]) -> bool:
    """Return whether the command runs in a CI build, without a person."""
    return environ.keys() >= _TASKCLUSTER or any(is_on(environ.get(name)) for name in CI_SERVICES)


def is_on(value: str | None) -> bool:
    """Return whether a variable has a value other than blank, `0` and `false`."""
    return (value or "").strip().casefold() not in ("", "0", "false")


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Return whether `TERM` names a terminal that supports no escape sequences."""
    return environ.get("TERM", "") in _DUMB


def default_database(environ: Mapping[str, str]) -> Path:
    """Return the default path of the log, in the directory for the user's data."""
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "reenact.db"


def database_of(named: str | None, environ: Mapping[str, str]) -> str:
    """Return the named log, or else that of the environment, or else the default one."""
    return named or read_variable(environ, "REENACT_DB") or str(default_database(environ))


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return the folder of the editor's history, the log of unexpected errors, and the trusted projects."""
    return _base(environ, "XDG_STATE_HOME", ".local/state")


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's home directory: `HOME`, or that of the system's user database if `HOME` is not absolute.

    With a relative one, settings in a project could count as the user's own.
    """
    home = Path(environ.get("HOME", ""))
    if home.is_absolute():
        return home
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # the system does not know the user, as in some containers
        return _NOBODYS_HOME


def project_directory(environ: Mapping[str, str]) -> Path:
    """Return the project's directory: the current one, or the user's home directory if that has been deleted."""
    try:
        return Path.cwd()
    except OSError:
        return home_directory(environ)


def settings_files(environ: Mapping[str, str]) -> tuple[Path, Path]:
    """Return the paths of the settings files of the user and of the project, which need not exist."""
    return home_directory(environ) / SETTINGS, project_directory(environ) / SETTINGS


def has_settings(environ: Mapping[str, str]) -> bool:
    """Return whether a settings file exists, without reading it."""
    return any(map(os.path.lexists, settings_files(environ)))


def read_variable(environ: Mapping[str, str], name: str) -> str | None:
    """Return the value of the variable; None if it is blank."""
    return environ.get(name, "").strip() or None


def ring_variable(environ: Mapping[str, str]) -> str | None:
    """Return the name of the variable that holds the key ring of the log; None if none does."""
    named = read_variable(environ, KEYS) or ""
    return named[len(_VARIABLE) :] if named.startswith(_VARIABLE) else None


def _base(environ: Mapping[str, str], variable: str, otherwise: str) -> Path:
    base = Path(environ.get(variable, ""))
    if not base.is_absolute():  # the XDG specification says to ignore a relative path
        base = home_directory(environ) / otherwise
    return base / "reenact"
