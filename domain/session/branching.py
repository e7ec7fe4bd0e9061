"""Branching of sessions: a branch continues another session's history as if it were its own.

Everything under way at the branch point ends in the branch, so that it can continue at once: a turn is interrupted, and
calls that were to run, or ran, are given up. Calls that wait for people keep waiting, in both sessions. Messages that
are queued there are accepted again, under ids of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reenact.domain.errors import AlreadyExistsError, SessionNotFoundError
from reenact.domain.loop import rounds
from reenact.domain.loop.rounds import Round
from reenact.domain.messages import Block
from reenact.domain.policy.rules import call_digest
from reenact.domain.session import turns
from reenact.domain.session.agent import MessageAccepted, ToolsRequested, TurnStarted
from reenact.domain.session.commands import BranchSession
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, calls_of
from reenact.domain.session.turns import DecisionDraft

BRANCHED = "branched"
"""The reason for which the turn under way at the branch point ends in the branch."""


def branch(draft: DecisionDraft, command: BranchSession) -> None:
    """Begin the branch; the draft's session is the one from which it branches off."""
    origin = draft.session
    if origin.id == command.session_id:
        raise AlreadyExistsError("session", command.session_id)
    if origin.id is None:
        raise SessionNotFoundError(command.origin)
    draft.add(
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
    _request_tools(draft)
    _give_up_changed(draft)
    turns.cut_short(draft, msgspec.structs.replace(command, at=command.left_at), BRANCHED)
    draft.add(*command.checked)
    outputs = [queued.output for queued in origin.queue] or [None]
    for (turn_id, message_id), content, output in zip(
        command.ids, waiting(origin, command.edit), outputs, strict=False
    ):
        draft.add(MessageAccepted(turn_id, message_id, content, command.at, output=output))


def waiting(origin: Session, edit: tuple[Block, ...] | None) -> tuple[tuple[Block, ...], ...]:
    """Return the messages that are queued when a branch begins; `edit` replaces the last one."""
    queued = tuple(message.content for message in origin.queue)
    return queued if edit is None else (*queued[:-1], edit)


def before_last_message(events: Sequence[SessionEvent]) -> int | None:
    """Return the index of the last event at which the user's last message is still queued, None if there is no message.

    That is the last event if the message's turn has not begun, else the one before the turn began.
    """
    last, end = "", len(events)
    for index, event in enumerate(events):
        if isinstance(event, MessageAccepted):
            last, end = event.turn_id, len(events)
        elif isinstance(event, TurnStarted) and event.turn_id == last:
            end = index
    return end - 1 if last else None


def _request_tools(draft: DecisionDraft) -> None:
    """Begin the round of an answer that was just recorded, so that its calls can be given up."""
    turn, conversation = draft.session.turn, draft.session.conversation
    if turn is None or draft.session.round is not None:
        return
    last = conversation[-1]
    if last.role == "assistant" and not last.refused and calls_of(last.content):
        draft.add(ToolsRequested(turn.id, turn.activity))


def _give_up_changed(draft: DecisionDraft) -> None:
    """Give up calls that a person was just editing: in their new form they were neither judged nor approved.

    Also give up those that wait for a child session, which reports to the session that called it.
    """
    round_ = draft.session.round or Round()
    changed = Round(
        tuple(
            call
            for call in round_.at("waiting")
            if call.kind == "child"
            or (call.kind == "approval" and call.digest != call_digest(call.name, call.arguments, round_.revision))
        )
    )
    draft.add(*rounds.given_up(changed, f"interrupted ({BRANCHED})", stages={"waiting"}))
