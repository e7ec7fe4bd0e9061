"""Completes commands, their arguments, agents and paths while somebody types."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from reenact.cli.attachments import paths
from reenact.domain.legible import harmless, shortened

_LONGEST: Final = 200
"""Characters before the cursor behind which nothing is offered."""
_COMMAND: Final = re.compile(r"/[^\s/]*")
_ARGUMENT: Final = re.compile(r"(/[^\s/]+)[ \t]+(\S[^\n]*|)")
_AGENT: Final = re.compile(r"@[A-Za-z0-9_-]*")
_PATH: Final = re.compile(r"(?:.*\s)?@([^\s\"@]*)", re.DOTALL)
_MOST: Final = 100
"""So many paths are offered."""
_NARROW: Final = 40
"""Columns in which there is no room for words about what is offered."""
_WIDEST: Final = 80


class Choices(Protocol):
    """What can be typed now."""

    def commands(self) -> Mapping[str, str]:
        """Return each command, as `/word`, and what it does; built in or of an extension."""
        ...

    def agents(self) -> Mapping[str, str]:
        """Return each agent, as `@name`, and what it is for."""
        ...

    def arguments(self, word: str) -> Sequence[tuple[str, str]]:
        """Return what may stand behind the command `/word`: each value, and words about it.

        It is asked while somebody types, so it is quick and never raises: what cannot be told is left out.
        """
        ...


def may_offer(document: Document) -> bool:
    """Return whether the text before the cursor is the beginning of something that can be offered."""
    text = document.text_before_cursor
    return (
        len(text) <= _LONGEST
        and not document.text_after_cursor.strip()
        and any(pattern.fullmatch(text) for pattern in (_COMMAND, _ARGUMENT, _PATH))
    )


class Offering(Completer):
    """Offers what can be typed: commands and agents at the beginning of a text, and paths behind any `@`."""

    def __init__(self, choices: Choices) -> None:
        self._choices = choices

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return what goes on as the text before the cursor does."""
        text = document.text_before_cursor
        if not may_offer(document):
            return ()
        if _COMMAND.fullmatch(text):
            usages = self._choices.commands().items()
            return _offered(text, ((usage.partition(" ")[0], usage, about) for usage, about in usages))
        path = _PATH.fullmatch(text)
        if path is not None and not text.startswith("/"):
            agents = self._choices.agents().items() if _AGENT.fullmatch(text) else ()
            return chain(
                _offered(text, ((f"{name} ", name, about) for name, about in agents)),
                _offered(path[1], ((found, found, "") for found in islice(paths(path[1]), _MOST) if " " not in found)),
            )
        argument = _ARGUMENT.fullmatch(text)
        if argument is None:
            return ()
        return _offered(argument[2], ((value, value, about) for value, about in self._choices.arguments(argument[1])))


def _offered(begun: str, choices: Iterable[tuple[str, str, str]]) -> Iterator[Completion]:
    """Yield what begins so, of texts, how they are shown, and words about them."""
    columns = get_app().output.get_size().columns
    width = min(_WIDEST, columns - 1)
    for text, shown, about in choices:
        if text.startswith(begun) and harmless(text) == text:
            yield Completion(
                text,
                start_position=-len(begun),
                display=shortened(shown, width),
                display_meta=None if columns < _NARROW else shortened(" ".join(about.split()), width),
            )
