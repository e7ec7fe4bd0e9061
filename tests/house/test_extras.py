"""What the wheel does in an environment with its core alone, and what each extra adds to it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from textwrap import dedent

import pytest
from packaging.requirements import Requirement

from tests.examples import takes_long

MODULES_OF_EXTRAS = {
    "claude": (),
    "cli": ("reenact.cli",),
    "cli,inspect": ("reenact.cli.commands.inspect",),
    "cli,server": ("reenact.cli.serve",),
    "client": ("reenact.client", "reenact._remote"),
    "encryption": ("reenact.actors.journal.aes",),
    "inspect": ("reenact.inspector",),
    "mcp": ("reenact.actors.environment.tools.mcp",),
    "openai": (),
    "otel": ("reenact.tracing.collector",),
    "postgresql": (
        "reenact.actors.journal.postgres",
        "reenact.actors.nodes",
        "reenact.actors.sharding",
        "reenact.projections.read_model.postgres_store",
        "reenact.projections.views.schemas",
    ),
    "server": ("reenact.server",),
    "terminal": ("reenact.terminal",),
    "testing": ("reenact.testing.machine", "reenact.testing.plugin"),
}
"""The packages and modules that need extras. Any other module is imported with the core alone."""
IMPORT = "import importlib, sys; [importlib.import_module(name) for name in sys.argv[1:]]"
PUBLIC_NAMES = """
import reenact, reenact.terminal
for module in reenact, reenact.terminal:
    for name in dir(module):
        try:
            getattr(module, name)
        except reenact.MissingExtraError as error:
            print(name, error.extra)
"""
A_TURN = """
from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory
with Runtime.open("agents.db", environment=MockEnvironmentFactory(), default_image=Image(id="chat")) as runtime:
    print(runtime.ask("Hello").text)
"""
NEEDS = {
    "claude": """
        from reenact import LLMConfig, Runtime
        Runtime.open("agents.db", llm=LLMConfig(api_key="sk-ant-x"))
    """,
    "client": "from reenact import Runtime; Runtime.connect('http://localhost:1')",
    "encryption": "from reenact import KeyRing; KeyRing.generate('ring.keys')",
    "inspect": "from reenact.inspector import Inspector",
    "mcp": "from reenact import MCPServer, Toolbox; Toolbox([MCPServer.stdio('files', 'files')])",
    "openai": "from reenact import OpenAIProvider; OpenAIProvider('http://localhost:1')",
    "otel": """
        from reenact import Runtime
        from reenact.tracing import Tracing
        with Runtime.in_memory() as runtime:
            Tracing(runtime, endpoint="http://localhost:4318")
    """,
    "postgresql": "from reenact import Runtime; Runtime.open('postgresql://localhost/log')",
    "ray": "from reenact.ray import stop; stop()",
    "server": "from reenact.server import Server",
    "terminal": "from reenact.terminal import AssertionMatcher; AssertionMatcher().regex_match('a', 'a')",
    "testing": "from reenact.testing import ReplayMachine",
}
"""What needs each extra, as a user writes it."""
REFUSALS = """
import json, sys
from reenact.domain.errors import MissingExtraError

def refusal(program):
    try:
        exec(program, {})
    except MissingExtraError as error:
        return str(error)

print(json.dumps({extra: refusal(program) for extra, program in json.loads(sys.argv[1]).items()}))
"""
"""Says of each program, named by its extra, what it is refused with."""
THE_SCRIPT = """
import sys
from importlib.metadata import entry_points
(script,) = entry_points(group="console_scripts", name="reenact")
sys.exit(script.load()())
"""
TESTS = """
def test_a_system(actor_system):
    assert actor_system

def test_a_terminal(terminal):
    terminal("true")
"""

Environment = Callable[..., Path]


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=root, check=True, capture_output=True)
    (wheel,) = target.iterdir()
    return wheel


@pytest.fixture(scope="module")
def unpacked(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is in the wheel: every environment has a link to it, so that it is compiled once."""
    directory = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory)
    return directory


@pytest.fixture(scope="module")
def environment(unpacked: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """Makes an environment of the wheel and what it requires with these extras, and returns its Python.

    What the wheel requires is linked from the environment of the tests, and nothing else is: no index is needed.
    """

    @cache
    def made(*extras: str, also: str | None = None, core: bool = True) -> Path:
        directory = tmp_path_factory.mktemp("environment")
        venv.create(directory, symlinks=True)
        (site,) = directory.glob("lib/python*/site-packages")
        for part in unpacked.iterdir():
            (site / part.name).symlink_to(part)
        if core:
            (itself,) = metadata.distributions(path=[str(site)])
            for distribution in required(itself, extras):
                link(distribution, site)
        if also is not None:
            for distribution in required(metadata.distribution(also)):
                link(distribution, site)
            link(metadata.distribution(also), site)
        return directory / "bin" / "python"

    return made


def required(itself: metadata.Distribution, extras: Iterable[str] = ()) -> Iterator[metadata.Distribution]:
    """Yield the distributions that this one requires here, those that they require, and so on."""
    waiting, seen = [(itself, frozenset(extras))], set[tuple[str, frozenset[str]]]()
    while waiting:
        distribution, extras = waiting.pop()
        for requirement in map(Requirement, distribution.requires or ()):
            of_extras = [requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in ("", *extras)]
            wanted = requirement.name, frozenset(requirement.extras)
            if any(of_extras) and wanted not in seen:
                seen.add(wanted)
                found = itself if requirement.name == itself.name else metadata.distribution(requirement.name)
                waiting.append((found, wanted[1]))
                yield found


def link(distribution: metadata.Distribution, site: Path) -> None:
    """Have it stand in the environment, and what was compiled of it."""
    for name in {file.parts[0] for file in distribution.files or ()} - {".."}:
        if not (site / name).exists():
            (site / name).symlink_to(Path(str(distribution.locate_file(name))))


def run(python: Path, *arguments: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ANTHROPIC_", "PYTEST_"))}
    home = {"HOME": str(cwd), "XDG_DATA_HOME": str(cwd), "XDG_STATE_HOME": str(cwd)}
    return subprocess.run(
        [python, "-P", *arguments], cwd=cwd, env=environ | home | variables, capture_output=True, text=True, check=False
    )


def modules(wheel: Path, extras: str | None) -> list[str]:
    """Return the names of the modules that need these extras; with None, of those that need none."""
    with zipfile.ZipFile(wheel) as archive:
        files = [name for name in archive.namelist() if name.startswith("reenact/") and name.endswith(".py")]
    names = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files]
    return [name for name in names if extras_of(name) == extras and not name.endswith("__main__")]


def extras_of(module: str) -> str | None:
    lengths = {
        len(part): extras
        for extras, parts in MODULES_OF_EXTRAS.items()
        for part in parts
        if f"{module}.".startswith(f"{part}.")
    }
    return lengths[max(lengths)] if lengths else None


def test_the_extra_all_has_every_extra_of_users_that_needs_no_service(root: Path) -> None:
    extras = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"]

    (everything,) = map(Requirement, extras["all"])

    assert everything.extras == extras.keys() - {"all", "dev", "postgresql", "ray"}


@takes_long()
@pytest.mark.parametrize("extras", [None, *MODULES_OF_EXTRAS])
def test_every_module_is_imported_with_what_it_needs_alone(
    wheel: Path, environment: Environment, tmp_path: Path, extras: str | None
) -> None:
    names = modules(wheel, extras)
    assert names or not MODULES_OF_EXTRAS.get(extras or "")

    done = run(environment(*(extras or "").split(",")), "-c", IMPORT, *names, cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_with_the_core_alone_every_public_name_is_there_or_names_its_extra(
    environment: Environment, tmp_path: Path
) -> None:
    done = run(environment(), "-c", PUBLIC_NAMES, cwd=tmp_path)

    assert (done.stdout.split("\n"), done.stderr) == (
        ["Reconnect client", "RemoteRuntime client", "RemoteSubscription client", "Engine terminal", ""],
        "",
    )


def test_with_the_core_alone_all_that_is_there_can_be_imported_at_once(
    environment: Environment, tmp_path: Path
) -> None:
    done = run(environment(), "-c", "from reenact import *; from reenact.testing import *", cwd=tmp_path)

    assert done.stderr == ""


def test_with_the_core_alone_a_runtime_answers_from_the_mock(environment: Environment, tmp_path: Path) -> None:
    done = run(environment(), "-c", A_TURN, cwd=tmp_path)

    assert (done.stdout, done.stderr) == ("Hello from mock!\n", "")


@pytest.fixture(scope="module")
def refusals(environment: Environment, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str | None]:
    """What is said with the core alone where each extra is needed."""
    programs = json.dumps({extra: dedent(program) for extra, program in NEEDS.items()})
    done = run(environment(), "-c", REFUSALS, programs, cwd=tmp_path_factory.mktemp("refused"))
    assert (done.returncode, done.stderr) == (0, "")
    refusals: dict[str, str | None] = json.loads(done.stdout)
    return refusals


@pytest.mark.parametrize("extra", NEEDS)
def test_what_needs_an_extra_names_it_where_it_is_missing(refusals: dict[str, str | None], extra: str) -> None:
    refusal = refusals[extra]

    assert refusal is not None
    assert refusal.endswith(f": pip install 'reenact[{extra}]'")


@pytest.mark.parametrize("what", ["core", "nothing"])
def test_the_command_without_its_extra_exits_with_2_and_says_what_to_install(
    environment: Environment, tmp_path: Path, what: str
) -> None:
    python = environment(core=what == "core")

    for arguments in (("-m", "reenact"), ("-m", "reenact", "-p", "Hello"), ("-c", THE_SCRIPT)):
        done = run(python, *arguments, cwd=tmp_path)

        assert (done.returncode, done.stdout) == (2, "")
        (line,) = done.stderr.splitlines()
        assert line.startswith("reenact: error: the command needs packages that are not installed")
        assert line.endswith(": pip install 'reenact[cli]'")


def test_the_command_answers_from_the_mock_with_its_extra_alone(environment: Environment, tmp_path: Path) -> None:
    done = run(environment("cli"), "-m", "reenact", "-p", "Hello", "--db", "agents.db", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "Hello from mock!\n")


@takes_long()
@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("claude", ("-p", "Hello", "--db", "agents.db")),
        ("inspect", ("inspect", "--db", "agents.db")),
        ("otel", ("trace", "--otlp", "http://localhost:4318")),
        ("server", ("serve", "--db", "agents.db")),
        ("terminal", ("test-terminal", "cases.yaml")),
    ],
)
def test_the_command_exits_with_2_where_it_is_asked_for_what_needs_another_extra(
    environment: Environment, tmp_path: Path, extra: str, arguments: tuple[str, ...]
) -> None:
    (tmp_path / "cases.yaml").write_text("tests:\n  - name: runs\n    command: 'true'\n    expectedExitCode: 0\n")

    done = run(environment("cli"), "-m", "reenact", *arguments, cwd=tmp_path, ANTHROPIC_API_KEY="sk-ant-x")

    assert (done.returncode, done.stdout) == (2, "")
    assert f"pip install 'reenact[{extra}]'" in done.stderr


@takes_long()
def test_the_plugins_break_no_test_run_where_their_extras_are_missing(environment: Environment, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)

    done = run(environment(also="pytest"), "-m", "pytest", "-q", "-Werror", "--no-header", cwd=tmp_path)

    assert done.stdout.splitlines()[-1].startswith("1 failed, 1 passed")
    assert "pip install 'reenact[terminal]'" in done.stdout
