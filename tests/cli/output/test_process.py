"""The command as its users start it: in a process of its own, in a pipe, in a build, and quickly."""

from __future__ import annotations

import subprocess
from importlib import metadata
from pathlib import Path

import pytest

from reenact.cli.settings.environment import CI_SERVICES, in_ci, is_on
from tests.cli.conftest import Run

SERVICES = {
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


def test_json_is_utf_8_whatever_the_locale_is(start: Run) -> None:
    done = start("--output-format", "json", "--resume", "sés", "-p", "x", PYTHONIOENCODING="ascii")

    assert "sés" in done.result["error"]["message"]


def test_a_pipe_that_is_closed_ends_the_command_quietly(
    command: list[str], environ: dict[str, str], tmp_path: Path
) -> None:
    with subprocess.Popen(
        [*command, "-p", "x", "--output-format", "stream-json"],
        env={**environ, "MOCK_SCENARIO": "long-stream"},
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        errors = process.stderr.read().decode()
        code = process.wait(60)

    assert code == 141
    assert "Broken" not in errors
    assert "Exception" not in errors


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("log", "--help")])
def test_help_does_not_wait_for_what_it_does_not_need(
    command: list[str], environ: dict[str, str], arguments: tuple[str, ...]
) -> None:
    heavy = {"anthropic", "prompt_toolkit", "pydantic", "pykka", "rich", "sqlalchemy"}
    loaded = [command[0], "-P", "-X", "importtime", *command[2:], *arguments]

    done = subprocess.run(loaded, capture_output=True, text=True, env=environ, check=True, timeout=60)

    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert done.stdout
    assert imported & heavy == set()
    assert "typer" in imported, "the list of what is imported must be one"


def test_help_names_every_option_and_the_exit_codes(run: Run) -> None:
    shown = run("--help").out

    for word in ("--continue", "--resume", "--output-format", "--timeout", "--db", "log", "sessions", "5 --timeout"):
        assert word in shown


def test_the_version_is_said(run: Run) -> None:
    done = run("--version")

    assert (done.code, done.out.partition(" ")[0]) == (0, "reenact")


def test_a_checkout_that_is_not_installed_has_no_version(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def not_found(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", not_found)

    assert run("--version").out == "reenact from a checkout\n"


@pytest.mark.parametrize("value", ["", " ", "0", "false", "False"])
def test_a_variable_may_say_that_it_is_off(value: str) -> None:
    assert not is_on(value)
    assert not in_ci({"CI": value, "JENKINS_URL": value})


@pytest.mark.parametrize("name", ["CI", "GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "CIRRUS_CI", "bamboo_planKey"])
def test_requirement_9_1_a_build_is_recognised(name: str) -> None:
    assert in_ci({name: "https://jenkins.example"})


def test_a_task_of_taskcluster_is_recognised_by_two_variables_of_which_one_may_be_0() -> None:
    assert in_ci({"TASK_ID": "fN1SbArXTPSVFNUvaOlinQ", "RUN_ID": "0"})
    assert not in_ci({"RUN_ID": "7"})


def test_the_page_names_every_service_that_is_recognised() -> None:
    page = " ".join(Path("docs/command-line.md").read_text(encoding="utf-8").split())
    assert SERVICES.keys() == CI_SERVICES
    services = {name for names in SERVICES.values() for name in names.split(", ")} - {"any service"}

    assert len(services) > 45
    assert [name for name in services if name not in page] == []
