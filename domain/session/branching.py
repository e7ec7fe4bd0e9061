"""Branching of sessions: a branch continues another session's history as if it were its own.

Everything under way at the branch point ends in the branch, so that it can continue at once: a turn is interrupted, and
calls that were to run, or ran, are given up. Calls that wait for people keep waiting, in both sessions. Messages that
are queued there are accepted again, under ids of their own.

Children that calls wait for are branched by the same rules: a call goes on waiting for the branch of its child if that
waits for a person, and otherwise is given up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from reenact.domain.children import Child, ChildOrigin, ChildStarted, child_id
from reenact.domain.errors import AlreadyExistsError, SessionNotFoundError
from reenact.domain.loop import rounds
from reenact.domain.loop.rounds import Call, Round
from reenact.domain.messages import Block
from reenact.domain.session import turns
from reenact.domain.session.agent import MessageAccepted, ToolsRequested, TurnStarted
from reenact.domain.session.child_calls import awaited, depth_of, is_at_its_part, root_of
from reenact.domain.session.commands import BranchSession
from reenact.domain.session.state import Session, SessionBranched, SessionEvent, calls_of
from reenact.domain.session.turns import DecisionDraft

BRANCHED = "branched"
"""The reason for which the turn under way at the branch point ends in the branch."""
_ATTEMPT = 1
"""The attempt of a call that starts a child session: it is never started again."""


def branch(draft: DecisionDraft, command: BranchSession) -> None:
    """Begin the branch; the draft's session is the one from which it branches off."""
    origin = draft.session
    if origin.id == command.session_id and command.parent is not None:
        return
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
            command.parent,
            command.budget,
        )
    )
    _request_tools(draft)
    lost = Round(_lost_calls(origin, command.children))
    draft.add(*rounds.given_up(lost, f"interrupted ({BRANCHED})", stages={"waiting"}))
    turns.cut_short(draft, msgspec.structs.replace(command, at=command.left_at), BRANCHED)
    draft.add(*_branched_children(draft.session, awaited(origin), command))
    draft.add(*command.checked)
    outputs = [queued.output for queued in origin.queue] or [None]
    for (turn_id, message_id), content, output in zip(
        command.ids, waiting(origin, command.edit), outputs, strict=False
    ):
        draft.add(MessageAccepted(turn_id, message_id, content, command.at, output=output))


def waits(session: Session, children: Sequence[ChildOrigin]) -> bool:
    """Return whether a branch of the session waits for a person, if these are its children."""
    round_ = session.round or Round()
    is_paused = session.turn is None and is_at_its_part(session)
    return is_paused and len(_lost_calls(session, children)) < len(round_.at("waiting"))


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


def _lost_calls(origin: Session, children: Sequence[ChildOrigin]) -> tuple[Call, ...]:
    """Return the waiting calls that a branch cannot go on with.

    They are those that a person was just editing, since in their new form they were neither judged nor approved, and
    those of which the child does not wait in the branch.
    """
    round_ = origin.round or Round()
    waiting_children = {child.session_id for child in children if child.waits}
    goes_on = {child.call_id for child in awaited(origin) if child.id in waiting_children}
    return tuple(
        call
        for call in round_.at("waiting")
        if (call.kind == "child" and call.id not in goes_on)
        or (call.kind == "approval" and call.digest != call.digest_under(round_.revision))
    )


def _branched_children(branch: Session, children: Sequence[Child], command: BranchSession) -> Iterator[ChildStarted]:
    """Yield the starts of the branches of the children."""
    origins = {origin.session_id: origin for origin in command.children}
    for child in children:
        if child.id in origins:
            yield ChildStarted(
                child.call_id,
                child_id(branch.id or "", child.call_id, _ATTEMPT, root=root_of(branch)),
                child.image_id,
                child.image_revision,
                depth_of(branch) + 1,
                child.budget,
                child.detached,
                command.at,
                origins[child.id],
            )
