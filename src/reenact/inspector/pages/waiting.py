"""The page of calls that wait for people, with all of their arguments, and the forms to decide about them."""

from __future__ import annotations

import hashlib
from typing import Final

import msgspec

from reenact.actors.kernel.timetable import microseconds
from reenact.domain.errors import CallNotPendingError, InvalidInputError, StaleApprovalError
from reenact.domain.loop.asking import Question
from reenact.domain.plain import Json, JsonDict
from reenact.inspector.actions import Actions, Form, catch_up
from reenact.inspector.rendering import Address, Page, whole_number
from reenact.inspector.source import Source
from reenact.inspector.text import as_visible_json, visible
from reenact.inspector.values import Pieces, value_of
from reenact.projections.read_model.waiting_list import (
    Place,
    WaitingCall,
    call_at,
    count,
    decided_at,
    page,
)

SIZE: Final = 50
ROOM: Final = 80_000
"""Bytes of a page for arguments; at least one call is shown completely if it needs no more than that."""
EDITED: Final = 8_000
"""The largest arguments, in bytes, that can be changed in a form."""
_OPTION = 120
"""Bytes of a page for an option, besides its text."""
_object = msgspec.json.Decoder(JsonDict).decode


class ShownCall(msgspec.Struct, frozen=True):
    """A call as it is shown. Only a completely shown call can be approved; `seen` is a digest of what was shown."""

    call: WaitingCall
    pieces: Pieces
    length: int
    is_whole: bool
    written: str | None
    seen: str


def list_waiting(source: Source, address: Address) -> Page:
    """Return the page of waiting calls."""
    source.tables.refresh()
    after = _place(address.text("after")) if address.text("after") else Place()
    done = address.text("done")
    calls = page(source.tables, after, SIZE + 1)
    asks: list[ShownCall] = []
    room = ROOM
    for call in calls[:SIZE]:
        ask = _shown_call(call)
        if asks and ask.length > room:
            break
        asks.append(ask)
        room -= min(ask.length, room)
    all_calls, sessions, since = count(source.tables)
    return Page(
        "waiting.html",
        {
            "asks": asks,
            "calls": all_calls,
            "sessions": sessions,
            "since": since,
            "further": asks[-1].call.place if len(asks) < len(calls) else None,
            "is_first": not address.text("after"),
            "done": decided_at(source.tables, _place(done)) if done else None,
            "micros": microseconds(),
        },
    )


def decide(source: Source, address: Address, actions: Actions, form: Form) -> Page | str:
    """Carry out the form; return the address of the result, or a page that says why it was not done.

    Raises:
        InvalidInputError: the form asks for nothing that can be done.
        ReenactError: the runtime refuses it.
    """
    place = _place(form.text("call"))
    source.tables.refresh()
    call = call_at(source.tables, place)
    ask = None if call is None else _shown_call(call)
    if call is None or ask is None or form.text("seen") != ask.seen:
        return _meanwhile(source, place)
    edited = _edited(form, call)
    if edited is not None and form.text("do") == "approve":
        shown = {"ask": ask, "edited": as_visible_json(edited), "pieces": value_of(0, "", edited).pieces}
        return Page("approve_edited.html", shown)
    try:
        _carry_out(actions, form, ask, edited)
    except (CallNotPendingError, StaleApprovalError):
        catch_up(source)
        return _meanwhile(source, place)
    catch_up(source)
    return address.to("/waiting", done=place)


def _carry_out(actions: Actions, form: Form, ask: ShownCall, edited: JsonDict | None) -> None:
    agents, call, by = actions.owner.agents, ask.call, actions.by
    match form.text("do"):
        case "approve" | "approve edited" if call.kind == "approval" and ask.is_whole:
            digest = call.digest or None
            agents.approve(call.id, session_id=call.session_id, arguments=edited, digest=digest, by=by)
        case "reject":
            reason, goes_on = form.text("reason").strip(), not form.text("stop")
            agents.reject(call.id, reason, resume=goes_on, session_id=call.session_id, by=by)
        case "answer" if call.question is not None and ask.is_whole:
            agents.respond(call.id, _answer(form, call.question), session_id=call.session_id, by=by)
        case _:
            raise InvalidInputError("this cannot be done to the call")


def _shown_call(call: WaitingCall) -> ShownCall:
    question = call.question
    if question is not None:
        length = _size(question.prompt) + sum(_OPTION + _size(option.label) for option in question.options or ())
        return ShownCall(call, (), length, is_whole=length <= ROOM, written=None, seen=_seen(call))
    if call.arguments is None:
        return ShownCall(call, (), 0, is_whole=False, written=None, seen=_seen(call))
    value = value_of(0, "", call.arguments)
    length = sum(_size(name) + _size(text) for name, text in value.pieces)
    is_whole = length <= ROOM
    pieces = value.pieces if is_whole else (("", value.text[: EDITED // 8]),)
    written = as_visible_json(call.arguments) if length <= EDITED else None
    return ShownCall(call, pieces, length + _size(written or ""), is_whole=is_whole, written=written, seen=_seen(call))


def _size(text: str) -> int:
    return len(visible(text).encode())


def _seen(call: WaitingCall) -> str:
    told = [str(call.place), call.id, call.kind, call.name, call.digest, call.since, call.session_id]
    return hashlib.sha256(msgspec.json.encode([told, call.arguments, call.question])).hexdigest()


def _place(text: str) -> Place:
    match list(map(whole_number, text.split("."))):
        case [int(first), int(second), int(third)]:
            return Place(first, second, third)
        case _:
            raise InvalidInputError(f"a call must be named by three numbers with dots between them, not {text!r}")


def _edited(form: Form, call: WaitingCall) -> JsonDict | None:
    """Return the arguments that a person has written, or None if they are the call's own."""
    text = form.text("arguments")
    if not text.strip():
        return None
    try:
        written = _object(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInputError(f"the arguments are not a JSON object: {error}; nothing was approved") from None
    return None if written == call.arguments else written


def _answer(form: Form, question: Question) -> Json:
    if question.options is None:
        return form.text("value")
    by_number = {str(number): option.value for number, option in enumerate(question.options)}
    chosen = [by_number[number] for number in form.all("option") if number in by_number]
    if not chosen:
        raise InvalidInputError("choose an option; nothing was answered")
    return chosen if question.multi else chosen[0]


def _meanwhile(source: Source, place: Place) -> Page:
    found = decided_at(source.tables, place)
    if found is None:
        raise InvalidInputError("there is no such call")
    return Page("meanwhile.html", {"found": found, "is_open": found.stage == "waiting", "micros": microseconds()}, 409)
