"""Finds the functions of steps by an index; pytest-bdd tries the fixtures of all tests, twice for each step."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from pytest_bdd.parser import Step

_PYTEST_BDD: Final[Any] = importlib.import_module("pytest_bdd.scenario")


def use_index() -> None:
    """Have pytest-bdd look only at the fixtures whose pattern fits the step."""
    assert hasattr(_PYTEST_BDD, "find_fixturedefs_for_step")
    _PYTEST_BDD.find_fixturedefs_for_step = _find


def _find(step: Step, fixturemanager: Any, node: Any) -> Iterator[Any]:  # noqa: ANN401 - pytest's own, which are private
    for name in _fitting(fixturemanager, step.type, step.name):
        for fixture in fixturemanager.getfixturedefs(name, node) or ():
            if _fits(fixture, step.type, step.name):
                yield fixture


@cache
def _fitting(manager: Any, kind: str, text: str) -> list[str]:  # noqa: ANN401 - likewise
    return [
        name
        for name, fixtures in manager._arg2node2fixturedefs.items()
        if any(_fits(fixture, kind, text) for of_node in fixtures.values() for fixture in of_node)
    ]


def _fits(fixture: Any, kind: str, text: str) -> bool:  # noqa: ANN401 - likewise
    function = _PYTEST_BDD.step_function_context_registry.get(fixture.func)
    return function is not None and function.type in (None, kind) and bool(function.parser.is_matching(text))
