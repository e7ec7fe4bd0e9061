"""Secrets in texts: where they stand, and what stands there instead; all in time that the length alone bounds."""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, Protocol, TypeAlias
from urllib.parse import quote, quote_plus

from reenact.domain.errors import RedactionError
from reenact.domain.loop.matchers.linear import Search, Span
from reenact.domain.marks import mark

Found: TypeAlias = tuple[int, int, str]
"""From where to where, and what it is."""

SHORTEST: Final = 4
"""Characters that a value has at least; a shorter one stands by chance in many texts."""
_SHORTEST_SECRET: Final = 5
_HASH_SIZE: Final = 8
_CUT_BY_BASE64: Final = {0: (0, 1), 1: (2, 1), 2: (3, 1)}

# None of them reads a character more often than a fixed number of times: what comes before the part that repeats cannot
# begin in it, or what repeats is bounded, or nothing has to follow it. Before each are texts of which it needs one.
KNOWN: Final[Mapping[str, tuple[tuple[str, ...], re.Pattern[str]]]] = {
    "api-key": (
        ("sk-",),
        re.compile(r"sk-ant-[A-Za-z0-9_-]{8,}|(?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{16,}"),
    ),
    "token": (
        ("gh", "glpat-", "xox", "AIza", "eyJ"),
        re.compile(
            r"(?:gh[oprsu]_|github_pat_|glpat-|xox[abeprs]-|AIza)[A-Za-z0-9_-]{16,}"
            r"|(?<![A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"
        ),
    ),
    "bearer-token": (
        ("bearer", "Bearer", "BEARER"),
        re.compile(r"(?:bearer|Bearer|BEARER)[\s\\]{1,8}(?P<secret>[A-Za-z0-9._~+/=-]{12,})"),
    ),
    "aws-key": (
        ("AKIA", "ASIA", "ABIA", "ACCA", "ccess", "CCESS"),
        re.compile(
            r"(?<![A-Z0-9])(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"
            r"|(?i:secret_?access_?key)[^A-Za-z0-9/+]{1,12}(?P<secret>[A-Za-z0-9/+]{40})"
        ),
    ),
    "password": (
        ("://",),
        re.compile(r"://[^\s/:@\"'<>]*:(?P<secret>[^\s/\"'<>]+)@"),
    ),
    "private-key": (
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
            r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)"
        ),
    ),
}
"""What has the form of a secret: keys of Anthropic and others, tokens, AWS keys, passwords in URLs, private keys."""


class Finder(Protocol):
    """Finds what must not stay in a text."""

    def find(self, text: str) -> Iterable[Found]:
        """Yield the places, in any order."""
        ...


class KnownSecrets:
    """Finds what has the form of a secret."""

    def find(self, text: str) -> Iterator[Found]:
        """Yield the places."""
        if len(text) < _SHORTEST_SECRET:
            return
        for name, (needed, pattern) in KNOWN.items():
            if not any(one in text for one in needed):
                continue
            for match in pattern.finditer(text):
                group = "secret" if match.groupdict().get("secret") is not None else 0
                yield (*match.span(group), name)


class Patterns:
    """Finds what regular expressions match, all that any of them could match."""

    def __init__(self, patterns: Mapping[str, str]) -> None:
        """Take the expressions by the names of what they find.

        Raises:
            ConfigurationError: one is none, or cannot be matched in bounded time.
        """
        self._searches = {name: Search(pattern) for name, pattern in patterns.items()}

    def find(self, text: str) -> Iterator[Found]:
        """Yield the places."""
        for name, search in self._searches.items():
            spans: list[Span] = search.spans(text)
            yield from ((begin, end, name) for begin, end in spans)


class Values:
    """Finds texts that are known, also as JSON, URLs and base64 write them."""

    def __init__(self, values: Sequence[str]) -> None:
        """Take the texts.

        Raises:
            RedactionError: one is too short.
        """
        for place, value in enumerate(values):
            if len(value) < SHORTEST:
                msg = f"value {place + 1} of the policy has less than {SHORTEST} characters, and stands in many texts"
                raise RedactionError(f"{msg}; make a pattern of it that says what stands around it")
        written = sorted(set(chain.from_iterable(map(_spellings, values))), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, written)) or r"(?!)")

    def find(self, text: str) -> Iterator[Found]:
        """Yield the places."""
        begin = 0
        while found := self._pattern.search(text, begin):
            yield (*found.span(), "value")
            begin = found.start() + 1  # the next one may overlap with it


class Texts:
    """Takes out of texts what any of the finders finds."""

    def __init__(self, finders: Sequence[Finder], hash_key: bytes | None = None) -> None:
        """Mark what is taken out with its keyed hash, if there is a key, so that equal values stay recognisable."""
        self._finders = finders
        self._hash_key = hash_key

    def cleaned(self, text: str) -> str:
        """Return the text with marks in the places of what was found; the text itself if nothing was."""
        found = sorted(place for finder in self._finders for place in finder.find(text))
        if not found:
            return text
        parts: list[str] = []
        kept_from = 0
        for begin, end, name in _merged(found):
            parts += (text[kept_from:begin], self.mark(name, text[begin:end]))
            kept_from = end
        return "".join((*parts, text[kept_from:]))

    def found_in(self, text: str) -> str | None:
        """Return the name of something that is found in the text, None if nothing is."""
        return next((name for finder in self._finders for _, _, name in finder.find(text)), None)

    def mark(self, name: str, content: str) -> str:
        """Return what stands in the place of a content."""
        if self._hash_key is None:
            return mark(name)
        digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=_HASH_SIZE, key=self._hash_key)
        return mark(f"{name} {digest.hexdigest()}")


def _merged(found: Sequence[Found]) -> Iterator[Found]:
    """Yield the places, those that overlap as one."""
    begin, end, name = found[0]
    for next_begin, next_end, next_name in found[1:]:
        if next_begin >= end:
            yield begin, end, name
            begin, end, name = next_begin, next_end, next_name
        end = max(end, next_end)
    yield begin, end, name


def _spellings(value: str) -> Iterator[str]:
    """Yield the ways in which the value may be written inside a text."""
    yield value
    for ascii_only in (True, False):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield once
        yield json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    content = value.encode()
    yield content.hex()
    yield content.hex().upper()
    for encode in (b64encode, urlsafe_b64encode):
        for offset, (before, after) in _CUT_BY_BASE64.items():
            # Of base64 the characters that bytes around it have a part in say too little to be found by.
            written = encode(bytes(offset) + content).decode()
            whole = written.rstrip("=")
            middle = whole[before : len(whole) - (after if (offset + len(content)) % 3 else 0)]
            if len(middle) >= SHORTEST:
                yield middle
