"""A chat without a terminal and without a person: its session, and what is said in it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from reenact import Image, Runtime
from reenact.cli.chat.answering import Answerer, ChatExtensions
from reenact.cli.chat.conversation import Conversation
from reenact.cli.chat.current import Current
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.domain.loop.ledger import Price
from reenact.domain.stream.events import Envelope
from reenact.testing import MockEnvironmentFactory
from tests.logs import log_at

FIRST: Final = "ses_first"
CHAT: Final = Image(id="chat")


class Warned(Console):
    """Takes note of what people are warned of."""

    def __init__(self) -> None:
        super().__init__({}, in_ci=False)
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Take note."""
        self.warnings.append(message)


def unheard(event: Envelope, *, is_own: bool) -> None:
    """Hear nothing."""


def say(current: Current, *texts: str) -> Answer | None:
    """Ask these in the session that is current, and return the last answer."""
    answer = None
    for text in texts:
        answer = current.conversation.ask(text, unheard)
    return answer


def said(current: Current, session_id: str | None = None) -> list[str]:
    """Return what the user has said in the session, the current one if none is named."""
    messages = current.runtime.sessions.messages(session_id or current.conversation.session_id)
    return [message.text for message in messages if message.role == "user"]


@contextmanager
def beginning(
    directory: Path,
    *,
    image: Image = CHAT,
    extensions: ChatExtensions | None = None,
    mock: str | None = None,
    prices: Mapping[str, Price] | None = None,
    console: Console | None = None,
) -> Generator[Current]:
    """Begin in a new session of the directory's log; the mock answers, which says so only if it has words for that."""
    answerer, log = Answerer(MockEnvironmentFactory(), mock=mock), log_at(directory / "log.db")
    with Runtime.open(log, environment=answerer, prices=prices) as runtime:
        yield Current(
            Conversation(runtime, image, session_id=FIRST, is_new=True),
            new_image=lambda: image,
            answerer=answerer,
            extensions=extensions or ChatExtensions(),
            options=TalkOptions(database=log),
            console=console or Console({}, in_ci=False),
            prices=prices or {},
        )
