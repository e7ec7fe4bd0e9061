"""What goes is announced in one form, still works, and stays for two minor versions."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from reenact._lazy import Deprecated
from tests.examples import takes_long

FORM = re.compile(r"\S+ is deprecated since (\d+)\.(\d+) and goes in (\d+)\.(\d+): use .+")
FOLDERS = ("actors", "domain", "projections", "src")
PACKAGE = """
from reenact._lazy import Deprecated, lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, {"fractions": "Fraction"}, {"Ratio": Deprecated("Fraction", since="0.2", until="0.4")}
)
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package with a deprecated name."""
    (tmp_path / "renaming.py").write_text(PACKAGE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    yield "renaming"
    sys.modules.pop("renaming", None)


def test_a_deprecated_name_works_and_says_what_to_use_where_it_is_used(package: str) -> None:
    with pytest.warns(DeprecationWarning, match="renaming") as told:
        ratio = importlib.import_module(package).Ratio

    assert ratio is importlib.import_module(package).Fraction
    assert [str(one.message) for one in told] == [
        "renaming.Ratio is deprecated since 0.2 and goes in 0.4: use renaming.Fraction"
    ]
    assert told[0].filename == __file__


def test_a_deprecated_name_is_not_offered(package: str) -> None:
    assert "Ratio" not in dir(importlib.import_module(package))


@takes_long()
def test_everything_that_is_deprecated_is_announced_in_time(root: Path) -> None:
    assert list(mistakes(announcements(root), version(root))) == []


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("reenact.Old is deprecated since 0.2 and goes in 0.4: use reenact.New", None),
        ("reenact.Old is deprecated since 0.2 and goes in 1.0: use reenact.New", None),
        ("reenact.Old is deprecated since 0.3 and goes in 0.4: use reenact.New", "it stays for two minor versions"),
        ("reenact.Old is deprecated since 0.1 and goes in 0.3: use reenact.New", "it goes with this version"),
        ("reenact.Old is old", "say it as docs/deprecations.md does"),
    ],
)
def test_an_announcement_has_a_form_and_a_time(text: str, mistake: str | None) -> None:
    assert list(mistakes([text], (0, 3))) == ([] if mistake is None else [f"{text!r}: {mistake}"])


def test_announcements_are_found_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "module.py").write_text(
        '@deprecated("a")\ndef f(): ...\nwarnings.warn("b", DeprecationWarning, stacklevel=2)\n'
        'lazy_names("p", {}, {"Old": Deprecated("New", since="0.2", until="0.4")})\n'
    )

    assert sorted(announcements(tmp_path)) == [
        "Old is deprecated since 0.2 and goes in 0.4: use New",
        "a",
        "b",
    ]


def version(root: Path) -> tuple[int, int]:
    major, minor, *_ = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"].split(".")
    return int(major), int(minor)


def announcements(root: Path) -> Iterator[str]:
    """Yield what the source tells users of what is deprecated."""
    for folder in FOLDERS:
        for path in (root / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield from _announced(node)


def _announced(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Call(func=ast.Name(id="deprecated"), args=[ast.Constant(value=str(text)), *_]):
            yield text
        case ast.Call(
            func=ast.Attribute(attr="warn"),
            args=[ast.Constant(value=str(text)), ast.Name(id="DeprecationWarning"), *_],
        ):
            yield text
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                match key, value:
                    case ast.Constant(value=str(name)), ast.Call(func=ast.Name(id="Deprecated")):
                        made = ast.literal_eval(ast.Tuple(value.args, ast.Load()))
                        named = {one.arg: ast.literal_eval(one.value) for one in value.keywords if one.arg}
                        yield Deprecated(*made, **named).warning(name, made[0])
                    case _:
                        pass
        case _:
            pass


def mistakes(texts: Iterator[str] | list[str], now: tuple[int, int]) -> Iterator[str]:
    """Yield what is wrong with announcements in a version."""
    for text in texts:
        found = FORM.fullmatch(text)
        if found is None:
            yield f"{text!r}: say it as docs/deprecations.md does"
            continue
        since, until = (int(found[1]), int(found[2])), (int(found[3]), int(found[4]))
        if until <= now:
            yield f"{text!r}: it goes with this version"
        elif until[0] == since[0] and until[1] < since[1] + 2:
            yield f"{text!r}: it stays for two minor versions"
