"""The threat model names tests that there are: each claim of it is one that a test makes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

import pytest

from tests.docs.pages import ROOT

PAGE = ROOT / "SECURITY.md"
TEXT = PAGE.read_text(encoding="utf-8")
ATTACKERS = 4
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
NAMED = list(dict.fromkeys((found[1], found[2]) for found in _NAMED.finditer(TEXT)))


def rows() -> Iterator[list[str]]:
    """Yield the cells of each row of the tables, but for their heads."""
    for line in TEXT.splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| they try to", "| it tries to")):
            yield [cell.strip() for cell in line.strip("|").split("|")]


@cache
def named_in(file: str) -> frozenset[str]:
    """Return the names of the tests in a file, those in classes included."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = ast.walk(ast.parse((ROOT / file).read_text(encoding="utf-8")))
    return frozenset(one.name for one in found if isinstance(one, functions) and one.name.startswith("test_"))


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_each_test_that_the_threat_model_names_is_there(file: str, name: str) -> None:
    assert (ROOT / file).is_file()
    assert name in named_in(file)


def test_each_threat_has_what_stops_it_and_a_test_that_shows_it() -> None:
    assert [row for row in rows() if len(row) != 3 or not all(row)] == []
    assert [threat for threat, _, shown in rows() if not _NAMED.fullmatch(shown.split(", ")[0])] == []
    assert [shown for _, _, shown in rows() if _NAMED.sub("", shown).replace(", ", "")] == []
    assert len(list(rows())) > 30


def test_each_kind_of_attacker_has_a_table() -> None:
    parts = re.split(r"^## ", TEXT, flags=re.MULTILINE)

    assert sum("the test that shows it" in part for part in parts) == ATTACKERS


def test_no_test_is_named_that_only_looks_like_one() -> None:
    assert TEXT.count("::") == len(_NAMED.findall(TEXT))
