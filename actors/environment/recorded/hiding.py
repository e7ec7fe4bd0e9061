"""Keys that a recording does not show: what is written in their place, and how a request that holds one is known again.

A runtime that replays may not know the key that the recording was made with. So of a key that stood in a request its
digest is in the file: who asks the same again shows the key, and what has this digest is taken for it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec

from reenact.domain.messages import Said

HIDDEN: Final = "***"
"""What stands in place of a key."""
_SHORTEST: Final = 6
"""Characters of the shortest key: less would be found in ordinary words."""
_SHORTEST_DIGESTED: Final = 16
"""Characters of the shortest key of which there is a digest: less could be guessed from it."""
_LONGEST_WORD: Final = 1024
"""Characters of the longest word in which a key is looked for; longer ones are data."""
_WORD: Final = re.compile(r"\S+")


class Digest(msgspec.Struct, frozen=True):
    """How long a key was, and its SHA-256 in hexadecimal digits."""

    length: Annotated[int, msgspec.Meta(ge=_SHORTEST_DIGESTED)]
    sha256: str


class Veil:
    """The keys that are known or can be recognised, and values without them. Not thread-safe.

    `secrets` is another object whenever one more is known.
    """

    def __init__(self, digests: Iterable[Digest] = (), *, names: frozenset[str] = frozenset()) -> None:
        """Take the digests of keys that are to be recognised; fields of these `names` keep them whatever they hold."""
        self.secrets: tuple[str, ...] = ()
        self._wanted = set(digests)
        self._names = names
        self._encoded: tuple[bytes, ...] = ()
        self._pattern = re.compile("(?!)")

    def learn(self, secret: str | None) -> None:
        """Hide this text from now on; one of a few characters is taken for no key."""
        if secret is None or len(secret) < _SHORTEST or secret in self.secrets:
            return
        self._wanted.discard(_digest(secret))
        escaped = _quoted(secret).decode()  # as it stands in JSON that is itself a text
        self.secrets = tuple(sorted({*self.secrets, secret, escaped}, key=lambda one: (-len(one), one)))
        self._encoded = tuple(map(_quoted, self.secrets))
        self._pattern = re.compile("|".join(map(re.escape, self.secrets)))

    def search(self, value: object) -> None:
        """Learn the keys in what can be encoded as JSON that have one of the digests."""
        if not self._wanted:
            return
        for text in _texts(msgspec.json.decode(msgspec.json.encode(value))):
            for word in _WORD.findall(text):
                for digest, secret in _digests_in(word, {one.length for one in self._wanted}):
                    if digest in self._wanted:
                        self.learn(secret)

    def digests(self, value: object) -> tuple[Digest, ...]:
        """Return the digests of the known keys that stand in what can be encoded as JSON."""
        line = msgspec.json.encode(value)
        return tuple(
            _digest(secret)
            for secret, encoded in zip(self.secrets, self._encoded, strict=True)
            if len(secret) >= _SHORTEST_DIGESTED and encoded in line
        )

    def line(self, value: object) -> bytes:
        """Return the value as JSON without the keys."""
        line = msgspec.json.encode(value)
        return msgspec.json.encode(self._without(msgspec.json.decode(line))) if self._holds(line) else line

    def said(self, said: Said) -> Said:
        """Return the message without the keys."""
        line = msgspec.json.encode(said)
        return msgspec.convert(self._without(msgspec.json.decode(line)), Said) if self._holds(line) else said

    def text(self, text: str) -> str:
        """Return the text without the keys."""
        return self._pattern.sub(HIDDEN, text)

    def pieces(self, pieces: Sequence[str]) -> list[str]:
        """Return as many pieces of the same text without the keys, also those that go over several of them."""
        whole = "".join(pieces)
        spans = [found.span() for found in self._pattern.finditer(whole)]
        result: list[str] = []
        begin = 0
        for piece in pieces:
            end, kept, at = begin + len(piece), "", begin
            for start, stop in spans:
                if start < end and stop > begin:
                    kept += whole[at : max(at, start)] + (HIDDEN if start >= begin else "")
                    at = min(stop, end)
            result.append(kept + whole[at:end])
            begin = end
        return result

    def _holds(self, line: bytes) -> bool:
        return any(encoded in line for encoded in self._encoded)

    def _without(self, value: Any) -> Any:  # noqa: ANN401 - decoded JSON
        match value:
            case str():
                return self.text(value)
            case list():
                return [self._without(one) for one in msgspec.convert(value, list[Any])]
            case dict():
                fields = msgspec.convert(value, dict[str, Any])
                return {
                    name if name in self._names else self.text(name): self._without(one) for name, one in fields.items()
                }
            case _:
                return value


def _digest(secret: str) -> Digest:
    return Digest(len(secret), hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest())


def _digests_in(word: str, lengths: Iterable[int]) -> Iterator[tuple[Digest, str]]:
    if len(word) <= _LONGEST_WORD:
        for length in lengths:
            for start in range(len(word) - length + 1):
                piece = word[start : start + length]
                yield _digest(piece), piece


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)[1:-1]


def _texts(value: Any) -> Iterator[str]:  # noqa: ANN401 - decoded JSON
    match value:
        case str():
            yield value
        case list():
            for one in msgspec.convert(value, list[Any]):
                yield from _texts(one)
        case dict():
            for name, one in msgspec.convert(value, dict[str, Any]).items():
                yield name
                yield from _texts(one)
        case _:
            pass
