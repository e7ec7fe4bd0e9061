"""Run pykka's own tests with our actors in the place of its threading actors: `make conformance`.

The tests come from pykka's source distribution, in the version that constraints.txt names, and go with the temporary
directory that they are unpacked in. The exit code is 0 if all pass but for the known differences, 1 if anything else
is found, and 2 if the distribution cannot be had. This module is also the pytest plugin that exchanges the actors.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pykka
import pytest

from reenact.actors.kernel import EventLoopActor, PooledActor, PooledFuture
from reenact.actors.kernel.pool import default_pool

ROOT: Final = Path(__file__).resolve().parent.parent
PASSED, UNEXPECTED, NOT_TO_BE_HAD = 0, 1, 2

SUITES: Final = {"4.5.0": "820fcc36046552b49d7eb61fe98088d1a29631cf3314e8ce4bc26aaead8dcd4f"}
"""The SHA-256 digest of the source distribution of each version of pykka that we have run."""

LONGEST: Final = 120
"""Seconds after which the suite is given up; it takes a few."""

REPORT: Final = "REENACT_CONFORMANCE_REPORT"
"""The environment variable that tells the plugin where to write the outcomes."""

KIND: Final = "REENACT_CONFORMANCE_ACTOR"
"""The environment variable that tells the plugin which of `ACTORS` stands in the place of pykka's."""

ACTORS: Final[Mapping[str, type[PooledActor]]] = {"pooled": PooledActor, "event loop": EventLoopActor}

# What pykka's tests need and the virtual environment does not have.
MOCKER: Final = "pytest-mock==3.17.0 --hash=sha256:1b82aa4b37137248bd687055e109723debeb07b489de1565297dc9589c5f2d6b"

_THREAD: Final = "our actors have no thread of their own that could bear a name or be a daemon"

KNOWN: Final[Mapping[str, str]] = {
    "tests/test_threading_actor.py::test_actor_thread_is_named_after_pykka_actor_class": _THREAD,
    "tests/test_threading_actor.py::test_actor_thread_is_not_daemonic_by_default": _THREAD,
    "tests/test_threading_actor.py::test_actor_thread_is_daemonic_if_use_daemon_thread_flag_is_set": _THREAD,
}
"""The tests that do not pass, with either kind of actor, and why that is meant. One that passes has no place here."""


class ConformanceError(Exception):
    """The suite could not be run as it is meant to be."""


class NotToBeHadError(Exception):
    """The package index does not give us what is to be run."""


@dataclass(frozen=True)
class Outcome:
    """How a test ended."""

    result: str
    """`passed`, `failed`, `skipped`, or `error`, which is a failure outside of the test's own code."""

    said: str = ""
    """What pytest says of it."""


# --- The command ------------------------------------------------------------------------------------------------------


def main() -> int:
    """Run the suite, tell what came of it, and return the exit code."""
    try:
        version = pinned((ROOT / "constraints.txt").read_text())
        with tempfile.TemporaryDirectory(prefix="reenact-conformance-") as directory:
            suite, plugins = fetch(version, Path(directory))
            outcomes = {kind: run(suite, plugins, "pytest_mock", kind=kind) for kind in ACTORS}
    except NotToBeHadError as error:
        print(f"conformance: nothing was run: {error}", file=sys.stderr)
        return NOT_TO_BE_HAD
    except ConformanceError as error:
        print(f"conformance: {error}", file=sys.stderr)
        return UNEXPECTED
    exit_code = PASSED
    for kind, of_kind in outcomes.items():
        findings = unexpected(of_kind, KNOWN)
        print(summary(f"{version} with {kind} actors", of_kind, KNOWN, findings))
        if findings:
            exit_code = UNEXPECTED
    return exit_code


def pinned(constraints: str) -> str:
    """Return the version of pykka that is constrained, which must be the one that is installed."""
    found = re.search(r"^pykka==(\S+)$", constraints, re.MULTILINE)
    if found is None:
        raise ConformanceError("constraints.txt does not name a version of pykka")
    installed = importlib.metadata.version("pykka")
    if installed != found[1]:
        raise ConformanceError(f"constraints.txt names pykka {found[1]}, but {installed} is installed: call make again")
    return found[1]


def unexpected(outcomes: Mapping[str, Outcome], known: Mapping[str, str]) -> list[str]:
    """Return what is not as the table of known differences says, each with what pytest says of it."""
    findings = [] if outcomes else ["no test was run"]
    for test, outcome in outcomes.items():
        if outcome.result != "passed" and test not in known:
            findings.append(f"{test}: {outcome.result}\n{outcome.said}".rstrip())
        elif outcome.result == "passed" and test in known:
            findings.append(f"{test}: passed; it is no difference any more, take it out of the table")
        elif outcome.result not in {"passed", "failed"}:
            findings.append(
                f"{test}: {outcome.result}, which is not how a known difference shows\n{outcome.said}".rstrip()
            )
    findings += [f"{test}: is in the table, but there is no such test" for test in known if test not in outcomes]
    return findings


def summary(version: str, outcomes: Mapping[str, Outcome], known: Mapping[str, str], findings: Sequence[str]) -> str:
    """Return what is to be told of a run."""
    passed = sum(outcome.result == "passed" for outcome in outcomes.values())
    differing = {test: why for test, why in known.items() if test in outcomes and outcomes[test].result == "failed"}
    tests = f"{len(outcomes)} tests of pykka {version}"
    counted = f"{passed} passed, {len(outcomes) - passed} did not, of which {len(differing)} are known differences"
    lines = [f"conformance: {tests}: {counted}"]
    for reason in dict.fromkeys(differing.values()):
        lines += ["", f"known: {reason}", *(f"  {test}" for test in differing if differing[test] == reason)]
    lines += [f"\nUNEXPECTED: {finding}" for finding in findings]
    return "\n".join(lines)


# --- The suite --------------------------------------------------------------------------------------------------------


def fetch(version: str, work: Path) -> tuple[Path, Path]:
    """Return where pykka's source distribution is unpacked, and where the plugins are that its tests need."""
    digest = SUITES.get(version)
    if digest is None:
        raise ConformanceError(f"the digest of pykka {version} is not known: look at it, and write it into {__file__}")
    requirement = f"pykka=={version} --hash=sha256:{digest}"
    # Hatchling, which pip builds the metadata with, stands in the virtual environment: nothing else is downloaded.
    _pip(work, requirement, "download", "--no-binary", ":all:", "--no-build-isolation", "--dest", str(work / "sdist"))
    _pip(work, MOCKER, "install", "--only-binary", ":all:", "--target", str(work / "plugins"))

    (sdist,) = (work / "sdist").iterdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "unpacked", filter="data")
    (suite,) = (work / "unpacked").iterdir()
    return suite, work / "plugins"


def _pip(work: Path, requirement: str, *command: str) -> None:
    requirements = work / "requirements.txt"
    requirements.write_text(f"{requirement}\n")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--no-input", "--retries", "1"]
    done = subprocess.run(
        [*pip, *command, "--no-deps", "--require-hashes", "--requirement", str(requirements)],
        cwd=work,
        capture_output=True,
        text=True,
        check=False,
    )
    if "DO NOT MATCH THE HASHES" in done.stderr:
        raise ConformanceError(f"this is not the distribution that we know\n{done.stderr}")
    if done.returncode != 0:
        name = requirement.partition(" ")[0]
        raise NotToBeHadError(f"{name} cannot be had from the package index\n{done.stderr}".rstrip())


def run(suite: Path, plugins: Path, *names: str, kind: str = "pooled") -> dict[str, Outcome]:
    """Run the folder `tests` of an unpacked source distribution, and return how each of its tests ended."""
    report = suite / "outcomes.json"
    importable = [str(Path(__file__).parent), str(plugins), os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {
        REPORT: str(report),
        "PYTHONDONTWRITEBYTECODE": "1",  # nothing is left beside this module
        "PYTHONPATH": os.pathsep.join(part for part in importable if part),
        KIND: kind,
        "PYTEST_ADDOPTS": "",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    loaded = [option for name in ("conformance", "pytest_timeout", *names) for option in ("-p", name)]
    options = ["--timeout=30", "--timeout-method=thread", "--rootdir=.", "-p", "no:cacheprovider", "--tb=short"]
    command = [sys.executable, "-P", "-m", "pytest", *loaded, *options, "tests"]
    try:
        done = subprocess.run(
            command, cwd=suite, env=environment, capture_output=True, text=True, timeout=LONGEST, check=False
        )
    except subprocess.TimeoutExpired:
        raise ConformanceError(f"the suite has not ended after {LONGEST} seconds: something keeps running") from None
    # 0: all passed, 1: some did not; anything else is not about a test.
    if done.returncode not in {0, 1} or not report.exists():
        raise ConformanceError(f"pytest did not get through the suite\n{done.stdout}{done.stderr}")
    return {test: Outcome(*outcome) for test, outcome in json.loads(report.read_text()).items()}


# --- The plugin -------------------------------------------------------------------------------------------------------


class Witness:
    """Sees how each test ends."""

    def __init__(self, report: Path) -> None:
        self._report = report
        self._outcomes: dict[str, tuple[str, str]] = {}

    def pytest_collection_finish(self) -> None:
        """See to it that the exchange has taken place."""
        if vars(sys.modules["tests.conftest"]).get("ThreadingActor") is not ACTORS[os.environ[KIND]]:
            raise pytest.UsageError("the suite does not take its actors from where we have put ours")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst of a test's three parts: what is before it, itself, and what is after it."""
        before = self._outcomes.get(report.nodeid)
        if before is None or (before[0] == "passed" and not report.passed):
            outside = report.failed and report.when != "call"
            self._outcomes[report.nodeid] = "error" if outside else report.outcome, report.longreprtext

    def pytest_sessionfinish(self) -> None:
        """Write what was seen, and end the actors that the suite has left for pykka's registry to stop."""
        for actor in default_pool().live():
            if isinstance(actor, PooledActor):
                actor.actor_ref.stop()
        self._report.write_text(json.dumps(self._outcomes))


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Put our actor and our future where pykka's are, before a module of the suite takes them from there."""
    for name, ours in {"ThreadingActor": ACTORS[os.environ[KIND]], "ThreadingFuture": PooledFuture}.items():
        setattr(pykka, name, ours)
    early_config.pluginmanager.register(Witness(Path(os.environ[REPORT])))


if __name__ == "__main__":
    sys.exit(main())
