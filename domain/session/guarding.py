"""Determines which guards must run before a command of a session is decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from reenact.domain.guards import GuardChecked, GuardInput, Guards, GuardVerdict, refusal_in
from reenact.domain.loop.events import ToolStarted
from reenact.domain.session.agent import AnswerRecorded
from reenact.domain.session.commands import Approve, BranchSession, Finish, Receive, SessionCommand
from reenact.domain.session.decide import decide
from reenact.domain.session.state import Session, SessionEvent, evolve


class Question(NamedTuple):
    """A guard, by its name, and its input."""

    name: str
    about: GuardInput

    def verdict(self, reason: str | None) -> GuardChecked:
        """Return the event of the guard's verdict: `reason` is why it refuses, None if it lets its input pass."""
        about = self.about
        verdict: GuardVerdict = "passed" if reason is None else "refused"
        return GuardChecked(
            about.point, self.name, verdict, reason or "", about.turn_id, about.message_id, about.call_id
        )


def questions(session: Session, command: SessionCommand, guards: Guards) -> tuple[Question, ...]:
    """Return the guards that must still run before the command is decided, with their inputs.

    The command holds the verdicts given so far; after a refusal, no other point is checked. Guards check a call only
    when nothing else keeps it from running, such as a policy, a person or a limit: that is, if `decide` would start it.

    Raises:
        ReenactError: the command is refused, whatever the guards' verdicts.
    """
    match command:
        case Receive() if session.agent is not None and session.agent.id == command.agent_id:
            about = GuardInput(
                point="message",
                session_id=session.id or "",
                image_id=session.image_id,
                turn_id=command.turn_id,
                message_id=command.message_id,
                content=command.content,
            )
            return _remaining_questions(guards.message, command.checked, about)
        case BranchSession(edit=tuple() as edit) if not command.checked:
            about = GuardInput(point="message", session_id=command.session_id, image_id=command.image_id, content=edit)
            return tuple(Question(name, about) for name in guards.message)
        case Finish() if refusal_in(command.checked) is None:
            decided = decide(session, command)
            of_answer = () if command.checked else tuple(_answer_questions(session, decided, guards))
            return of_answer or tuple(_call_questions(session, decided, guards, command.checked))
        case Approve():
            return tuple(_call_questions(session, decide(session, command), guards, command.checked))
        case _:
            return ()


def _remaining_questions(
    names: Sequence[str], checked: Sequence[GuardChecked], about: GuardInput
) -> tuple[Question, ...]:
    """Return the guards that have not run yet; none after a refusal.

    The session may have been handed over to an image with other guards while those of the former image ran.
    """
    asked = {one.name for one in checked}
    return (
        () if refusal_in(checked) is not None else tuple(Question(name, about) for name in names if name not in asked)
    )


def _answer_questions(session: Session, decided: Sequence[SessionEvent], guards: Guards) -> Iterator[Question]:
    passed = None if session.turn is None else session.turn.passed
    for event in decided:
        if isinstance(event, AnswerRecorded) and not event.partial and event.message_id != passed:
            about = GuardInput(
                point="answer",
                session_id=session.id or "",
                image_id=session.image_id,
                turn_id=event.turn_id,
                message_id=event.message_id,
                content=event.content,
            )
            yield from (Question(name, about) for name in guards.answer)


def _call_questions(
    session: Session, decided: Sequence[SessionEvent], guards: Guards, checked: Sequence[GuardChecked]
) -> Iterator[Question]:
    asked = {one.call_id for one in checked}
    if not guards.call or not any(isinstance(event, ToolStarted) for event in decided):
        return
    for event in decided:
        session = evolve(session, event)
        call = session.call(event.id) if isinstance(event, ToolStarted) else None
        if call is not None and call.id not in asked:
            about = GuardInput(
                point="call",
                session_id=session.id or "",
                image_id=session.image_id,
                turn_id=None if session.turn is None else session.turn.id,
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments,
            )
            yield from (Question(name, about) for name in guards.call)
