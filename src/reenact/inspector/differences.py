"""The differences between two moments of a session, grouped by subject."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from reenact.domain.history.explanation import excerpt
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import instant, text_of
from reenact.domain.plain import is_mapping
from reenact.domain.session.state import Session
from reenact.inspector.conversation import Speech
from reenact.inspector.relations import Call, Relations
from reenact.inspector.values import as_text, on_one_line, summary_of
from reenact.inspector.windows import Window
from reenact.projections.explain.entries import fields_of
from reenact.projections.log import Row

Facts: TypeAlias = Mapping[str, object]
"""Values by their names; None means that a value is missing."""

_CALL = ("stage", "arguments", "result", "is_error", "ran", "attempts", "decision", "by")
_TIMES = ("decided", "started", "ended")


class Change(msgspec.Struct, frozen=True):
    """A changed value, as text; None where it is missing."""

    name: str
    before: str | None
    after: str | None


class Group(msgspec.Struct, frozen=True):
    """Changes with the same subject."""

    title: str
    changes: list[Change]


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


def changes_between(left: Moment, right: Moment, added: Iterable[Speech], *, has_calls: bool) -> list[Group]:
    """Return the changes from the left moment to the right one; `added` are the messages between them that are shown.

    `has_calls` is whether the relations of both begin with the same event, so that calls can be compared.
    """

    def group(title: str, facts: Callable[[Moment], Facts], more: Iterable[Change] = ()) -> Group:
        return Group(title, [*_changed(facts(left), facts(right)), *more])

    groups = [
        group("Agent", _agent),
        *(Group(_title(call), list(_changed(*sides))) for call, *sides in _calls(left, right) if has_calls),
        group("Waits for people", _pending),
        Group("Turn", list(_whole("turn", _turn(left), _turn(right)))),
        group("Queue", _queue),
        group("Conversation", _conversation, _said(added)),
        group("Used", _used),
        group("Rules", _rules),
        group("Session", _session),
    ]
    return [one for one in groups if one.changes]


def _agent(moment: Moment) -> Facts:
    agent = moment.session.agent
    return {"id": None if agent is None else agent.id, "state": moment.state}


def _title(call: Call) -> str:
    return f"Call: {call.name}({summary_of(call.arguments or {})})"


def _calls(left: Moment, right: Moment) -> Iterator[tuple[Call, Facts, Facts]]:
    """Yield the calls that changed between the moments, with their facts on each side.

    Both relations must begin with the same event.
    """
    low, high = (left, right) if left.number <= right.number else (right, left)
    before, after = _calls_of(left.relations), _calls_of(right.relations)
    for id_, call in _calls_of(high.relations).items():
        places = [row.position for row in (call.asked, call.waits, call.decided, call.started, call.ended) if row]
        if max(places, default=0) > low.row.position:
            yield call, _facts_of(before.get(id_)), _facts_of(after.get(id_))


def _calls_of(relations: Relations) -> dict[str, Call]:
    return {call.id: call for calls in relations.calls for call in calls}


def _facts_of(call: Call | None) -> Facts:
    if call is None:
        return {}
    facts: dict[str, object] = {name: getattr(call, name) for name in _CALL}
    facts |= {"is_error": call.is_error or None, "ran": None if call.ended is None else call.ran}
    for name in _TIMES:
        row: Row | None = getattr(call, name)
        facts[f"{name}_at"] = None if row is None else instant(row.recorded_at).isoformat()
    return facts


def _pending(moment: Moment) -> Facts:
    return {
        f"pending[{place}]": {
            "id": call.id,
            "name": call.name,
            "arguments": call.arguments,
            **({"prompt": call.question.prompt} if call.question else {}),
            **({"digest": call.digest} if call.digest else {}),
        }
        for place, call in enumerate(moment.pending)
    }


def _turn(moment: Moment) -> Facts | None:
    turn = moment.session.turn
    if turn is None:
        return None
    return {
        "id": turn.id,
        "started_at": instant(turn.at).isoformat(),
        "step": turn.steps,
        **({} if turn.cost is None else {"cost": turn.cost}),
        **({"usage": turn.usage} if turn.usage else {}),
    }


def _queue(moment: Moment) -> Facts:
    return {queued.message_id: excerpt(text_of(queued.content)) for queued in moment.session.queue}


def _conversation(moment: Moment) -> Facts:
    session = moment.session
    return {
        "messages": len(session.conversation),
        "context_tokens": session.context_tokens,
        "summary": None if session.summary is None else session.summary.text,
        "warned": session.warned or None,
    }


def _said(added: Iterable[Speech]) -> Iterator[Change]:
    for speech in added:
        text = "".join(part.value.text if part.kind == "text" else "" for part in speech.parts)
        calls = ", ".join(f"{part.name}({part.summary})" for part in speech.parts if part.kind == "call")
        yield Change(f"+ {speech.who}", None, "\n".join(filter(None, (text, calls))) or "nothing")


def _used(moment: Moment) -> Facts:
    ledger = moment.session.ledger
    spent = {f"models.{name}": one for name, one in ledger.models.items()}
    spent |= {f"tools.{name}": one for name, one in ledger.tools.items()}
    facts = {f"{name}.{what}": value for name, one in spent.items() for what, value in _spent(one).items()}
    return {**facts, "cost": ledger.cost}


def _spent(spent: Spent) -> Facts:
    return {"calls": spent.calls, **spent.usage, "cost": spent.cost or None, "unpriced": spent.unpriced or None}


def _rules(moment: Moment) -> Facts:
    rules = moment.session.rules
    if rules is None:
        return {}
    fields = fields_of(rules)
    return {**fields_of(rules.rules), **{name: fields[name] for name in ("cwd", "home")}}


def _session(moment: Moment) -> Facts:
    session = moment.session
    return {
        "id": session.id,
        "container": session.container_id,
        "image": f"{session.image_id}, revision {session.image_revision}",
        "deleted": session.deleted or None,
    }


def _whole(name: str, before: Facts | None, after: Facts | None) -> Iterator[Change]:
    """Yield one change if the thing was added or removed, or else one for each changed value in it."""
    if before is None or after is None:
        yield from _changed({name: before}, {name: after})
    else:
        yield from _changed(before, after)


def _changed(before: Facts, after: Facts) -> Iterator[Change]:
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if old != new or type(old) is not type(new):
            yield Change(name, _text(old), _text(new))


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if is_mapping(value):
        return "\n".join(f"{name}: {as_text(each)}" for name, each in value.items())
    return f"{value:.6g}" if isinstance(value, float) else on_one_line(value)
