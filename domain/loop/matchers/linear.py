"""Regular expressions whose time is bounded by the length of the text, whatever the text is.

Python's own `re` may take years over thirty characters, and lets no other thread run meanwhile; what a model wrote must
not be able to do that. So the text is read once, with all ways to match it followed at the same time. What cannot be
matched like that (look-ahead, look-behind, references back, possessive and atomic groups) is refused. What a single
character is, and what is a well-formed expression, stays for `re` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias, assert_never

from reenact.domain.errors import ConfigurationError

MAX_NODES: Final = 2_000
MAX_WORK: Final = 5_000_000
"""Nodes times characters: a few seconds at the worst."""
_MAX_KNOWN = 5_000

_ATOM = re.compile(
    r"""\[\^?\]?(?:\\.|[^\]\\])*\]
    |\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-3][0-7]{2}|[^0-9])
    |[^\\\[\](){}|*+?^$]
    |[\]{}]""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT = re.compile(r"([*+?]|\{(\d*),(\d*)\}|\{(\d+)\})([?+]?)")
_GROUP = re.compile(r"\((?!\?)|\(\?P<\w+>|\(\?([is]*)(?:-([is]+))?:")
_GLOBAL = re.compile(r"\(\?([is]+)\)")
_LOOKS: Final = ("\\A", "\\Z", "\\z", "\\b", "\\B", "^", "$")


class One(NamedTuple):
    """A single character, as `re` would have it."""

    accepts: re.Pattern[str]


class Look(NamedTuple):
    """A place between two characters."""

    kind: str


class All(NamedTuple):
    """One after the other."""

    of: tuple[Piece, ...]


class Any(NamedTuple):
    """One of them."""

    of: tuple[Piece, ...]


class Repeat(NamedTuple):
    """The same again, at least and at most so many times."""

    of: Piece
    least: int
    most: int | None


Piece: TypeAlias = One | Look | All | Any | Repeat


class Node(NamedTuple):
    """A state: what must come next, and where it leads."""

    wants: One | Look | None
    leads: tuple[int, ...]


class Expression:
    """A regular expression, ready to be held against texts.

    Raises:
        ConfigurationError: it is none, is too large, or cannot be matched in bounded time.
    """

    def __init__(self, pattern: str) -> None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError, Warning) as error:
            msg = f"{pattern[:80]!r} is no regular expression: {error}"
            raise ConfigurationError(msg) from None
        self._nodes: list[Node] = [Node(None, ())]
        self.piece = _Reader(pattern).read()
        """What it is made of."""
        self._start = self._build(self.piece, 0)
        self._looks = any(isinstance(node.wants, Look) for node in self._nodes)
        self._known: dict[tuple[frozenset[int], str, str, bool], frozenset[int]] = {}

    @property
    def nodes(self) -> Sequence[Node]:
        """Its states; the first of them ends a match."""
        return self._nodes

    @property
    def start(self) -> int:
        """The state that a match begins in."""
        return self._start

    @property
    def looks(self) -> bool:
        """Whether places between characters matter."""
        return self._looks

    def takes(self, text: str) -> bool:
        """Return whether the text is short enough to be held against this expression."""
        return len(text) * len(self._nodes) <= MAX_WORK

    def fullmatch(self, text: str) -> bool:
        """Return whether the whole text matches."""
        states, before, last = frozenset({self._start}), "", len(text) - 1
        for index, character in enumerate(text):
            key = (states, before, character, index == last) if self._looks else (states, "", character, False)
            following = self._known.get(key)
            if following is None:
                if len(self._known) >= _MAX_KNOWN:
                    self._known.clear()
                following = self._known[key] = self._after(states, before, character, final=index == last)
            if not following:
                return False
            states, before = following, character
        return 0 in self._reached(states, before, "", final=True)

    def _after(self, states: frozenset[int], before: str, character: str, *, final: bool) -> frozenset[int]:
        nodes = (self._nodes[state] for state in self._reached(states, before, character, final=final))
        return frozenset(
            node.leads[0] for node in nodes if isinstance(node.wants, One) and node.wants.accepts.match(character)
        )

    def _reached(self, states: frozenset[int], before: str, after: str, *, final: bool) -> set[int]:
        """Return these states and those that they lead to without a character."""
        return reached_from(self._nodes, states, before, after, final=final)

    def _build(self, piece: Piece, then: int) -> int:
        """Return the state from which the piece leads to `then`."""
        match piece:
            case One() | Look():
                return self._node(piece, (then,))
            case All(of):
                for one in reversed(of):
                    then = self._build(one, then)
                return then
            case Any(of):
                return self._node(None, tuple(self._build(one, then) for one in of))
            case Repeat(of, least, most):
                return self._repeat(of, least, most, then)
            case _:
                assert_never(piece)

    def _repeat(self, piece: Piece, least: int, most: int | None, then: int) -> int:
        if most is None:
            again = self._node(None, (then,))
            self._nodes[again] = Node(None, (self._build(piece, again), then))
            then = again
        else:
            after = then
            for _ in range(most - least):
                then = self._node(None, (self._build(piece, then), after))
        for _ in range(least):
            then = self._build(piece, then)
        return then

    def _node(self, wants: One | Look | None, leads: tuple[int, ...]) -> int:
        if len(self._nodes) >= MAX_NODES:
            msg = f"a regular expression is too large: spelled out, it has more than {MAX_NODES} places; repeat less"
            raise ConfigurationError(msg)
        self._nodes.append(Node(wants, leads))
        return len(self._nodes) - 1


def reached_from(nodes: Sequence[Node], states: Iterable[int], before: str, after: str, *, final: bool) -> set[int]:
    """Return these states and those that they lead to without a character, between these two characters."""
    reached = set(states)
    waiting = list(reached)
    while waiting:
        node = nodes[waiting.pop()]
        if isinstance(node.wants, One) or (node.wants and not holds(node.wants.kind, before, after, final=final)):
            continue
        new = [state for state in node.leads if state not in reached]
        reached.update(new)
        waiting.extend(new)
    return reached


def holds(kind: str, before: str, after: str, *, final: bool) -> bool:
    """Return whether a place is of this kind; `final` tells that what comes behind it is the last character."""
    match kind:
        case "^" | "\\A":
            return not before
        case "\\Z" | "\\z":
            return not after
        case "$":
            return not after or (after == "\n" and final)
        case _:
            at_edge = _is_word(before) != _is_word(after)
            return at_edge == (kind == "\\b")


def _is_word(character: str) -> bool:
    return character == "_" or character.isalnum()


class _Reader:
    """Reads a well-formed expression into its pieces."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> Piece:
        flags = ""
        if found := _GLOBAL.match(self._pattern):
            flags, self._at = found[1], found.end()
        return self._choice(flags)

    def _choice(self, flags: str) -> Piece:
        """Read up to the end of the group, or of everything."""
        choices = [self._sequence(flags)]
        while self._next() == "|":
            self._at += 1
            choices.append(self._sequence(flags))
        return choices[0] if len(choices) == 1 else Any(tuple(choices))

    def _sequence(self, flags: str) -> Piece:
        pieces: list[Piece] = []
        while self._next() not in {"", "|", ")"}:
            pieces.append(self._repeated(self._piece(flags)))
        return All(tuple(pieces))

    def _piece(self, flags: str) -> Piece:
        if look := next((look for look in _LOOKS if self._pattern.startswith(look, self._at)), None):
            self._at += len(look)
            return Look(look)
        if found := _GROUP.match(self._pattern, self._at):
            self._at = found.end()
            inner = self._choice("".join(set(flags) - set(found[2] or "")) + (found[1] or ""))
            self._at += 1
            return inner
        if found := _ATOM.match(self._pattern, self._at):
            self._at = found.end()
            return One(
                re.compile(found[0], (re.IGNORECASE if "i" in flags else 0) | (re.DOTALL if "s" in flags else 0))
            )
        raise self._refused()

    def _repeated(self, piece: Piece) -> Piece:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return piece
        sign, least, most, exactly, manner = found.groups()
        if manner == "+":
            raise self._refused()
        self._at = found.end()
        if exactly is not None:
            return Repeat(piece, int(exactly), int(exactly))
        if least is not None:
            return Repeat(piece, int(least or 0), int(most) if most else None)
        return Repeat(piece, 1 if sign == "+" else 0, 1 if sign == "?" else None)

    def _next(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _refused(self) -> ConfigurationError:
        return ConfigurationError(
            f"the regular expression {self._pattern[:80]!r} cannot be matched in bounded time, for what stands at "
            f"{self._at}: it may not look ahead or behind, refer back, or repeat possessively, and of the flags it may "
            "have only i and s; for what must not match, put a rule before this one"
        )
