"""The page that says where is what names files and functions that there are."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT

_PAGE = ROOT / "docs" / "design" / "where.md"
_ROW = re.compile(r"\| (?P<question>[^|]+\?) \| `(?P<file>[^`]+)` \| `(?P<name>[^`]+)` \|")
ROWS = [(found["file"], found["name"]) for found in _ROW.finditer(_PAGE.read_text(encoding="utf-8"))]


def test_every_row_of_the_table_names_a_file_and_something_in_it() -> None:
    rows = [line for line in _PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| Where")]

    assert len(rows) == len(ROWS) > 20


@pytest.mark.parametrize(("file", "name"), ROWS)
def test_what_a_row_names_is_defined_in_its_file(file: str, name: str) -> None:
    defined = set(_defined(ast.parse((ROOT / file).read_text(encoding="utf-8")).body))

    assert name in defined


def _defined(body: list[ast.stmt], of: str = "") -> Iterator[str]:
    for one in body:
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield f"{of}{name}"
            case ast.ClassDef(name=name):
                yield f"{of}{name}"
                yield from _defined(one.body, f"{of}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield f"{of}{name}"
            case _:
                pass
