"""Addresses of pages: the parameters of a page, and links to other pages."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from urllib.parse import urlencode

from reenact.domain.errors import InvalidInputError

_LARGEST = 1 << 62


def whole_number(text: str) -> int | None:
    """Return the text as a number from 0 on; None if it is not one, or larger than any in a log."""
    is_one = text.isascii() and text.isdecimal() and len(text) < 20  # noqa: PLR2004 - 64 bits
    return int(text) if is_one and int(text) < _LARGEST else None


class Address:
    """The address of a page: where the inspector is mounted, the page's path, and its query parameters."""

    def __init__(self, base: str, path: str, query: Mapping[str, str]) -> None:
        """Set where the inspector is mounted (empty for the root), and the page's own path and query."""
        self.base = base
        self.path = path
        self.query = query

    def text(self, name: str, default: str = "") -> str:
        """Return the parameter without surrounding spaces, or the default."""
        return self.query.get(name, default).strip()

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
        text = self.text(name, default) or default
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
