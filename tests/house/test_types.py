"""No `Any` of ours: what a library gives is converted at the border, what a user's function gives is `object`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

CLEAN = ("actors/environment", "actors/loop", "domain")
ALLOWED = {
    "domain/commands.py": "a request of any result",
    "domain/content.py: plain_content": "what is no content goes on to the check that refuses it",
    "domain/loop/folding.py": "the fields of a state while events happen to it",
    "domain/messages.py": "token counts, and what else the API says of the usage",
    "domain/plain.py": "what JSON is to msgspec, which takes no recursive type",
    "domain/policy/matchers.py": "a list of JSON in a stored policy",
    "domain/policy/reading.py: _wanted": "what `Wanted` says, once it is checked",
    "domain/request_checks.py": "a request of any result",
}
"""Where `Any` may stand outside of the fields of a class, and why; fields of the domain that hold JSON may have it."""


def test_no_function_of_the_clean_folders_takes_or_gives_any(root: Path) -> None:
    modules = [path for folder in CLEAN for path in (root / folder).rglob("*.py")]

    found = {place for path in modules for place in places(path.read_text(), path.relative_to(root).as_posix())}

    assert modules
    assert found == ALLOWED.keys()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("def f(x: Any) -> None: ...", ["m: f"]),
        ("async def f() -> list[Any]: ...", ["m: f"]),
        ("def f():\n    x: dict[str, typing.Any] = {}", ["m: f"]),
        ("class A:\n    def f(self, *x: Any): ...", ["m: f"]),
        ('def f(x: "Any") -> None: ...', ["m: f"]),
        ("Alias: TypeAlias = dict[str, Any]", ["m"]),
        ("class A:\n    x: Any", []),
        ("def f(x: object) -> str: ...", []),
    ],
)
def test_any_is_recognised_wherever_it_stands(source: str, found: list[str]) -> None:
    assert list(places(source, "m")) == found


def places(source: str, name: str) -> Iterator[str]:
    """Yield the functions, and the modules outside of functions and fields, in which `Any` stands."""
    tree = ast.parse(source)
    kept: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            kept.update(part for one in node.body if isinstance(one, ast.AnnAssign) for part in ast.walk(one))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parts = set(ast.walk(node)) - kept
            if any(map(_is_any, parts)):
                yield f"{name}: {node.name}"
            kept |= parts
    if any(map(_is_any, set(ast.walk(tree)) - kept)):
        yield name


def _is_any(node: ast.AST) -> bool:
    match node:
        case ast.Name(id="Any") | ast.Attribute(attr="Any"):
            return True
        case (
            ast.arg(annotation=ast.Constant(value=str(text))) | ast.AnnAssign(annotation=ast.Constant(value=str(text)))
        ):
            return "Any" in text
        case _:
            return False
