"""The differences between two moments of a session, field by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from reenact.domain.history.explanation import excerpt
from reenact.domain.messages import instant, text_of
from reenact.domain.plain import is_mapping
from reenact.domain.session.state import Session
from reenact.inspector.conversation import Speech
from reenact.inspector.phrases import with_short_ids
from reenact.inspector.relations import Call, Relations
from reenact.inspector.values import as_text
from reenact.inspector.windows import Window
from reenact.projections.explain.difference import Document, changes_of
from reenact.projections.explain.entries import fields_of
from reenact.projections.log import Row

_CALL = ("stage", "arguments", "result", "is_error", "ran", "attempts", "decision", "by")


class Change(msgspec.Struct, frozen=True):
    """A changed value, as text; None where it is missing."""

    name: str
    before: str | None
    after: str | None


class Moment(msgspec.Struct, frozen=True):
    """A session after an event, the last one of the window, and the relations of the events in the window."""

    number: int
    row: Row
    session: Session
    relations: Relations
    window: Window

    @property
    def state(self) -> str:
        """The state of the agent."""
        agent = self.session.agent
        return "no agent" if agent is None else agent.state(self.session.turn, self.session.round)

    @property
    def pending(self) -> list[Call]:
        """The calls that wait for a person."""
        round_ = self.session.round
        if round_ is None:
            return []
        told = self.relations.open
        return [told.get(call.id) or Call(call.id, call.name, call.arguments) for call in round_.at("waiting")]


def changes_between(left: Moment, right: Moment, added: Iterable[Speech], *, has_calls: bool) -> list[Change]:
    """Return the changes from the left moment to the right one; `added` are the messages between them that are shown.

    `has_calls` is whether the relations of both begin with the same event, so that calls can be compared.
    """
    documents = (_document_of(moment, has_calls=has_calls) for moment in (left, right))
    changes = [Change(with_short_ids(one.path), _text(one.before), _text(one.after)) for one in changes_of(*documents)]
    return [*changes, *_said(added)]


def _document_of(moment: Moment, *, has_calls: bool) -> Document:
    session = moment.session
    agent, ledger = session.agent, session.ledger
    document = {
        "agent": {"id": None if agent is None else agent.id, "state": moment.state},
        "call": _calls(moment.relations) if has_calls else {},
        "pending": [_pending(call) for call in moment.pending],
        "turn": _turn(session),
        "queue": [{"id": queued.message_id, "text": excerpt(text_of(queued.content))} for queued in session.queue],
        "conversation": {
            "messages": len(session.conversation),
            "context_tokens": session.context_tokens,
            "summary": None if session.summary is None else session.summary.text,
            "warned": session.warned,
        },
        "used": {"models": ledger.models, "tools": ledger.tools, "cost": ledger.cost},
        "rules": None if session.rules is None else fields_of(session.rules),
        "session": {
            "id": session.id,
            "container": session.container_id,
            "image": f"{session.image_id}, revision {session.image_revision}",
            "deleted": session.deleted,
        },
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=Document)


def _calls(relations: Relations) -> Document:
    calls = {f"{call.name} {call.id}": call for calls in relations.calls for call in calls}
    return {name: {field: getattr(call, field) for field in _CALL} for name, call in calls.items()}


def _pending(call: Call) -> Document:
    prompt = None if call.question is None else call.question.prompt
    return {"id": call.id, "name": call.name, "arguments": call.arguments, "prompt": prompt, "digest": call.digest}


def _turn(session: Session) -> Document | None:
    turn = session.turn
    if turn is None:
        return None
    started_at = instant(turn.at)
    return {"id": turn.id, "started_at": started_at, "step": turn.steps, "usage": turn.usage, "cost": turn.cost}


def _said(added: Iterable[Speech]) -> Iterator[Change]:
    for speech in added:
        text = "".join(part.value.text if part.kind == "text" else "" for part in speech.parts)
        calls = ", ".join(f"{part.name}({part.summary})" for part in speech.parts if part.kind == "call")
        yield Change(f"+ {speech.who}", None, "\n".join(filter(None, (text, calls))) or "nothing")


def _text(value: object) -> str | None:
    if value is None or value is msgspec.UNSET:
        return None
    if is_mapping(value):
        return "\n".join(f"{name}: {as_text(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float) else as_text(value)
