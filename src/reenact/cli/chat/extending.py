"""What extensions add to a conversation, and a conversation without any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from reenact._runtime import Runtime
from reenact.actors.environment.api import EnvironmentFactory
from reenact.cli.chat.answering import Answering
from reenact.cli.chat.conversation import Attending, Conversation
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.environment import home_directory
from reenact.domain.history import UsageInfo
from reenact.domain.image import Image

AGENTS: Final = "agents"
"""The container of the sessions in which agents answer."""
_OF_AGENTS: Final = "agent-"
"""How the ids of the images of agents begin."""


class Extending:
    """A conversation without extensions, and what there is to add to one."""

    def image(self, image: Image, *, goes_on: bool) -> Image:
        """Return what a new session is created with; of one that `goes_on` only the functions of its tools matter."""
        return image

    def environment(self, answerer: Answering) -> EnvironmentFactory:
        """Return what makes the environments."""
        return answerer

    def begin(self, conversation: Conversation) -> None:
        """Take note of the conversation, which begins now."""

    def ask(self, attending: Attending, question: str, *, as_it_is: bool) -> Answer:
        """Ask what was typed, and return when there is an answer, or something waits for a person.

        What is meant `as_it_is` calls no command, though it may look like one.
        """
        return attending.ask(question)

    def end(self) -> None:
        """End what runs beside the conversation, at once. Idempotent."""

    def asked_from(self, session_id: str) -> Sequence[str]:
        """Return the sessions of agents that were asked from this session in this run."""
        return ()

    def is_command(self, line: str) -> bool:
        """Return whether the line calls a command that is not built in."""
        return False

    def commands(self) -> Mapping[str, str]:
        """Return how each command that runs is typed, and what it does; nothing in it can drive a terminal."""
        return {}

    def agents(self) -> Mapping[str, str]:
        """Return each agent as `@name`, and what it is for, likewise."""
        return {}

    def help(self) -> Mapping[str, str]:
        """Return what else can be typed, what it does, and why not if it does not run; likewise."""
        return {}


class Extend(Protocol):
    """Makes what extensions add."""

    def __call__(self, options: TalkOptions, console: Console, *, asks: bool) -> Extending:
        """Return it, having said what is wrong with the extensions; if it `asks`, a person may trust them."""
        ...


def project_directory(console: Console) -> Path:
    """Return the project: the current directory, or that of the user if it is gone or cannot be told."""
    try:
        return Path.cwd()
    except OSError:
        return home_directory(console.environ)


def usage_of_agents(runtime: Runtime, session_id: str, asked_now: Iterable[str] = ()) -> list[tuple[str, UsageInfo]]:
    """Return the names of agents, and what the session of each has used that was asked from this session.

    The log names those that have answered: their answers here have the ids of their sessions. `asked_now` are those of
    this run, also if they have not.
    """
    answered = (message.id for message in runtime.sessions.messages(session_id) if message.role == "assistant")
    found: list[tuple[str, UsageInfo]] = []
    for one in dict.fromkeys((*answered, *asked_now)):
        session = runtime.sessions.get(one)
        if session is not None and session.container_id == AGENTS:
            found.append((session.image_id.removeprefix(_OF_AGENTS), runtime.sessions.usage(one)))
    return found
