"""Renders pages as HTML: the content of a page, and the templates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reenact.inspector.actions import Actions, Form
from reenact.inspector.addresses import Address
from reenact.inspector.fitting import fitted
from reenact.inspector.phrases import PHRASES
from reenact.inspector.source import Source
from reenact.inspector.text import FILTERS

HERE = Path(__file__).parent


class Page(msgspec.Struct, frozen=True):
    """A template and its values."""

    template: str
    values: Mapping[str, object]
    status: int = 200


class File(msgspec.Struct, frozen=True):
    """A text to be saved as a file of this name."""

    name: str
    text: str


View: TypeAlias = Callable[[Source, Address], Page | File]
"""Makes the page of an address, on a worker thread; it may read, and raises errors of reading."""

Act: TypeAlias = Callable[[Source, Address, Actions, Form], Page | str]
"""Carries out a form; returns the address of the result, or a page that says why it was not done."""


@cache
def templates() -> Environment:
    """Return the template environment; values are escaped as text."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., object]] = {one.__name__: one for one in (*FILTERS, *PHRASES, fitted)}
    made.filters.update(filters)
    return made


def compile_templates() -> None:
    """Compile all templates now, which takes half a second, so that the first page does not wait for it."""
    for name in templates().list_templates():
        templates().get_template(name)


def render(page: Page, **frame: object) -> str:
    """Return the page as HTML; `frame` has the values of all pages."""
    return templates().get_template(page.template).render(**frame, **page.values)
