"""Branching of sessions: a branch goes on with another session's history as if it were its own.

What was under way at the branch point ends in the branch, so that it can go on at once: a turn is interrupted, and the
calls that were to run, or ran, are given up. Calls that wait for people go on waiting, in both sessions. Messages that
wait there are accepted anew, under ids of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reenact.domain import turns
from reenact.domain.agent import MessageAccepted, ToolsRequested, TurnStarted
from reenact.domain.commands import SessionBranchRequest
from reenact.domain.content import check_content
from reenact.domain.errors import AlreadyExistsError, InvalidInputError, SessionNotFoundError
from reenact.domain.image import check_model
from reenact.domain.loop import rounds
from reenact.domain.loop.rounds import Round
from reenact.domain.messages import Block, check_text
from reenact.domain.policy.rules import call_digest
from reenact.domain.session_commands import BranchSession
from reenact.domain.session_state import Session, SessionBranched, SessionEvent, calls_of
from reenact.domain.turns import Story

_LAST = (1 << 63) - 1
BRANCHED = "branched"
"""Why the turn that was under way at the branch point ends in the branch."""


def check_branch(asked: SessionBranchRequest) -> None:
    """Check the position, the message, the model and the image of a branch, as far as that can be done without the log.

    Raises:
        InvalidInputError: the branch's id or a name cannot be one, the position is none, or the branch is to have both
            an image and a model or prompt of its own.
        InvalidMessageError: the message cannot be accepted.
    """
    if asked.new_session_id is not None:
        check_text("the session's id", asked.new_session_id)
    if asked.at is not None and not (type(asked.at) is int and 0 < asked.at <= _LAST):
        raise InvalidInputError(f"`at` is a position of the log, a whole number from 1 on, not {asked.at!r:.100}")
    if asked.edit is not None:
        check_content(asked.edit)
    check_model(asked.model, asked.system_prompt)
    if asked.image_id is not None and (asked.model is not None or asked.system_prompt is not None):
        raise InvalidInputError("give image_id, or model and system_prompt, not both")


def branch(story: Story, command: BranchSession) -> None:
    """Begin the session with the history of the story's session, which is the one that it branches off from."""
    origin = story.session
    if origin.id == command.session_id:
        raise AlreadyExistsError("session", command.session_id)
    if origin.id is None:
        raise SessionNotFoundError(command.origin)
    story.add(
        SessionBranched(
            command.session_id,
            command.container_id,
            command.image_id,
            command.image_revision,
            command.origin,
            command.version,
            command.digest,
        )
    )
    _request_tools(story)
    _give_up_changed(story)
    turns.cut_short(story, msgspec.structs.replace(command, at=command.left_at), BRANCHED)
    story.add(*command.checked)
    outputs = [queued.output for queued in origin.queue] or [None]
    for (turn_id, message_id), content, output in zip(
        command.ids, waiting(origin, command.edit), outputs, strict=False
    ):
        story.add(MessageAccepted(turn_id, message_id, content, command.at, output=output))


def waiting(origin: Session, edit: tuple[Block, ...] | None) -> tuple[tuple[Block, ...], ...]:
    """Return what waits for its turn when a branch begins; `edit` stands in place of the last message."""
    queued = tuple(message.content for message in origin.queue)
    return queued if edit is None else (*queued[:-1], edit)


def before_last_message(events: Sequence[SessionEvent]) -> int | None:
    """Return the index of the event behind which the last message of a user still waits, None if there is no message.

    That is the last event if the message has not been taken up in them, else the one before it was.
    """
    last, end = "", len(events)
    for index, event in enumerate(events):
        if isinstance(event, MessageAccepted):
            last, end = event.turn_id, len(events)
        elif isinstance(event, TurnStarted) and event.turn_id == last:
            end = index
    return end - 1 if last else None


def _request_tools(story: Story) -> None:
    """Begin the round of an answer that was just recorded, so that its calls can be given up."""
    turn, conversation = story.session.turn, story.session.conversation
    if turn is None or story.session.round is not None:
        return
    last = conversation[-1]
    if last.role == "assistant" and not last.refused and calls_of(last.content):
        story.add(ToolsRequested(turn.id, turn.activity))


def _give_up_changed(story: Story) -> None:
    """Give up calls that a person was just changing: nobody has judged, or decided about, what they are now.

    Likewise those that wait for a child session, which tells the session that it was called by.
    """
    round_ = story.session.round or Round()
    changed = Round(
        tuple(
            call
            for call in round_.at("waiting")
            if call.kind == "child"
            or (call.kind == "approval" and call.digest != call_digest(call.name, call.arguments, round_.revision))
        )
    )
    story.add(*rounds.given_up(changed, f"interrupted ({BRANCHED})", stages={"waiting"}))
