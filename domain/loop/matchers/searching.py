"""Where in a text a regular expression matches, found in time that is bounded by the length of the text.

All matches count, wherever they begin and however they overlap: what is asked is which characters belong to one.
"""

from __future__ import annotations

import re
from typing import Final, TypeAlias

from reenact.domain.errors import ConfigurationError
from reenact.domain.loop.matchers.linear import All, Expression, Look, One, Piece, holds, reached_from

Span: TypeAlias = tuple[int, int]
_States: TypeAlias = frozenset[int]

_MAX_KNOWN: Final = 5_000
_END: Final = 0
_PLAIN = re.compile(r"[^\\.\[\](){}|*+?^$]|\\([^\w\s])", re.DOTALL)


class Search:
    """A regular expression, ready to be looked for in texts.

    Raises:
        ConfigurationError: it is none, is too large, cannot be matched in bounded time, or matches where nothing is.
    """

    def __init__(self, pattern: str) -> None:
        expression = Expression(pattern)
        if expression.fullmatch(""):
            msg = f"the regular expression {pattern[:80]!r} matches where nothing is; say what has to be there"
            raise ConfigurationError(msg)
        self._nodes = expression.nodes
        self._looks = expression.looks
        self._idle: _States = frozenset({expression.start})
        self._literal = _longest_literal(expression.piece)
        self._known: dict[tuple[_States, str, str, bool], tuple[_States, _States]] = {}

    def spans(self, text: str) -> list[Span]:
        """Return from where to where characters belong to matches, in order."""
        if self._literal not in text:
            return []
        found: list[Span] = []
        states, before, last = self._idle, "", len(text) - 1
        # Where nothing has begun no match goes through: what lies between two such places is looked at on its own.
        stretch: list[_States] = []
        begin, is_hit = 0, False
        for index, character in enumerate(text):
            if states is self._idle:
                if is_hit:
                    found += self._covered(text, begin, stretch)
                stretch, begin, is_hit = [], index, False
            reached, states = self._step(states, before, character, is_last=index == last)
            stretch.append(reached)
            is_hit = is_hit or _END in reached
            before = character
        stretch.append(frozenset(reached_from(self._nodes, states, before, "", final=True)))
        if is_hit or _END in stretch[-1]:
            found += self._covered(text, begin, stretch)
        return found

    def _step(self, states: _States, before: str, character: str, *, is_last: bool) -> tuple[_States, _States]:
        """Return the states that are reached in front of the character, and those behind it."""
        key = (states, before, character, is_last) if self._looks else (states, "", character, False)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            reached = frozenset(reached_from(self._nodes, states, before, character, final=is_last))
            taken = frozenset(self._nodes[state].leads[0] for state in reached if self._takes(state, character))
            behind = taken | self._idle
            known = self._known[key] = reached, self._idle if behind == self._idle else behind
        return known

    def _takes(self, state: int, character: str) -> bool:
        wants = self._nodes[state].wants
        return isinstance(wants, One) and wants.accepts.match(character) is not None

    def _covered(self, text: str, begin: int, stretch: list[_States]) -> list[Span]:
        """Return the parts of a stretch from which a match was begun, and from which its end can still be reached."""
        found: list[Span] = []
        ending: set[int] = set()
        for index in range(begin + len(stretch) - 1, begin - 1, -1):
            reached = stretch[index - begin]
            going = {
                state
                for state in reached
                if index < len(text) and self._takes(state, text[index]) and self._nodes[state].leads[0] in ending
            }
            if going:
                found.append((index, found.pop()[1] if found and found[-1][0] == index + 1 else index + 1))
            ending = self._ending(going, reached, text, index)
        return found[::-1]

    def _ending(self, going: set[int], reached: _States, text: str, index: int) -> set[int]:
        """Return those of the states from which the end of a match can be reached, here or later."""
        ending = going | ({_END} & reached)
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

    def _passes(self, state: int, before: str, after: str, *, final: bool) -> bool:
        wants = self._nodes[state].wants
        return wants is None or (isinstance(wants, Look) and holds(wants.kind, before, after, final=final))


def _longest_literal(piece: Piece) -> str:
    """Return a text that is in everything that matches; it may be empty."""
    longest = run = ""
    for one in piece.of if isinstance(piece, All) else (piece,):
        found = _PLAIN.fullmatch(one.accepts.pattern) if isinstance(one, One) else None
        if found is None or (isinstance(one, One) and one.accepts.flags & re.IGNORECASE):
            run = ""
        else:
            run += found[1] or found[0]
            longest = max(longest, run, key=len)
    return longest
