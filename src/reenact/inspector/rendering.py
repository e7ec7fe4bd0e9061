"""Pages as HTML: what a page is made of, and the templates that write it."""

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
    """A template and what it is filled with."""

    template: str
    values: Mapping[str, object]
    status: int = 200


class File(msgspec.Struct, frozen=True):
    """Text that is saved as a file of this name."""

    name: str
    text: str


View: TypeAlias = Callable[[Source, Address], Page | File]
"""Makes the page of an address, on a thread of its own; it may read, and raises what the reading raises."""

Act: TypeAlias = Callable[[Source, Address, Actions, Form], Page | str]
"""Does what a form asks for; returns the address at which that is seen, or the page that says why it was not done."""


@cache
def templates() -> Environment:
    """Return the templates: what they are filled with is text, and never markup."""
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: Mapping[str, Callable[..., object]] = {**FILTERS, **PHRASES, "fitted": fitted}
    made.filters.update(filters)
    return made


def compile_templates() -> None:
    """Compile all templates now, which takes half a second, so that nobody's first page waits for that."""
    for name in templates().list_templates():
        templates().get_template(name)


def render(page: Page, **frame: object) -> str:
    """Return the page as HTML; `frame` is what all pages have."""
    return templates().get_template(page.template).render(**frame, **page.values)
