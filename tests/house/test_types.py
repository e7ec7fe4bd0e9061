"""No `Any` of ours: what a library gives is converted at the border, what a user's function gives is `object`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("actors", "domain", "projections", "src/reenact")
ALLOWED = {
    "actors/feed/handlers.py": "a handler names the events that it takes",
    "actors/feed/subscription.py: _set_buffer": "which events they are, their types tell",
    "actors/idempotency.py: __init__": "as the reply below",
    "actors/idempotency.py: ask_future": "as the reply below",
    "actors/idempotency.py: ask": "the reply to a command, which the actor's union of replies does not tell",
    "actors/journal/api.py: Recorded": "an event of the user's own, who knows of what type those of a stream are",
    "actors/journal/codec.py": "fields of an old version, which the user's upcast knows",
    "actors/journal/codec.py: __new__": "msgspec's options of a struct",
    "actors/journal/postgres/connecting.py": "cells, as psycopg gives them",
    "actors/journal/postgres/store.py: _execute": "likewise",
    "actors/journal/seeking.py": "cells, as sqlite3 gives them",
    "actors/kernel/by_type.py: by_type": "functions with too little in common for a checker to find their types",
    "actors/kernel/declared.py: _state_type": "a user's class may name it",
    "actors/kernel/declared.py: reply": "what a subclass says instead",
    "actors/kernel/future.py: PooledFuture": "a T, or the None of `set()`, as pykka has it",
    "actors/kernel/mailbox.py: Envelope": "a message that a reference has checked, for an actor of any type",
    "actors/kernel/persistent.py": "an actor of any type; its parameters are invariant",
    "actors/kernel/pooled.py: PooledActor": "as pykka's own",
    "actors/kernel/pooled.py: _create_future": "as pykka's own",
    "actors/kernel/pooled.py: ask": "as pykka's own",
    "actors/kernel/pooled.py: stop": "as pykka's own",
    "actors/kernel/profile.py": "a class of actors of any type; its parameters are invariant",
    "actors/kernel/system.py: drop": "an actor of any type; its parameters are invariant",
    "actors/kernel/timers.py: Own": "as the message",
    "actors/nodes/database.py: ImpatientConnection": "cells, as psycopg gives them",
    "actors/nodes/database.py: _execute": "likewise",
    "actors/nodes/database.py: _view_of": "likewise",
    "actors/api/operations.py": "a class of actors of any type; its parameters are invariant",
    "domain/loop/state.py: AgentContext": "what a runner looks into: which members there are, the phase tells",
    "domain/plain.py": "what JSON is to msgspec, which takes no recursive type",
    "src/reenact/client/asking.py: _envelopes": "which event it is, its type tells",
    "src/reenact/client/asking.py: read_envelope": "likewise",
    "src/reenact/terminal/screen/libghostty.py": "a library without types",
    "src/reenact/testing/crash_test.py": "words that a user's test looks into",
    "src/reenact/testing/fake_server.py": "requests that a user's test looks into",
    "src/reenact/testing/machine.py: answered": "what an override names",
}
"""Where `Any` may stand, and why."""


def test_any_stands_only_where_it_is_not_ours_or_says_more_than_object_would(root: Path) -> None:
    modules = [path for folder in FOLDERS for path in (root / folder).rglob("*.py")]

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
        ("class A:\n    x: Any", ["m: A"]),
        ("def f(x: object) -> str: ...", []),
    ],
)
def test_any_is_recognised_wherever_it_stands(source: str, found: list[str]) -> None:
    assert list(places(source, "m")) == found


def places(source: str, name: str) -> Iterator[str]:
    """Yield the functions, the classes for their fields, and the modules outside of both, in which `Any` stands."""
    if "Any" not in source:
        return
    tree = ast.parse(source)
    kept: set[ast.AST] = set()
    for kinds in ((ast.FunctionDef, ast.AsyncFunctionDef), (ast.ClassDef,)):
        for node in ast.walk(tree):
            if isinstance(node, kinds):
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
