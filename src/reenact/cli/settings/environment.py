"""What environment variables say, the folders that follow from them, and the version."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Final

CI_SERVICES: Final[Mapping[str, str]] = {
    "AC_APPCIRCLE": "Appcircle",
    "AGOLA_GIT_REF": "Agola",
    "ALPIC_HOST": "Alpic",
    "APPCENTER_BUILD_ID": "Visual Studio App Center",
    "APPVEYOR": "AppVeyor",
    "bamboo_planKey": "Bamboo",
    "BITBUCKET_BUILD_NUMBER": "Bitbucket Pipelines",
    "BITBUCKET_COMMIT": "Bitbucket Pipelines",
    "BITRISE_IO": "Bitrise",
    "BUDDY_WORKSPACE_ID": "Buddy",
    "BUILDER_OUTPUT": "Google Cloud Build",
    "BUILDKITE": "Buildkite",
    "CF_BUILD_ID": "Codefresh",
    "CF_PAGES": "Cloudflare Pages",
    "CI": "any service",
    "CI_NAME": "Codeship, Sourcehut",
    "CI_XCODE_PROJECT": "Xcode Cloud",
    "CIRCLECI": "CircleCI",
    "CIRRUS_CI": "Cirrus CI",
    "CM_BUILD_ID": "Codemagic",
    "CODEBUILD_BUILD_ARN": "AWS CodeBuild",
    "CODEBUILD_BUILD_ID": "AWS CodeBuild",
    "CONTINUOUS_INTEGRATION": "any service",
    "DRONE": "Drone",
    "DSARI": "dsari",
    "EARTHLY_CI": "Earthly",
    "EAS_BUILD": "Expo",
    "GERRIT_PROJECT": "Gerrit",
    "GITEA_ACTIONS": "Gitea Actions",
    "GITHUB_ACTIONS": "GitHub Actions",
    "GITLAB_CI": "GitLab CI",
    "GO_PIPELINE_LABEL": "GoCD",
    "HARNESS_BUILD_ID": "Harness",
    "HUDSON_URL": "Hudson",
    "JENKINS_URL": "Jenkins",
    "LAYERCI": "LayerCI",
    "MAGNUM": "Magnum CI",
    "NETLIFY": "Netlify",
    "NEVERCODE": "Nevercode",
    "NOW_BUILDER": "Vercel",
    "PROW_JOB_ID": "Prow",
    "RELEASE_BUILD_ID": "ReleaseHub",
    "RENDER": "Render",
    "SAILCI": "Sail CI",
    "SCREWDRIVER": "Screwdriver",
    "SEMAPHORE": "Semaphore",
    "STRIDER": "Strider",
    "TEAMCITY_VERSION": "TeamCity",
    "TF_BUILD": "Azure Pipelines",
    "TRAVIS": "Travis CI",
    "VELA": "Vela",
    "VERCEL": "Vercel",
    "WORKERS_CI": "Cloudflare Workers",
    "XCS": "Xcode Server",
}
"""The variables by which services say that a build runs."""
_TASKCLUSTER: Final = frozenset({"TASK_ID", "RUN_ID"})
"""Both are set there; the first run is number 0."""

_DUMB: Final = frozenset({"", "dumb", "unknown"})
SETTINGS: Final = Path(".reenact", "settings.json")
"""Where settings are, from a home or a project on."""

_NOBODYS_HOME: Final = Path("/nonexistent")


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


def state_directory(environ: Mapping[str, str]) -> Path:
    """Return where the history of the line editor is, the log of what nobody expected, and what is trusted."""
    return _base(environ, "XDG_STATE_HOME", ".local/state")


def home_directory(environ: Mapping[str, str]) -> Path:
    """Return the user's home: `HOME`, or what the system has if that is no absolute path.

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


def preferred_database(environ: Mapping[str, str]) -> str | None:
    """Return the log that the user's settings name, if no variable names another; None if they name none.

    Raises:
        ConfigurationError: the user's settings are not as they should be.
    """
    if given(environ, "REENACT_DB") is not None or not os.path.lexists(settings_files(environ)[0]):
        return None
    from reenact.cli.settings.preferences import database_of_user  # noqa: PLC0415 - where there are none, nobody waits for it

    return database_of_user(environ)


def given(environ: Mapping[str, str], name: str) -> str | None:
    """Return the variable; None if it is blank."""
    return environ.get(name, "").strip() or None


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
