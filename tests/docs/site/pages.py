"""The pages of the site in Markdown: those of the checkout, with links that hold there, and those made from code."""

from __future__ import annotations

import os.path
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.docs import api
from tests.docs.pages import ROOT
from tests.docs.site import commands
from tests.docs.site.navigation import COMMANDS, FROM_ROOT, FRONT, REFERENCE, SECTIONS

DOCS = ROOT / "docs"
FILES = "files"
"""Where files of the checkout are that pages link to and that are not pages: programs, schemas, pictures."""
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:)([^)#\s]+)((?:#[^)\s]*)?)(?=\))")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)


def listed() -> Iterator[str]:
    """Yield the names of all pages, in the order of the navigation, the front page first."""
    yield FRONT
    for names in SECTIONS.values():
        yield from names


def text(name: str) -> str:
    """Return a page in Markdown, with links that hold on the site."""
    if name == COMMANDS:
        return commands.page()
    if name.startswith(f"{REFERENCE}/"):
        return api.page(name.removeprefix(f"{REFERENCE}/"))
    path = source(name)
    return linked(path.read_text(encoding="utf-8"), lambda target: _on_site(path, target, name))


def source(name: str) -> Path:
    """Return the file in the checkout that a page is made of."""
    for file, page in FROM_ROOT.items():
        if page == name:
            return ROOT / file
    return DOCS / f"{name}.md"


def made(name: str) -> bool:
    """Return whether the page is made from the code, and is not a file of the checkout."""
    return name == COMMANDS or name.startswith(f"{REFERENCE}/")


def linked(page: str, on_site: Callable[[str], str]) -> str:
    """Return the page with other targets for its links, those in code excepted."""
    parts = _FENCE.split(page)
    return "".join(
        part if part.startswith("```") else _LINK.sub(lambda found: on_site(found[1]) + found[2], part)
        for part in parts
    )


def files(name: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that a page links to and that are not pages, and where they are on the site."""
    if made(name):
        return
    path = source(name)
    for part in _FENCE.split(path.read_text(encoding="utf-8"))[::2]:
        for found in _LINK.finditer(part):
            target = _target(path, found[1])
            if target.is_file() and target.suffix != ".md":
                yield target, _place(target)


def first_sentence(name: str) -> str:
    """Return what a page says of itself at its beginning, without marks."""
    said = _FENCE.sub("", text(name)).partition("\n")[2].strip().partition("\n\n")[0].replace("\n", " ")
    said = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", said)
    return re.split(r"(?<=[.:]) (?=[A-Z`])", re.sub(r"[*`]", "", said))[0]


def title(name: str) -> str:
    """Return the heading of a page."""
    return text(name).partition("\n")[0].removeprefix("# ").replace("`", "")


def stage(directory: Path) -> None:
    """Write all pages, and the files that they link to, below the directory."""
    for name in listed():
        page = directory / f"{name}.md"
        page.parent.mkdir(parents=True, exist_ok=True)
        page.write_text(text(name) + (_contents() if name == FRONT else ""), encoding="utf-8")
        for file, place in files(name):
            (directory / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, directory / place)


def _contents() -> str:
    """Return the navigation, as Sphinx has it."""
    return "".join(
        f'\n```{{toctree}}\n:hidden:\n:caption: "{caption}"\n\n{"".join(f"{name}{chr(10)}" for name in names)}```\n'
        for caption, names in SECTIONS.items()
    )


def _on_site(path: Path, link: str, name: str) -> str:
    """Return where a link of a page of the checkout leads on the site."""
    return os.path.relpath(_place(_target(path, link)), Path(name).parent)


def _target(path: Path, link: str) -> Path:
    return Path(os.path.normpath(path.parent / link))


def _place(target: Path) -> str:
    if target == ROOT / "examples":
        return "examples.md"
    if target.parent == ROOT and target.name in FROM_ROOT:
        return f"{FROM_ROOT[target.name]}.md"
    if target.is_relative_to(DOCS) and target.suffix == ".md":
        return target.relative_to(DOCS).as_posix()
    return f"{FILES}/{target.relative_to(ROOT).as_posix()}"
