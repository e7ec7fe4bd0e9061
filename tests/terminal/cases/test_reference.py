"""The reference of the format: its examples do what they say, and it names everything that there is."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from reenact.terminal.cases.loading import TerminalTestCase, TestCategory, load_cases, load_config
from reenact.terminal.cases.plain import fields_of
from reenact.terminal.cases.runner import run_cases
from reenact.terminal.config import TerminalTestConfig
from reenact.terminal.fixture.options import (
    ConfigFixture,
    ExtensionFixture,
    FixtureOptions,
    MockFixture,
    MockResponse,
)

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "terminal-cases.md").read_text()


def blocks(language: str) -> list[str]:
    """Return the examples in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)


def test_the_first_example_passes(tmp_path: Path) -> None:
    (tmp_path / "tests.yaml").write_text(blocks("yaml")[0])

    (suite,) = run_cases([load_cases(tmp_path / "tests.yaml")])

    assert [(test.name, test.error) for test in suite.tests] == [("it greets", None), ("Ctrl+C ends it", None)]


def test_the_configuration_that_is_shown_is_the_one_that_holds(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(blocks("yaml")[1])

    assert load_config(tmp_path / "config.yaml") == TerminalTestConfig()


def test_the_example_in_python_runs() -> None:
    (program,) = blocks("python")

    exec(compile(program, "terminal-cases.md", "exec"), {})  # noqa: S102 - it is our own


@pytest.mark.parametrize(
    "kind",
    [
        TerminalTestCase,
        TerminalTestConfig,
        FixtureOptions,
        ConfigFixture,
        ExtensionFixture,
        MockFixture,
        MockResponse,
    ],
)
def test_every_field_is_named(kind: type[msgspec.Struct]) -> None:
    assert [name for name in fields_of(kind) if not re.search(rf"\b{name}\b", PAGE)] == []


def test_every_category_is_named() -> None:
    assert [one.value for one in TestCategory if f"`{one.value}`" not in PAGE] == []
