"""The session that the chat is in, the ways to another one, and what the commands of a chat work on."""

from __future__ import annotations

import contextlib
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
from reenact.cli.chat.answering import Answering, Extending
from reenact.cli.chat.conversation import Attending, Conversation, Decision, new_session_id
from reenact.cli.commands.sessions import log_named, reading
from reenact.cli.output.answers import Answer
from reenact.cli.output.console import Console
from reenact.cli.output.failures import NoLogYetError
from reenact.cli.parsing.options import TalkOptions
from reenact.cli.settings.configuration import check_price
from reenact.domain.errors import InvalidInputError, ReenactError, SessionNotFoundError
from reenact.domain.image import Definition, Image, ImageRegistered
from reenact.domain.legible import harmless
from reenact.domain.loop.ledger import Price, price_of
from reenact.domain.messages import check_text
from reenact.domain.session.people import PendingCall

_LONGEST = 200
"""Bytes that the name of a model may have."""


@dataclass
class Current:
    """The session that is talked in now. Whoever goes elsewhere ends its agent; if that fails, they stay.

    `new_image` is what other new sessions are created with.
    """

    conversation: Conversation
    new_image: Callable[[], Image]
    answerer: Answering
    extending: Extending
    options: TalkOptions
    console: Console
    prices: Mapping[str, Price]
    waiting: list[str] = field(default_factory=list[str])
    """The turns that waited when the session was come to: `settle` hears them out."""
    _model: str = ""
    _told: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        self.answerer.talked_in.add(self.conversation.session_id)

    @property
    def runtime(self) -> Runtime:
        """The runtime that all of the sessions are in."""
        return self.conversation.runtime

    @property
    def who(self) -> str:
        """Who answers here, in words."""
        return self.answerer.name(self._model or self.answerer.default)

    @property
    def is_mocked(self) -> bool:
        """Whether the mock answers, whatever model is named."""
        return self.answerer.mock is not None

    @property
    def model(self) -> str | None:
        """The model of this run, in the place of the one that a session was created with; None if there is none."""
        return self.answerer.model

    @property
    def way_back(self) -> str:
        """The command line that goes on with this session."""
        named = self.options.database
        log = () if named is None else ("--db", without_password(named))
        return shlex.join(("reenact", "--resume", self.conversation.session_id, *log))

    def reading(self) -> AbstractContextManager[StoredJournal]:
        """Open the log for reading, beside the runtime."""
        return reading(self.options.database, self.console)

    @property
    def is_found(self) -> bool:
        """Whether the session stands in the log that is where `way_back` looks for it."""
        location = log_named(self.options.database, self.console)
        if not location.exists():
            return False
        with location.open(codec(), read_only=True) as journal:
            return bool(journal.read_until(SessionActor.stream(self.conversation.session_id), 1))

    def introduce(self) -> str:
        """Return who answers, and warn of what is not as the session was created.

        Raises:
            ConfigurationError: what the session costs has a limit, and the model no price.
        """
        conversation = self.conversation
        self._must_have_price(conversation, self.model)  # before its agent goes on with what waits
        if not conversation.is_new:
            self.waiting = conversation.waiting()
            conversation.run()  # whoever answers learns what the session was created with
        self._take_note(conversation)
        return self.who

    def resume(self, session_id: str) -> None:
        """Go on with this session.

        Raises:
            SessionNotFoundError: there is no such session.
            ReenactError: it cannot be run, or the present one not be left.
        """
        image = Image()  # what a session that there is already was created with stands in the log
        self._go_to(Conversation(self.runtime, image, session_id=session_id, is_new=False))

    def begin_anew(self) -> None:
        """Go to a new session, which is created with its first message."""
        there = Conversation(self.runtime, self.new_image(), session_id=new_session_id(), is_new=True)
        self.answerer.begun.add(there.session_id)
        self._go_to(there)

    def branch(self, *, at: int | None, edit: str | None) -> None:
        """Go to a new session that has the history of this one; see `Sessions.branch`."""
        origin = self.conversation.session_id
        branch = self.runtime.sessions.branch(origin, at=at, edit=edit)
        if origin in self.answerer.begun:
            self.answerer.begun.add(branch.id)
        self.resume(branch.id)

    def use(self, model: str | None) -> None:
        """Let this model answer from now on, in whatever session of this run; None is what each was created with.

        Raises:
            InvalidInputError: that is not a name.
            ConfigurationError: what the session costs has a limit, and the model no price.
        """
        if model is not None:
            check_text("the model", model, limit=_LONGEST)
            if len(model.split()) > 1 or model != model.strip():
                raise InvalidInputError(f"the name of a model has no blanks in it, as {model!r} has")
        self._must_have_price(self.conversation, model)
        self.conversation.rest()  # the next agent asks the other model
        self.answerer.model = model

    def warn_of_unpriced(self) -> None:
        """Warn, once of each, of models that have answered here under names without a price, if there is a limit.

        An API may answer under another name than that of the model that was asked.
        """
        conversation = self.conversation
        if self.is_mocked or conversation.is_new or not self.prices or self.definition().cost_limit is None:
            return
        for name in self.runtime.sessions.usage(conversation.session_id).models:
            if name and not name.startswith("@") and price_of(self.prices, name) is None and name not in self._told:
                self._told.add(name)
                self.console.warn(
                    f"answers came from {harmless(name)}, which has no price, so that the limit of the costs "
                    f"(--max-cost) does not count them: --price {harmless(name)}=IN,OUT"
                )

    def definition(self) -> Definition:
        """Return what the session was, or is to be, created with.

        Raises:
            StorageError: the log cannot be read.
        """
        return definition_of(self.conversation, self.options.database, self.console)

    def _go_to(self, there: Conversation) -> None:
        here = self.conversation
        self.answerer.talked_in.add(there.session_id)
        try:
            self._must_have_price(there, self.model)
            waiting = there.waiting()
            if not there.is_new:
                there.run()
            here.rest()
        except BaseException:
            with contextlib.suppress(ReenactError):
                there.leave()
            raise
        here.leave()
        self.conversation, self.waiting = there, waiting
        self._take_note(there)
        self.extending.begin(there)

    def _take_note(self, conversation: Conversation) -> None:
        """Take note of who answers in the conversation, and warn of what is not as it was."""
        if conversation.created is None:
            self._model = self.answerer.created_with or self.answerer.default
            for departure in self.answerer.departures():
                self.console.warn(departure)
        else:
            self._model = self.answerer.model_of(conversation.created.model)

    def _must_have_price(self, conversation: Conversation, model: str | None) -> None:
        """Raise `ConfigurationError` if what the session costs has a limit, and nobody knows what is to be paid.

        The `model` is the one of this run, if there is one. Agents of the session may have models of their own.
        """
        if self.is_mocked:
            return
        created = definition_of(conversation, self.options.database, self.console)
        if created.cost_limit is None:
            return
        infos = [self.runtime.images.get(agent.image_id) for agent in created.agents] if not conversation.is_new else []
        others = {info.model for info in infos if info is not None and info.model} - {created.model}
        for asked in (self.answerer.model_of(model, created.model), *others):
            check_price(asked, self.prices, f"what session {conversation.session_id} costs has a limit (--max-cost)")


def definition_of(conversation: Conversation, database: str | None, console: Console) -> Definition:
    """Return what the session was, or is to be, created with.

    Raises:
        SessionNotFoundError: it does not stand in the log.
        StorageError: the log cannot be read.
    """
    if conversation.created is not None:
        return conversation.created
    session = conversation.runtime.sessions.get(conversation.session_id)
    if session is not None:
        with suppress(NoLogYetError), reading(database, console) as journal:
            stream, revision = ImageActor.stream(session.image_id), session.image_revision
            for row in journal.read_until(stream, revision, after=revision - 1):
                if isinstance(row.event, ImageRegistered):
                    return row.event.definition
    raise SessionNotFoundError(conversation.session_id)


@dataclass
class Talking(ABC):
    """What the commands of a chat work on: asks the agent, and shows what comes of it."""

    current: Current
    listed: list[str] = field(default_factory=list[str], init=False)
    """The sessions that were listed last, in the order in which they were numbered."""

    @property
    def width(self) -> int | None:
        """The columns of the terminal at which a person types the lines, None if nobody does."""
        return None

    @abstractmethod
    def say(self, line: str) -> None:
        """Tell whoever has typed a command what comes of it."""

    @abstractmethod
    def ask(self, text: str, *, as_it_is: bool = False) -> None:
        """Ask what was typed; what calls a command of an extension is that, unless it is meant `as_it_is`."""

    @abstractmethod
    def show(self, act: Callable[[Attending], Answer]) -> None:
        """Show what is answered."""

    @abstractmethod
    def see_to(self, pending: Sequence[PendingCall]) -> None:
        """Ask the person about these calls, or tell of them where there is none."""

    @abstractmethod
    def fail(self, error: ReenactError) -> None:
        """Tell why a command did not do what it is for."""

    def run(self, command: str) -> None:  # noqa: B027 - scripts run none
        """Run a command of the shell, if a person is there who approves of it."""

    def carry_out(self, decisions: Sequence[Decision]) -> None:
        """Tell the agent of decisions, and show what follows."""
        self.show(lambda attending: attending.carry_out(decisions))

    def settle(self) -> None:
        """See to what waits in the session: calls for the person, and then messages for the agent."""
        current = self.current
        waiting, current.waiting = current.waiting, []
        if pending := current.conversation.pending():
            self.see_to(pending)
        if waiting and not current.conversation.pending():
            self.show(lambda attending: attending.take_up(waiting))
