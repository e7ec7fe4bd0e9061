"""Regular expressions whose matching time is bounded by the length of the text, whatever the text is.

Python's own `re` may take years for thirty characters, and blocks all other threads meanwhile; a text written by a
model must not be able to cause that. So the text is read once, and all ways to match it are followed at the same time.
Constructs that cannot be matched like that (look-ahead, look-behind, back references, possessive and atomic groups) are
refused. `re` still decides what a single character matches, and whether an expression is well-formed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias, assert_never

from reenact.domain.errors import ConfigurationError

MAX_NODES = 2_000
MAX_WORK = 5_000_000
"""The greatest product of nodes and characters: a few seconds at worst."""
_MAX_CACHED = 5_000
_END = 0
"""The accepting state."""

_ATOM = re.compile(
    r"""\[\^?\]?(?:\\.|[^\]\\])*\]
    |\\(?:x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|0[0-7]{0,2}|[1-3][0-7]{2}|[^0-9])
    |[^\\\[\](){}|*+?^$]
    |[\]{}]""",
    re.VERBOSE | re.DOTALL,
)
_REPEAT = re.compile(r"([*+?]|\{(\d*),(\d*)\}|\{(\d+)\})([?+]?)")
_GROUP = re.compile(r"\((?!\?)|\(\?P<\w+>|\(\?([is]*)(?:-([is]+))?:")
_PLAIN = re.compile(r"[^\\.\[\](){}|*+?^$]|\\([^\w\s])", re.DOTALL)
_GLOBAL = re.compile(r"\(\?([is]+)\)")
_LOOKS = ("\\A", "\\Z", "\\z", "\\b", "\\B", "^", "$")


class One(NamedTuple):
    """A single character, matched by `re`."""

    accepts: re.Pattern[str]


class Look(NamedTuple):
    """An assertion about a place between two characters."""

    kind: str


class All(NamedTuple):
    """A sequence of pieces."""

    of: tuple[Piece, ...]


class AnyOf(NamedTuple):
    """A choice between pieces."""

    of: tuple[Piece, ...]


class Repeat(NamedTuple):
    """A repetition of a piece, at least `least` and at most `most` times."""

    of: Piece
    least: int
    most: int | None


Piece: TypeAlias = One | Look | All | AnyOf | Repeat


class Node(NamedTuple):
    """A state of the automaton: what it consumes or asserts, and the states that follow it."""

    wants: One | Look | None
    leads: tuple[int, ...]


Span: TypeAlias = tuple[int, int]
_States: TypeAlias = frozenset[int]


class Expression:
    """A compiled regular expression.

    Raises:
        ConfigurationError: the pattern is not valid, is too large, or cannot be matched in bounded time.
    """

    def __init__(self, pattern: str) -> None:
        try:
            re.compile(pattern)
        except (re.error, RecursionError, OverflowError, Warning) as error:
            raise ConfigurationError(f"{pattern[:80]!r} is not a regular expression: {error}") from None
        self._nodes: list[Node] = [Node(None, ())]
        self._piece = _Reader(pattern).read()
        self._start = self._build(self._piece, _END)
        self._has_assertions = any(isinstance(node.wants, Look) for node in self._nodes)
        self._restart_states: _States = frozenset()
        """The states that are entered after every character."""
        self._step_cache: dict[tuple[_States, str, str, bool], tuple[_States, _States]] = {}

    def takes(self, text: str) -> bool:
        """Return whether the text is short enough for this expression."""
        return self.work(text) <= MAX_WORK

    def work(self, text: str) -> int:
        """Return the greatest work that the text can take: nodes times characters."""
        return len(text) * len(self._nodes)

    def fullmatch(self, text: str) -> bool:
        """Return whether the whole text matches."""
        is_end = False
        for states, reached in self._walk(text, frozenset({self._start})):
            if not states:
                return False
            is_end = _END in reached
        return is_end

    def _walk(self, text: str, states: _States) -> Iterator[tuple[_States, _States]]:
        """Yield the states before each character and at the end, with the states reached from them."""
        before, last = "", len(text) - 1
        for index, character in enumerate(text):
            reached, behind = self._step(states, before, character, is_last=index == last)
            yield states, reached
            states, before = behind, character
        yield states, self._closure(states, before, "", final=True)

    def _step(self, states: _States, before: str, character: str, *, is_last: bool) -> tuple[_States, _States]:
        """Return the states that are reached before the character, and those after it."""
        key = (states, before, character, is_last) if self._has_assertions else (states, "", character, False)
        known = self._step_cache.get(key)
        if known is None:
            if len(self._step_cache) >= _MAX_CACHED:
                self._step_cache.clear()
            reached = self._closure(states, before, character, final=is_last)
            taken = frozenset(self._nodes[state].leads[0] for state in reached if self._takes(state, character))
            behind = taken | self._restart_states
            known = self._step_cache[key] = reached, self._restart_states if behind == self._restart_states else behind
        return known

    def _takes(self, state: int, character: str) -> bool:
        wants = self._nodes[state].wants
        return isinstance(wants, One) and wants.accepts.match(character) is not None

    def _passes(self, state: int, before: str, after: str, *, final: bool) -> bool:
        wants = self._nodes[state].wants
        return wants is None or (isinstance(wants, Look) and _assertion_holds(wants.kind, before, after, final=final))

    def _closure(self, states: _States, before: str, after: str, *, final: bool) -> _States:
        """Return these states and those reached from them between two characters, without consuming one."""
        reached = set(states)
        waiting = list(reached)
        while waiting:
            state = waiting.pop()
            if self._passes(state, before, after, final=final):
                new = [state for state in self._nodes[state].leads if state not in reached]
                reached.update(new)
                waiting.extend(new)
        return frozenset(reached)

    def _build(self, piece: Piece, then: int) -> int:
        """Build the states of the piece, followed by the state `then`; return the first of them."""
        match piece:
            case One() | Look():
                return self._node(piece, (then,))
            case All(of):
                for one in reversed(of):
                    then = self._build(one, then)
                return then
            case AnyOf(of):
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
            raise ConfigurationError(
                f"a regular expression is too large: spelled out, it has more than {MAX_NODES} places; repeat less"
            )
        self._nodes.append(Node(wants, leads))
        return len(self._nodes) - 1


class Search(Expression):
    """A regular expression to search in texts, wherever a match begins and ends.

    All matches count, even if they overlap: the result is the set of characters that belong to a match.

    Raises:
        ConfigurationError: the pattern is not valid, is too large, cannot be matched in bounded time, or matches empty
            text.
    """

    def __init__(self, pattern: str) -> None:
        super().__init__(pattern)
        if self.fullmatch(""):
            raise ConfigurationError(
                f"the regular expression {pattern[:80]!r} matches the empty text; write what has to be there"
            )
        self._restart_states = frozenset({self._start})
        self._literal = _longest_literal(self._piece)

    def spans(self, text: str) -> list[Span]:
        """Return the ranges of characters that belong to matches, in order."""
        if self._literal not in text:
            return []
        found: list[Span] = []
        # No match crosses a place where only new matches can begin, so each stretch between two such places is handled
        # alone.
        stretch: list[_States] = []
        begin, is_hit = 0, False
        for index, (states, reached) in enumerate(self._walk(text, self._restart_states)):
            if states is self._restart_states:
                if is_hit:
                    found += self._matched_spans(text, begin, stretch)
                stretch, begin, is_hit = [], index, False
            stretch.append(reached)
            is_hit = is_hit or _END in reached
        return found + self._matched_spans(text, begin, stretch) if is_hit else found

    def _matched_spans(self, text: str, begin: int, stretch: list[_States]) -> list[Span]:
        """Return the ranges of a stretch that belong to a match: one has begun, and its end can still be reached."""
        found: list[Span] = []
        ending: set[int] = set()
        for index in range(begin + len(stretch) - 1, begin - 1, -1):
            reached = stretch[index - begin]
            continuing = {
                state
                for state in reached
                if index < len(text) and self._takes(state, text[index]) and self._nodes[state].leads[0] in ending
            }
            if continuing:
                found.append((index, found.pop()[1] if found and found[-1][0] == index + 1 else index + 1))
            ending = self._states_reaching_end(continuing, reached, text, index)
        return found[::-1]

    def _states_reaching_end(self, continuing: set[int], reached: _States, text: str, index: int) -> set[int]:
        """Return those of the states from which the end of a match can be reached, here or later."""
        ending = continuing | ({_END} & reached)
        before, after = text[index - 1] if index else "", text[index] if index < len(text) else ""
        final = index == len(text) - 1
        waiting = bool(ending)
        while waiting:
            more = {
                state
                for state in reached - ending
                if self._passes(state, before, after, final=final) and not ending.isdisjoint(self._nodes[state].leads)
            }
            ending |= more
            waiting = bool(more)
        return ending


def _assertion_holds(kind: str, before: str, after: str, *, final: bool) -> bool:
    """Return whether the assertion holds at this place; `final` is whether only the last character follows."""
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
    """Parses a well-formed expression into pieces."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0

    def read(self) -> Piece:
        flags = ""
        if found := _GLOBAL.match(self._pattern):
            flags, self._at = found[1], found.end()
        return self._read_choice(flags)

    def _read_choice(self, flags: str) -> Piece:
        """Read up to the end of the group, or of the expression."""
        choices = [self._read_sequence(flags)]
        while self._peek() == "|":
            self._at += 1
            choices.append(self._read_sequence(flags))
        return choices[0] if len(choices) == 1 else AnyOf(tuple(choices))

    def _read_sequence(self, flags: str) -> Piece:
        pieces: list[Piece] = []
        while self._peek() not in {"", "|", ")"}:
            pieces.append(self._read_repetition(self._piece(flags)))
        return All(tuple(pieces))

    def _piece(self, flags: str) -> Piece:
        if look := next((look for look in _LOOKS if self._pattern.startswith(look, self._at)), None):
            self._at += len(look)
            return Look(look)
        if found := _GROUP.match(self._pattern, self._at):
            self._at = found.end()
            inner = self._read_choice("".join(set(flags) - set(found[2] or "")) + (found[1] or ""))
            self._at += 1
            return inner
        if found := _ATOM.match(self._pattern, self._at):
            self._at = found.end()
            return One(
                re.compile(found[0], (re.IGNORECASE if "i" in flags else 0) | (re.DOTALL if "s" in flags else 0))
            )
        raise self._unsupported_error()

    def _read_repetition(self, piece: Piece) -> Piece:
        found = _REPEAT.match(self._pattern, self._at)
        if found is None:
            return piece
        sign, least, most, exactly, manner = found.groups()
        if manner == "+":
            raise self._unsupported_error()
        self._at = found.end()
        if exactly is not None:
            return Repeat(piece, int(exactly), int(exactly))
        if least is not None:
            return Repeat(piece, int(least or 0), int(most) if most else None)
        return Repeat(piece, 1 if sign == "+" else 0, 1 if sign == "?" else None)

    def _peek(self) -> str:
        return self._pattern[self._at : self._at + 1]

    def _unsupported_error(self) -> ConfigurationError:
        return ConfigurationError(
            f"the regular expression {self._pattern[:80]!r} cannot be matched in bounded time, for what stands at "
            f"{self._at}: it may not look ahead or behind, refer back, or repeat possessively, and of the flags it may "
            "have only i and s; for what must not match, put a rule before this one"
        )


def _longest_literal(piece: Piece) -> str:
    """Return a text that is part of everything that matches; it may be empty."""
    longest = run = ""
    for one in piece.of if isinstance(piece, All) else (piece,):
        found = _PLAIN.fullmatch(one.accepts.pattern) if isinstance(one, One) else None
        if found is None or (isinstance(one, One) and one.accepts.flags & re.IGNORECASE):
            run = ""
        else:
            run += found[1] or found[0]
            longest = max(longest, run, key=len)
    return longest
