"""Fixtures for pytest: `terminal`, `cli`. Every test run loads this module: it imports nothing until one is used.

Settings in the configuration file of pytest: `terminal_command`, the command line that `cli` runs; `terminal_timeout`,
the default timeout of a wait in seconds; `terminal_keep`, the directory for recordings and pictures of failed tests,
relative to the configuration file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

import reenact.terminal as kit

_COMMAND = "terminal_command"
_TIMEOUT = "terminal_timeout"
_KEEP = "terminal_keep"
_TERMINALS = pytest.StashKey["kit.Terminals"]()
_FACTORY = pytest.StashKey[pytest.TempPathFactory]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the settings."""
    parser.addini(_COMMAND, "The command line that the fixture `cli` runs.", default="reenact")
    parser.addini(_TIMEOUT, "Seconds that a wait of the fixtures `terminal` and `cli` may take.", default="30")
    parser.addini(
        _KEEP, "Where recordings and pictures of failed tests are kept; by default beside `tmp_path`.", default=""
    )


@pytest.fixture
def terminal_options() -> kit.FixtureOptions:
    """The options of the fixture around the programs of a test; tests override this to set up files and the like."""
    return kit.FixtureOptions()


@pytest.fixture
def terminal_fixture(terminal_options: kit.FixtureOptions) -> Iterator[kit.TestFixture]:
    """Directories, files, variables and, if the options have responses, a Messages API for this test's programs."""
    fixture = kit.TestFixture(terminal_options)
    with fixture:
        yield fixture


@pytest.fixture
def _reenact_terminals(
    request: pytest.FixtureRequest, terminal_fixture: kit.TestFixture, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[kit.Terminals]:
    """Starts the programs of a test, even if the test overrides `terminal`."""
    with kit.Terminals(terminal_fixture, timeout=_seconds(request.config)) as terminals:
        request.node.stash[_TERMINALS] = terminals
        request.config.stash[_FACTORY] = tmp_path_factory
        yield terminals


@pytest.fixture
def terminal(_reenact_terminals: kit.Terminals) -> kit.Terminals:
    """Starts programs at terminals, in a directory and an environment of the test's own: `terminal("less", "a.txt")`.

    It takes the arguments of `TerminalEmulator`, and returns one that has been started and is disposed of after the
    test.
    """
    return _reenact_terminals


@pytest.fixture
def cli(request: pytest.FixtureRequest, _reenact_terminals: kit.Terminals) -> kit.CommandLine:
    """Starts the command of `terminal_command`: `cli("--help")` at a terminal, `cli.run("--help")` without one."""
    from reenact.terminal.fixture.programs import command_of  # noqa: PLC0415 - loaded only if used

    return kit.CommandLine(
        command_of(str(request.config.getini(_COMMAND)), request.config.rootpath), _reenact_terminals
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add what the programs showed to the report of a failed test, before they are ended."""
    report = yield
    terminals = item.stash.get(_TERMINALS, None)
    if terminals is not None and (report.failed or report.when == "teardown"):
        del item.stash[_TERMINALS]
        if report.failed:
            report.sections.extend(_sections(item, terminals))
    return report


def _sections(item: pytest.Item, terminals: kit.Terminals) -> list[tuple[str, str]]:
    from reenact.terminal.fixture.programs import sections  # noqa: PLC0415 - loaded only if used

    try:
        return list(sections(terminals, lambda: _directory(item)))
    except Exception as error:  # noqa: BLE001 - the test's own failure must be reported in any case
        return [("terminal", f"what it showed cannot be told: {error!r}")]


def _seconds(config: pytest.Config) -> float:
    from reenact.terminal.config import seconds  # noqa: PLC0415 - loaded only if used

    text = config.getini(_TIMEOUT)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    return seconds(value, f"{_TIMEOUT} ({text!r})", positive=True)


def _directory(item: pytest.Item) -> Path:
    """Create the directory for the files kept for the test, and return its path."""
    from reenact.terminal.fixture.programs import name_of  # noqa: PLC0415 - loaded only if used

    config = item.config
    keep = str(config.getini(_KEEP))
    if keep:
        base = (config.inipath.parent if config.inipath else config.rootpath) / keep
    else:
        base = config.stash[_FACTORY].getbasetemp() / "terminal"
    directory = base / name_of(item.nodeid)
    directory.mkdir(parents=True, exist_ok=True)
    return directory
