"""Reads Markdown files with front matter: YAML between two lines `---` at the beginning."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import NamedTuple, TypeGuard

from reenact._yaml import InvalidYAMLError, Path, Place, read_yaml_with_places
from reenact.domain.plain import is_mapping
from reenact.domain.structs import FrozenByName
from reenact.domain.tools import is_array
from reenact.extensions.files import Allowance, MalformedError

LARGEST = 8_000
"""Maximum length of a front matter in characters: YAML is slow to parse."""
LARGEST_IN_ALL = 100_000
"""Maximum length of all front matter in a `.reenact` together, in characters."""
LONGEST = 1_024
"""Maximum length of a description in characters."""

_FENCE = "---"
_MERGE = "<<"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_WORDS = re.compile(r"[^\s,(]+(?:\([^()]*\))?")


class Where(NamedTuple):
    """The origin of a Markdown file: the default name of its extension, its path, and its source."""

    name: str
    path: str
    source: str


class Extension(FrozenByName, kw_only=True):
    """Base of skills, commands and agents; `notes` say what in the file has no effect here."""

    name: str
    description: str
    path: str
    source: str
    notes: tuple[str, ...] = ()


class Document:
    """A Markdown file: its `whole` text, its `body`, and access to the fields of its front matter by their keys."""

    def __init__(
        self, whole: str, body: str, fields: Mapping[str, object] = {}, places: Mapping[Path, Place] | None = None
    ) -> None:
        """Take the fields and their places in the front matter, which begins on the second line of the file."""
        self.whole = whole
        self.body = body
        self._fields = fields
        self._places = places or {}

    def text(self, key: str) -> str | None:
        """Return the text of a field; None if the field is missing.

        Raises:
            MalformedError: the field is not text, or blank.
        """
        value = self._fields.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self._wrong(key, f"must be text, not {_kind(value)}; put it in quotes")
        if not value.strip():
            raise self._wrong(key, "is blank")
        return value.strip()

    def description(self) -> str | None:
        """Return the description on one line; None if it is missing; raises the same errors as `text`."""
        text = self.text("description")
        if text is None:
            return None
        if len(text) > LONGEST:
            raise self._wrong("description", f"has {len(text):,} characters; {LONGEST:,} are used at most")
        return " ".join(text.split())

    def words(self, key: str) -> tuple[str, ...] | None:
        """Return the names in a field that is a list, or text separated by commas or blanks; None if it is missing.

        Raises:
            MalformedError: the field is neither.
        """
        value = self._fields.get(key)
        if value is None:
            return None
        if isinstance(value, str):
            return tuple(_WORDS.findall(value))
        if _is_texts(value):
            return tuple(value)
        raise self._wrong(key, f"must be text or a list of texts, not {_kind(value)}")

    def hint(self, key: str) -> str | None:
        """Return the text of a field; a YAML list is converted back to `[…]`; raises the same errors as `text`."""
        value = self._fields.get(key)
        text = f"[{', '.join(value)}]" if _is_texts(value) else self.text(key)
        return None if text is None else " ".join(text.split())

    def name(self, otherwise: str) -> str:
        """Return the `name`, or else that of the file.

        Raises:
            MalformedError: the name is invalid.
        """
        name = self.text("name")
        if not _NAME.fullmatch(name or otherwise):
            what = f"{name or otherwise!r:.80} is not a name: it has 1 to 64 of the letters a-z, A-Z, digits, - and _"
            raise MalformedError(what) if name is None else self._wrong("name", what)
        return name or otherwise

    def must(self, key: str, value: str | None) -> str:
        """Return the value of a required field; raise `MalformedError` if it is missing."""
        if value is None:
            raise MalformedError(f"the front matter has no `{key}`", 1)
        return value

    def filled_body(self) -> str:
        """Return the body; raise `MalformedError` if it is blank."""
        body = self.body.strip()
        if not body:
            raise MalformedError("there is no text behind the front matter")
        return body

    def without_effect(self, known: Collection[str]) -> tuple[str, ...]:
        """Return notes on the fields that have no effect here."""
        unknown = [" ".join(key.split()) for key in self._fields if key not in known]
        return (f"without effect here: {', '.join(unknown):.200}",) if unknown else ()

    def _wrong(self, key: str, what: str) -> MalformedError:
        place = self._places.get((key,))
        return MalformedError(f"`{key}` {what}", 1 if place is None else place[0] + 1)


def read_document(text: str, allowance: Allowance) -> Document:
    """Split the file into its body and its optional front matter, and deduct the length of that from the allowance.

    Raises:
        MalformedError: the front matter has no end, is too large, is not YAML that we read, or no mapping.
    """
    header, body = _split(text)
    if header is None:
        return Document(text, text)
    if len(header) > LARGEST:
        raise MalformedError(f"the front matter has {len(header):,} characters; {LARGEST:,} are read at most", 1)
    allowance.take(len(header))
    if header.lstrip().startswith("%"):
        raise MalformedError("lines that begin with `%` are not read here", 2 + _lines_to(header, "%"))
    if "\ufeff" in header:
        raise MalformedError(
            "a byte order mark is allowed only at the beginning of a file", 2 + _lines_to(header, "\ufeff")
        )
    try:
        content, places = read_yaml_with_places(header)
    except InvalidYAMLError as error:
        line = 1 if error.line is None else error.line + 1
        problem = " ".join(error.problem.split())
        raise MalformedError(f"the front matter cannot be read: {problem}; text may need quotes", line) from None
    if content is None:
        return Document(text, body)
    if not is_mapping(content) or not all(isinstance(key, str) for key in content):
        raise MalformedError("the front matter must be lines of `key: value`", 2)
    if _MERGE in content:
        raise MalformedError(
            f"the key `{_MERGE}` merges nothing here; write out what it stands for", places[_MERGE,][0] + 1
        )
    return Document(text, body, {str(key): value for key, value in content.items()}, places)


def _lines_to(header: str, what: str) -> int:
    return header.count("\n", 0, header.index(what))


def _split(text: str) -> tuple[str | None, str]:
    """Return the front matter, None if there is none, and the body."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return None, text
    end = next((number for number, line in enumerate(lines[1:], start=1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise MalformedError("the front matter that begins here has no end: a line of its own, `---`", 1)
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :])


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return is_array(value) and all(isinstance(one, str) for one in value)


def _kind(value: object) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "a mapping"
