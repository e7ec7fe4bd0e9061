"""Removes fields named by a policy, and secrets, from values, without changing the types of values.

Everything that holds a history together is kept, since nothing could be read without it: ids, digests, kinds, numbers,
times.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from hashlib import blake2b
from itertools import chain
from typing import Final, TypeAlias, TypeVar
from urllib.parse import quote, quote_plus

import msgspec

from reenact.domain.errors import RedactionError
from reenact.domain.marks import REDACTED, mark
from reenact.domain.messages import OpaqueBlock, ThinkingBlock
from reenact.domain.plain import is_mapping, is_sequence
from reenact.domain.policy.expressions import Search
from reenact.projections.transfer.policy import ANY, FieldPath, stays

Found: TypeAlias = tuple[int, int, str]
"""The beginning and end of a place, and the name of what was found there."""

SHORTEST = 4
"""The least length of a value, in characters; a shorter one occurs in many texts by chance."""
_SHORTEST_SECRET = 5
_HASH_SIZE = 8
_CUT_BY_BASE64 = {0: (0, 1), 1: (2, 1), 2: (3, 1)}

# Matching takes linear time: the part before a repetition cannot begin within it, or the repetition is bounded, or
# nothing must follow it. Each pattern comes with texts of which a match contains at least one.
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
"""Patterns of secrets: keys of Anthropic and others, tokens, AWS keys, passwords in URLs, private keys."""


Finder: TypeAlias = Callable[[str], Iterable[Found]]
"""Yields the places to redact in a text, in any order."""


def known_secrets(text: str) -> Iterator[Found]:
    """Yield the places of texts in the form of a secret."""
    if len(text) < _SHORTEST_SECRET:
        return
    for name, (needed, pattern) in KNOWN.items():
        if any(one in text for one in needed):
            for match in pattern.finditer(text):
                group = "secret" if match.groupdict().get("secret") is not None else 0
                yield (*match.span(group), name)


def matches_of(patterns: Mapping[str, str]) -> Finder:
    """Return a finder of all that any of the regular expressions matches, which are given by name.

    Raises:
        ConfigurationError: a pattern is not valid, or cannot be matched in bounded time.
    """
    searches = [(name, Search(pattern)) for name, pattern in patterns.items()]
    return lambda text: ((*span, name) for name, search in searches for span in search.spans(text))


def values_in(values: Sequence[str]) -> Finder:
    """Return a finder of the texts, also in their JSON, URL, hexadecimal and base64 encodings.

    Raises:
        RedactionError: a text is too short.
    """
    for place, value in enumerate(values, 1):
        if len(value) < SHORTEST:
            message = f"value {place} of the policy has less than {SHORTEST} characters, and occurs in many texts"
            raise RedactionError(f"{message}; make it a pattern that includes what surrounds it")
    if not values:
        return lambda _text: ()
    written = sorted(set(chain.from_iterable(map(_spellings, values))), key=len, reverse=True)
    # A look-ahead consumes nothing, so that overlapping places are found, too.
    pattern = re.compile(f"(?=({'|'.join(map(re.escape, written)) or '(?!)'}))")
    return lambda text: ((*found.span(1), "value") for found in pattern.finditer(text))


class Texts:
    """Replaces everything that any of the finders finds in texts by marks."""

    def __init__(self, finders: Sequence[Finder], hash_key: bytes | None = None) -> None:
        """With a key, marks contain a keyed hash of the removed text, so that equal values have equal marks."""
        self._finders = finders
        self._hash_key = hash_key
        self._found_in = lru_cache(maxsize=10_000)(self._find)

    def cleaned(self, text: str) -> str:
        """Return the text with marks in place of the findings; the text itself if there are none."""
        found = sorted(place for finder in self._finders for place in finder(text))
        if not found:
            return text
        parts: list[str] = []
        kept_from = 0
        for begin, end, name in _merged(found):
            parts += (text[kept_from:begin], self.mark(name, text[begin:end]))
            kept_from = end
        return "".join((*parts, text[kept_from:]))

    def check_kept(self, text: str, where: str) -> None:
        """Check a text that must be kept, at a place that errors name.

        Raises:
            RedactionError: the policy finds something in it.
        """
        found = self._found_in(text)
        if found is not None:
            raise RedactionError(
                f"what the policy calls {found!r} is in {where}, which must stay, because other records name it; "
                "export without that session, or let the policy say more exactly what it means"
            )

    def mark(self, name: str, content: str) -> str:
        """Return the mark for removed content."""
        if self._hash_key is None:
            return mark(name)
        digest = blake2b(content.encode("utf-8", "surrogatepass"), digest_size=_HASH_SIZE, key=self._hash_key)
        return mark(f"{name} {digest.hexdigest()}")

    def _find(self, text: str) -> str | None:
        """Return the name of a finding in the text, None if there is none."""
        return next((name for finder in self._finders for _, _, name in finder(text)), None)


def _merged(found: Sequence[Found]) -> Iterator[Found]:
    """Yield the places, with overlapping ones merged."""
    begin, end, name = found[0]
    for next_begin, next_end, next_name in found[1:]:
        if next_begin >= end:
            yield begin, end, name
            begin, end, name = next_begin, next_end, next_name
        end = max(end, next_end)
    yield begin, end, name


def _spellings(value: str) -> Iterator[str]:
    """Yield the encodings in which the value may occur inside a text."""
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
            # Base64 characters that also encode neighbouring bytes are cut off, since they vary.
            written = encode(bytes(offset) + content).decode()
            whole = written.rstrip("=")
            middle = whole[before : len(whole) - (after if (offset + len(content)) % 3 else 0)]
            if len(middle) >= SHORTEST:
                yield middle


Paths: TypeAlias = Collection[FieldPath]
"""The paths, relative to a value, of what is removed from it; () is the whole value."""
Extra: TypeAlias = Callable[[msgspec.Struct], Paths]
"""Returns further paths to remove from a value, depending on its content."""

FIELD = "field"
"""The name in the mark of a removed field; it is the same in all copies of the value."""

_NAMES = frozenset({"type", "name"})
"""The fields of a removed struct that are kept, unless a path of the policy leads to them."""
_FORMS = {"text": mark("x"), "mapping": {REDACTED: mark("x")}, "empty": (), "nothing": None}
_EMPTIED = frozenset({"original", "extra", "citations"})
"""Fields that are removed without a mark if they are optional: their readers expect a certain form."""

_Struct = TypeVar("_Struct", bound=msgspec.Struct)


class Remover:
    """Removes what a policy names from values, without changing their types."""

    def __init__(self, texts: Texts, extra: Extra) -> None:
        """Clean all texts with `texts`; `extra` is called with every struct."""
        self._texts = texts
        self._extra = extra

    def struct(self, value: _Struct, paths: Paths, name: str) -> _Struct:
        """Return the struct without the content at these paths, itself if nothing changes; errors contain the name.

        Raises:
            RedactionError: the policy would remove something that must be kept.
        """
        paths = [*paths, *self._extra(value)]
        changes: dict[str, object] = {}
        for field in value.__struct_fields__:
            before = getattr(value, field)
            after = self._field(value, field, before, below(paths, field), f"{name}.{field}")
            if after is not before:
                changes[field] = after
        if not changes:
            return value
        if isinstance(value, ThinkingBlock) and "thinking" in changes:
            changes["signature"] = None  # the signature is that of the original thought
        return msgspec.structs.replace(value, **changes)

    def free(self, value: object, paths: Paths, name: str) -> object:
        """Do the same for plain data of any type."""
        if () in paths:
            return self._texts.mark(FIELD, _as_text(value))
        match value:
            case str():
                return self._texts.cleaned(value)
            case bool() | None:
                return value
            case int() | float():
                text = str(value)
                cleaned = self._texts.cleaned(text)
                return value if cleaned == text else cleaned
            case msgspec.Struct():
                return self.struct(value, paths, name)
            case _ if is_mapping(value):
                return self._mapping(value, paths, name)
            case _ if is_sequence(value):
                items = [self.free(one, paths, name) for one in value]
                if all(after is before for after, before in zip(items, value, strict=True)):
                    return value
                return tuple(items) if isinstance(value, tuple) else items
            case _:
                return value  # times, and other values without text

    def _mapping(self, value: Mapping[object, object], paths: Paths, name: str) -> object:
        made: dict[object, object] = {}
        changed = False
        for key, before in value.items():
            after = self.free(before, below(paths, str(key)), name)
            kept = new = self._texts.cleaned(key) if isinstance(key, str) else key
            number = 1
            while new in made:
                number += 1
                new = f"{kept} {number}"
            changed = changed or after is not before or new != key
            made[new] = after
        return made if changed else value

    def _field(self, owner: msgspec.Struct, field: str, value: object, paths: Paths, name: str) -> object:
        if () in paths and not stays(type(owner), field):
            return self._replacement(type(owner), field, value, paths, name)
        paths = [path for path in paths if path and not stays(type(owner), field)]
        if isinstance(value, str):
            return self._cleaned(owner, field, value, name)
        if isinstance(value, int | float | None) and not may_be(type(owner), field, "text"):
            return value
        try:
            return self.free(value, paths, name)
        except RecursionError:  # a value too deep to be searched may hold anything, so all of it is removed
            return self._replacement(type(owner), field, value, paths, name)

    def _cleaned(self, owner: msgspec.Struct, field: str, value: str, name: str) -> str:
        if not may_be(type(owner), field, "text"):
            return value
        if not stays(type(owner), field):
            return self._texts.cleaned(value)
        self._texts.check_kept(value, name)
        return value

    def _replacement(self, owner: type, field: str, value: object, paths: Paths, name: str) -> object:
        """Return the replacement for a field's value."""
        if isinstance(value, msgspec.Struct):
            return self._with_content_marked(value, paths, name)
        if is_sequence(value) and value and all(isinstance(one, msgspec.Struct) for one in value):
            items = tuple(
                self._with_content_marked(one, paths, name) for one in value if isinstance(one, msgspec.Struct)
            )
            return items if isinstance(value, tuple) else list(items)
        if value is None or (field in _EMPTIED and may_be(owner, field, "nothing")):
            return None
        told = self._texts.mark(FIELD, _as_text(value))
        if may_be(owner, field, "text"):
            return told
        if is_mapping(value) and may_be(owner, field, "mapping"):
            return {REDACTED: told}
        if is_sequence(value) and may_be(owner, field, "empty"):
            return ()
        return value

    def _with_content_marked(self, value: _Struct, paths: Paths, name: str) -> _Struct:
        """Return the struct with its content replaced by marks; the fields in `_NAMES` only if a path leads to them."""
        if isinstance(value, OpaqueBlock):  # others need its type in order to skip it
            told = self._texts.mark(FIELD, _as_text(value.data))
            return msgspec.structs.replace(value, data={"type": value.data.get("type", "text"), REDACTED: told})
        emptied = [(field,) for field in value.__struct_fields__ if field not in _NAMES]
        return self.struct(value, [*emptied, *(path for path in paths if path)], name)


def below(paths: Paths, name: str) -> Paths:
    """Return the paths relative to the member of this name."""
    return [path[1:] for path in paths if path and path[0] in (name, ANY)] if paths else ()


@cache
def may_be(owner: type, field: str, form: str) -> bool:
    """Return whether the field's type accepts this form."""
    kind: object = next((one.type for one in msgspec.structs.fields(owner) if one.name == field), None)
    try:
        msgspec.convert(_FORMS[form], kind)
    except msgspec.ValidationError:
        return False
    return True


def _as_text(value: object) -> str:
    """Return the value as text, which is equal for equal values."""
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value, order="deterministic", enc_hook=repr).decode()
