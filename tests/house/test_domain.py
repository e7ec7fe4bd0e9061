"""The domain is plain Python: it knows no clock, no chance and no outside world."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ALLOWED = {
    "__future__",
    "base64",
    "binascii",
    "collections",
    "contextlib",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "functools",
    "hashlib",
    "itertools",
    "json",
    "math",
    "msgspec",
    "operator",
    "re",
    "string",
    "struct",
    "types",
    "typing",
    "typing_extensions",  # type checkers know it without its being there
    "unicodedata",
}
CLOCKS = {"now", "today", "utcnow"}


def test_the_domain_imports_nothing_but_values_and_itself(root: Path) -> None:
    imports = [(path.name, module) for path in _modules(root) for module in _imported(ast.parse(path.read_text()))]

    foreign = [
        (file, module)
        for file, module in imports
        if module.partition(".")[0] not in ALLOWED and not f"{module}.".startswith("reenact.domain.")
    ]

    assert imports
    assert foreign == []


def test_the_domain_never_asks_what_time_it_is(root: Path) -> None:
    asked = [f"{path.name}:{line}" for path in _modules(root) for line in _clock_lines(ast.parse(path.read_text()))]

    assert asked == []


@pytest.mark.parametrize("source", ["datetime.now(UTC)", "dt.date.today()", "clock = datetime.utcnow"])
def test_a_clock_is_recognised_however_it_is_reached(source: str) -> None:
    assert list(_clock_lines(ast.parse(source))) == [1]


def _modules(root: Path) -> list[Path]:
    return sorted((root / "domain").rglob("*.py"))


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def _clock_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in CLOCKS:
            yield node.lineno
