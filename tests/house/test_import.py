"""Importing the package brings in nothing heavy: who wants a version number or a type waits for no database."""

from __future__ import annotations

import subprocess
import sys

import pytest

import reenact

HEAVY = (
    "anthropic",
    "asyncio",
    "concurrent.futures",
    "email",
    "eventsourcing",
    "http",
    "hypothesis",
    "logging",
    "multiprocessing",
    "pykka",
    "pytest",
    "socket",
    "sqlalchemy",
    "sqlite3",
    "ssl",
    "subprocess",
    "threading",
    "unittest",
    "urllib",
)
ONLY_WHERE_USED = (
    "anthropic",
    "email",
    "eventsourcing",
    "http",
    "httpx2",
    "hypothesis",
    "jsonschema",
    "mcp",
    "multiprocessing",
    "openai",
    "opentelemetry",
    "prompt_toolkit",
    "psycopg",
    "pydantic",
    "pytest",
    "rich",
    "sqlalchemy",
    "uvicorn",
    "websockets",
)
"""What a program loads that uses it, and no other: to open a log, answer and read takes none of it."""
A_TURN = """
from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory
with Runtime.in_memory(environment=MockEnvironmentFactory(), default_image=Image(id="i")) as runtime:
    assert runtime.ask("Hello").text == "Hello from mock!"
    assert len(runtime.sessions.messages(runtime.sessions.list()[0].id)) == 2
"""
WITHOUT_EXTRAS = """
from importlib.machinery import PathFinder
find = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name in {"websockets", "hypothesis"} else find(name, *more)
"""
OURS = ("reenact.actors", "reenact.projections", "reenact.cli", "reenact.testing")


def loaded_by(statement: str) -> set[str]:
    """Return the modules that a fresh process has loaded after the statement, beyond those that it began with."""
    code = f"import sys; before = set(sys.modules)\n{statement}\nprint(*sys.modules.keys() - before)"
    run = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def within(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    return sorted(name for name in modules if f"{name}.".startswith(tuple(f"{package}." for package in packages)))


def test_importing_the_package_loads_nothing_heavy_and_of_its_layers_the_errors_alone() -> None:
    loaded = loaded_by("import reenact")

    assert within(loaded, ("reenact.domain",)) == ["reenact.domain", "reenact.domain.errors"]
    assert within(loaded, HEAVY + OURS) == []


@pytest.mark.parametrize("name", ["Image", "ReenactError", "Message", "SessionInfo"])
def test_a_value_or_an_error_loads_nothing_heavy(name: str) -> None:
    assert within(loaded_by(f"from reenact import {name}"), HEAVY) == []


def test_the_error_of_a_projection_loads_no_database() -> None:
    assert within(loaded_by("from reenact import ReadModelBehindError"), HEAVY) == []


def test_the_name_of_the_projections_loads_no_database() -> None:
    assert within(loaded_by("import reenact.projections"), HEAVY) == []


def test_a_heavy_module_would_be_noticed() -> None:
    assert within(loaded_by("from reenact.projections import Projection"), ("sqlalchemy",)) != []


def test_a_turn_loads_nothing_that_it_does_not_use() -> None:
    assert within(loaded_by(A_TURN), ONLY_WHERE_USED) == []


def test_without_extras_all_that_is_there_can_be_imported_at_once() -> None:
    loaded = loaded_by(f"{WITHOUT_EXTRAS}\nfrom reenact import *\nfrom reenact.testing import *\nRuntime, wait_until")

    assert within(loaded, ("reenact.client", "reenact.testing.machine")) == []


def test_every_name_that_is_loaded_later_is_public() -> None:
    loaded = vars(reenact).keys()

    assert set(dir(reenact)) - loaded <= set(reenact.__all__)
