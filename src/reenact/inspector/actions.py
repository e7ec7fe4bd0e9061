"""Actions of people on the pages, which the runtime that writes the log carries out, in a person's name."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from reenact.actors.api.asking import Asking
from reenact.domain.errors import InvalidInputError
from reenact.inspector.source import Source

LARGEST: Final = 4_000_000
"""The most bytes of a form that are read."""
FIELDS: Final = 200
_TYPE = "application/x-www-form-urlencoded"
_CATCH_UP = 2.0
"""Seconds that a page waits for the tables to include what was just done."""


class Actions:
    """The actions, carried out by the runtime that has the log open for writing, here or behind a server.

    `by` is the name that is recorded for decisions. `form` is a value in each form, which only pages with the cookie
    get.
    """

    def __init__(self, owner: Asking, by: str, token: str) -> None:
        """Set the runtime, which the caller still has to close, and the token for the pages."""
        self.owner = owner
        self.by = by
        self.form = hmac.new(token.encode(), b"the forms of the inspector", hashlib.sha256).hexdigest()

    def check(self, form: Form) -> None:
        """Check that the form was sent by one of the inspector's own pages.

        Raises:
            InvalidInputError: it was not.
        """
        if not hmac.compare_digest(form.text("form").encode(), self.form.encode()):
            raise InvalidInputError("this inspector has not made that form, or an earlier one has; load its page again")


class Form:
    """The fields of a form, as they were sent."""

    def __init__(self, fields: Mapping[str, list[str]]) -> None:
        self._fields = fields

    @classmethod
    async def reading(cls, request: Request) -> Callable[[], Form]:
        """Receive the form, and return a function that parses it."""
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST:
                break
        return partial(cls.of, request.headers.get("content-type", ""), bytes(body))

    @classmethod
    def of(cls, kind: str, body: bytes) -> Form:
        """Parse the form.

        Raises:
            InvalidInputError: it is not a form, or too large.
        """
        if kind.partition(";")[0].strip() != _TYPE:
            raise InvalidInputError(f"a form comes as {_TYPE}")
        if len(body) > LARGEST:
            raise InvalidInputError(f"a form has at most {LARGEST} bytes")
        try:
            return cls(parse_qs(body.decode(), keep_blank_values=True, max_num_fields=FIELDS, errors="strict"))
        except ValueError as error:
            raise InvalidInputError(f"the form cannot be read: {error}") from None

    def text(self, name: str) -> str:
        """Return the value of the field, or an empty string if there is none."""
        return next(iter(self.all(name)), "")

    def all(self, name: str) -> list[str]:
        """Return all values of the field."""
        return [value.replace("\r\n", "\n") for value in self._fields.get(name, ())]


def catch_up(source: Source) -> None:
    """Wait until the tables include all that the log has now, or until a time limit."""
    head, until = source.log.head(), time.monotonic() + _CATCH_UP
    source.tables.refresh()
    while source.tables.position() < head and time.monotonic() < until:
        time.sleep(0.01)
