"""The session that the chat is in, the ways to switch to another one, and the interface that chat commands use."""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field

from reenact._runtime import Runtime, codec
from reenact.actors.container import ImageActor
from reenact.actors.journal.opening import without_password
from reenact.actors.journal.stored import StoredJournal
from reenact.actors.session.actor import SessionActor
from reenact.cli.chat.answering import Answerer, ChatExtensions
from reenact.cli.chat.conversation import Conversation, Decision, TurnRunner, new_session_id
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.configuration import check_price
from reenact.domain.errors import InvalidInputError, ReenactError, SessionNotFoundError
from reenact.domain.image import Definition, Image, ImageRegistered
from reenact.domain.legible import display_safe
from reenact.domain.loop.ledger import Price, price_of
from reenact.domain.messages import check_text
from reenact.domain.session.people import PendingCall

_LONGEST = 200
"""Maximum length of a model's name in bytes."""


@dataclass
class Current:
    """The current session of the chat. A switch to another session ends the agent of this one; if that fails, it stays.

    `new_image` returns the image for further new sessions.
    """

    conversation: Conversation
    new_image: Callable[[], Image]
    answerer: Answerer
    extensions: ChatExtensions
    options: TalkOptions
    console: Console
    prices: Mapping[str, Price]
    open_turns: list[str] = field(default_factory=list[str])
    """The turns that were waiting when the session was entered; `handle_waiting` follows them."""
    _model: str = ""
    _warned_of: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.answerer.chat_sessions.add(self.conversation.session_id)

    @property
    def runtime(self) -> Runtime:
        """The runtime of all these sessions."""
        return self.conversation.runtime

    @property
    def who(self) -> str:
        """A sentence that says who answers in this session."""
        return self.answerer.name(self._model or self.answerer.default)

    @property
    def is_mock(self) -> bool:
        """Whether the mock answers, whatever model is named."""
        return self.answerer.mock is not None

    @property
    def model(self) -> str | None:
        """The model of this run, which replaces the one that a session was created with; None if there is none."""
        return self.answerer.model

    @property
    def resume_command(self) -> str:
        """The command line that resumes this session."""
        named, keys = self.options.database, self.options.keys
        log = () if named is None else ("--db", without_password(named))
        ring = () if keys is None else ("--keys", keys)
        return shlex.join(("reenact", "--resume", self.conversation.session_id, *log, *ring))

    @property
    def is_found(self) -> bool:
        """Whether the session is in the log that `resume_command` would open."""
        if not self.runtime.open_log.location.exists():
            return False
        with reading(self.runtime) as journal:
            return bool(journal.read_until(SessionActor.stream(self.conversation.session_id), 1))

    def enter(self) -> str:
        """Return who answers, and warn of what differs from what the session was created with.

        Raises:
            ConfigurationError: the session has a cost limit, and its model has no price.
        """
        self.open_turns = self._start(self.conversation)
        self._note_model(self.conversation)
        return self.who

    def resume(self, session_id: str) -> None:
        """Switch to this session.

        Raises:
            SessionNotFoundError: there is no such session.
            ReenactError: the session cannot be run, or the current one cannot be left.
        """
        image = Image()  # the image of an existing session is in the log
        self._switch_to(Conversation(self.runtime, image, session_id=session_id, is_new=False))

    def start_new(self) -> None:
        """Switch to a new session, which is created with its first message."""
        conversation = Conversation(self.runtime, self.new_image(), session_id=new_session_id(), is_new=True)
        self.answerer.new_sessions.add(conversation.session_id)
        self._switch_to(conversation)

    def branch(self, *, at: int | None, edit: str | None) -> None:
        """Switch to a new session that has the history of this one; see `Sessions.branch`."""
        origin = self.conversation.session_id
        branch = self.runtime.sessions.branch(origin, at=at, edit=edit)
        if origin in self.answerer.new_sessions:
            self.answerer.new_sessions.add(branch.id)
        self.resume(branch.id)

    def use_model(self, model: str | None) -> None:
        """Use this model from now on in all sessions of this run; None stands for the model each was created with.

        Raises:
            InvalidInputError: this is not the name of a model.
            ConfigurationError: the session has a cost limit, and the model has no price.
        """
        if model is not None:
            check_text("the model", model, limit=_LONGEST)
            if len(model.split()) > 1 or model != model.strip():
                raise InvalidInputError(f"the name of a model has no blanks in it, as {model!r} has")
        self._check_price(self.conversation, model)
        self.conversation.end_agent()  # the next agent uses the other model
        self.answerer.model = model

    def warn_of_unpriced(self) -> None:
        """Warn once of each model without a price that has answered in this session, if the session has a cost limit.

        An API may report another model name than the one that was requested.
        """
        conversation = self.conversation
        if self.is_mock or conversation.is_new or not self.prices or definition_of(conversation).cost_limit is None:
            return
        for name in self.runtime.sessions.usage(conversation.session_id).models:
            if (
                name
                and not name.startswith("@")
                and price_of(self.prices, name) is None
                and name not in self._warned_of
            ):
                self._warned_of.add(name)
                self.console.warn(
                    f"answers came from {display_safe(name)}, which has no price, so that the limit of the costs "
                    f"(--max-cost) does not count them: --price {display_safe(name)}=IN,OUT"
                )

    def _switch_to(self, conversation: Conversation) -> None:
        previous = self.conversation
        self.answerer.chat_sessions.add(conversation.session_id)
        try:
            waiting = self._start(conversation)
            previous.end_agent()
        except BaseException:
            with suppress(ReenactError):
                conversation.close()
            raise
        previous.close()
        self.conversation, self.open_turns = conversation, waiting
        self._note_model(conversation)
        self.extensions.begin(conversation)

    def _start(self, conversation: Conversation) -> list[str]:
        """Start the agent of an existing session, and return the turns that were waiting."""
        self._check_price(conversation, self.model)  # before the agent continues with these turns
        waiting = conversation.open_turns()
        if not conversation.is_new:
            conversation.run()  # so that an environment is created, and `differences` are known
        return waiting

    def _note_model(self, conversation: Conversation) -> None:
        """Record who answers in the conversation, and warn of what differs from what it was created with."""
        if conversation.new_definition is None:
            self._model = self.answerer.created_with or self.answerer.default
            for departure in self.answerer.differences(lambda: definition_of(conversation).agents):
                self.console.warn(departure)
        else:
            self._model = self.answerer.model_of(conversation.new_definition.model)

    def _check_price(self, conversation: Conversation, model: str | None) -> None:
        """Raise `ConfigurationError` if the session has a cost limit and one of its models has no price.

        `model` is the model of this run, if it has one. Agents of the session may have models of their own.
        """
        if self.is_mock:
            return
        created = definition_of(conversation)
        if created.cost_limit is None:
            return
        infos = [self.runtime.images.get(agent.image_id) for agent in created.agents] if not conversation.is_new else []
        others = {info.model for info in infos if info is not None and info.model} - {created.model}
        for asked in (self.answerer.model_of(model, created.model), *others):
            check_price(asked, self.prices, f"what session {conversation.session_id} costs has a limit (--max-cost)")


def reading(runtime: Runtime) -> AbstractContextManager[StoredJournal]:
    """Open the runtime's log for reading, independently of the runtime."""
    return runtime.open_log.location.open(codec(), read_only=True)


def definition_of(conversation: Conversation) -> Definition:
    """Return the definition that the session was, or will be, created with.

    Raises:
        SessionNotFoundError: the session is not in the log.
        StorageError: the log cannot be read.
    """
    if conversation.new_definition is not None:
        return conversation.new_definition
    session = conversation.runtime.sessions.get(conversation.session_id)
    if session is not None:
        with reading(conversation.runtime) as journal:
            stream, revision = ImageActor.stream(session.image_id), session.image_revision
            for row in journal.read_until(stream, revision, after=revision - 1):
                if isinstance(row.event, ImageRegistered):
                    return row.event.definition
    raise SessionNotFoundError(conversation.session_id)


@dataclass
class Frontend(ABC):
    """The interface that chat commands use: sends messages to the agent and shows the results."""

    current: Current
    listed: list[str] = field(default_factory=list[str], init=False)
    """The sessions that were listed last, in the order of their numbers."""

    @property
    def width(self) -> int | None:
        """The width of the terminal at which a person types the lines; None without a person."""
        return None

    @abstractmethod
    def say(self, line: str) -> None:
        """Show a line about the result of a command."""

    @abstractmethod
    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Send what was typed; it may call a command of an extension unless `as_it_is` is true."""

    @abstractmethod
    def show(self, act: Callable[[TurnRunner], Answer]) -> None:
        """Run the request and show its answer."""

    @abstractmethod
    def ask_about_calls(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about these calls, or report them where there is no person."""

    @abstractmethod
    def fail(self, error: ReenactError) -> None:
        """Show why a command failed."""

    def run(self, command: str) -> None:  # noqa: B027 - scripts run no commands
        """Run a shell command, if a person is there who approves it."""

    def apply_decisions(self, decisions: Sequence[Decision]) -> None:
        """Send the decisions to the agent, and show what follows."""
        self.show(lambda runner: runner.apply_decisions(decisions))

    def handle_waiting(self) -> None:
        """Handle what waits in the session: calls that need the person, and then turns that wait."""
        current = self.current
        waiting, current.open_turns = current.open_turns, []
        if pending := current.conversation.pending():
            self.ask_about_calls(pending)
        if waiting and not current.conversation.pending():
            self.show(lambda runner: runner.resume_turns(waiting))
