"""Renders pages as HTML: the address and the content of a page, and the templates."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from reenact.domain.errors import InvalidInputError
from reenact.inspector.actions import Actions, Form
from reenact.inspector.fitting import fitted
from reenact.inspector.phrases import PHRASES
from reenact.inspector.source import Source
from reenact.inspector.text import FILTERS

HERE = Path(__file__).parent
_LARGEST = 1 << 62


class Address(msgspec.Struct, frozen=True):
    """The address of a page: where the inspector is mounted (empty for the root), its path and query parameters."""

    base: str
    path: str
    query: Mapping[str, str]

    def text(self, name: str) -> str:
        """Return the parameter without surrounding spaces, or an empty string."""
        return self.query.get(name, "").strip()

    def required(self, name: str) -> str:
        """Return the parameter unchanged.

        Raises:
            InvalidInputError: the address does not have it.
        """
        if not self.query.get(name):
            raise InvalidInputError(f"this address names no {name}")
        return self.query[name]

    def number(self, name: str) -> int | None:
        """Return the parameter as a number from 0 on; None if it is missing.

        Raises:
            InvalidInputError: it is not such a number.
        """
        text = self.text(name)
        if not text:
            return None
        number = whole_number(text)
        if number is None:
            raise InvalidInputError(f"{name} must be a whole number of 0 or more, not {text!r}")
        return number

    def choice(self, name: str, choices: Collection[str], default: str) -> str:
        """Return the parameter, which must be one of the choices.

        Raises:
            InvalidInputError: it is not one of them.
        """
        text = self.text(name) or default
        if text not in choices:
            raise InvalidInputError(f"{name} must be one of {', '.join(choices)}, not {text!r}")
        return text

    def to(self, path: str, /, **query: object) -> str:
        """Return the address of another page; values that are None or empty are left out."""
        given = {name: str(value) for name, value in query.items() if value not in (None, "")}
        return f"{self.base}{path}{f'?{urlencode(given)}' if given else ''}"

    def but(self, /, **changes: object) -> str:
        """Return the address of this page with some parameters changed; None removes one."""
        return self.to(self.path, **{**self.query, **changes})


def whole_number(text: str) -> int | None:
    """Return the text as a number from 0 on; None if it is not one, or larger than any in a log."""
    is_one = text.isascii() and text.isdecimal() and len(text) < 20  # noqa: PLR2004 - 64 bits
    return int(text) if is_one and int(text) < _LARGEST else None


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
