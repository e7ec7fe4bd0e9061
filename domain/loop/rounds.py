"""A round: the calls that one answer of the model asks for, and what has become of each; a fold over events, like all.

A call is `ready` to run, `waiting` for a person, `running`, or `answered`. When all are answered, the results go back
to the model, in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never

import msgspec

from reenact.domain.errors import CallNotPendingError, InvalidAnswerError, StaleApprovalError
from reenact.domain.loop.answers import content_of
from reenact.domain.loop.asking import ASK_USER, Question, chosen, question_of
from reenact.domain.loop.events import (
    AskedCall,
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    LoopEvent,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.policy import Policies, Verdict, call_digest, judge
from reenact.domain.marks import is_marked
from reenact.domain.messages import ToolResultBlock

Stage: TypeAlias = Literal["ready", "waiting", "running", "answered"]
Judge: TypeAlias = Callable[[Policies, str, Mapping[str, Any], Collection[str]], Verdict]
"""`judge`, or the same with what it is to know of the world: the working directory, and where links lead."""
Kind: TypeAlias = Literal["approval", "prompt", "select"]
RoundEvent: TypeAlias = (
    HumanApproveRequired
    | HumanPromptRequired
    | HumanSelectRequired
    | ToolPending
    | ToolApproved
    | ToolEdited
    | ToolRejected
    | HumanResponded
    | ToolStarted
    | ToolResult
)


class Call(msgspec.Struct, frozen=True):
    """A call that the model asks for.

    `digest` is what an approval is bound to, or what was approved; `question` is what a person is asked.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    stage: Stage = "ready"
    kind: Kind = "approval"
    digest: str = ""
    reason: str = ""
    question: Question | None = None
    attempts: int = 0
    result: Any = None
    is_error: bool = False


class Round(msgspec.Struct, frozen=True):
    """The calls of one answer, in its order. `revision` is that of the policies under which people were asked."""

    calls: tuple[Call, ...] = ()
    revision: str = ""

    def call(self, id: str) -> Call | None:  # noqa: A002 - the word users know it by
        """Return the call of that id, or None."""
        return next((call for call in self.calls if call.id == id), None)

    def at(self, stage: Stage) -> tuple[Call, ...]:
        """Return the calls at that stage."""
        return tuple(call for call in self.calls if call.stage == stage)

    @property
    def waits(self) -> bool:
        """Whether a person has yet to decide about one of the calls."""
        return any(call.stage == "waiting" for call in self.calls)

    @property
    def runs(self) -> bool:
        """Whether one of the calls is running."""
        return any(call.stage == "running" for call in self.calls)

    @property
    def is_answered(self) -> bool:
        """Whether all calls are answered."""
        return all(call.stage == "answered" for call in self.calls)

    def results(self) -> tuple[ToolResultBlock, ...]:
        """Return the answers, in the order of the calls."""
        return tuple(
            ToolResultBlock(call.id, content_of(call.result), call.is_error)
            for call in self.calls
            if call.stage == "answered"
        )

    def digest(self) -> str:
        """Return what is the same whenever the same calls are asked for."""
        return call_digest("", {"calls": [[call.name, call.arguments] for call in self.calls]})

    def outcome(self) -> str:
        """Return what is the same whenever the same calls are asked for and have the same results."""
        told = [[call.name, call.arguments, content_of(call.result), call.is_error] for call in self.calls]
        return call_digest("", {"outcome": told})


def evolve(round_: Round, event: RoundEvent) -> Round:
    """Return the round as it is once the event has happened."""
    match event:
        case HumanApproveRequired():
            return _asked(round_, event)
        case HumanPromptRequired() | HumanSelectRequired():
            return _with(round_, event.id, kind=_kind(event), question=_question(event))
        case ToolPending():
            return _with_each(round_, {id_: {"stage": "waiting"} for id_ in event.ids})
        case ToolApproved():
            return _with(round_, event.id, stage="ready", digest=event.digest)
        case ToolEdited():
            return _with(round_, event.id, arguments=event.edited)
        case ToolStarted():
            return _with(round_, event.id, stage="running", attempts=event.attempt)
        case ToolResult():
            return _with(round_, event.id, stage="answered", result=event.result, is_error=event.is_error)
        case ToolRejected() | HumanResponded():
            return round_  # the answer to the call follows
        case _:
            assert_never(event)


def judged(
    round_: Round,
    policies: Policies,
    asked: Collection[str],
    *,
    session_id: str,
    questions: str | None = ASK_USER,
    ask_always: bool = False,
    judging: Judge = judge,
) -> tuple[RoundEvent, ...]:
    """Return what the policies say of the calls that are ready: which are denied, which a person is asked about.

    `asked` are the digests of the calls that a person has approved in this session. `questions` names the tool whose
    calls are questions, put to a person as they are unless they are denied. With `ask_always`, a person is asked about
    all that is not denied.
    """
    denied: list[RoundEvent] = []
    asking: list[RoundEvent] = []
    to_approve: list[AskedCall] = []
    waiting: list[str] = []
    for call in round_.at("ready"):
        verdict = judging(policies, call.name, call.arguments, asked)
        if verdict.decision == "deny":
            denied.append(_denied(call, verdict.reason))
        elif call.name == questions:
            question = question_of(call.arguments)
            if isinstance(question, str):
                denied.append(ToolResult(id=call.id, name=call.name, result=question, is_error=True, ran=False))
            else:
                asking.append(_put(question, call.id, session_id))
                waiting.append(call.id)
        elif verdict.decision == "ask" or ask_always:
            digest = call_digest(call.name, call.arguments, policies.revision)
            to_approve.append(AskedCall(call.id, call.name, call.arguments, digest, verdict.reason))
            waiting.append(call.id)
    required = (
        (HumanApproveRequired(session_id=session_id, calls=tuple(to_approve), revision=policies.revision),)
        if to_approve
        else ()
    )
    return (
        *denied,
        *required,
        *asking,
        *((ToolPending(ids=tuple(waiting)),) if waiting else ()),
    )


def judged_anew(
    round_: Round, policies: Policies, *, session_id: str, also: Sequence[AskedCall] = (), judging: Judge = judge
) -> tuple[RoundEvent, ...]:
    """Return what other policies say of the calls that wait for approval: denied, or asked about once more.

    What they would let run is asked about all the same, since somebody has been told that it waits. Calls that `also`
    are to be approved are asked about with them.
    """
    denied: list[RoundEvent] = []
    to_approve = [*also]
    for call in round_.at("waiting"):
        if call.kind == "approval":
            verdict = judging(policies, call.name, call.arguments, ())
            if verdict.decision == "deny":
                denied.append(_denied(call, verdict.reason))
            else:
                digest = call_digest(call.name, call.arguments, policies.revision)
                to_approve.append(AskedCall(call.id, call.name, call.arguments, digest, verdict.reason))
    required = HumanApproveRequired(session_id=session_id, calls=tuple(to_approve), revision=policies.revision)
    return (*denied, required) if to_approve else tuple(denied)


def resumed(
    round_: Round,
    policies: Policies,
    asked: Collection[str],
    idempotent: Collection[str],
    *,
    session_id: str,
    judging: Judge = judge,
) -> tuple[RoundEvent, ...]:
    """Return what becomes of the calls after the process has ended under them.

    Calls of `idempotent` tools that were running run again, unless policies that have changed since deny it or want a
    person to approve it; of all others that were running it is not known whether they took effect. Calls that wait
    for approval are asked about once more if the policies have changed.
    """
    lost: list[RoundEvent] = []
    again: list[RoundEvent] = []
    to_approve: list[AskedCall] = []
    waiting: list[str] = []
    for call in round_.at("running"):
        digest = call_digest(call.name, call.arguments, policies.revision)
        verdict = Verdict("run") if call.digest == digest else judging(policies, call.name, call.arguments, asked)
        if call.name not in idempotent or is_marked(call.arguments):  # what was taken out of it cannot be run again
            lost.append(_given_up(call, "the process ended while it ran"))
        elif verdict.decision == "deny":
            lost.append(_given_up(call, f"the process ended while it ran, and it was not run again: {verdict.reason}"))
        elif verdict.decision == "ask":
            to_approve.append(AskedCall(call.id, call.name, call.arguments, digest, verdict.reason))
            waiting.append(call.id)
        else:
            again.append(ToolStarted(id=call.id, name=call.name, attempt=call.attempts + 1))
    if to_approve or round_.revision not in ("", policies.revision):
        lost += judged_anew(round_, policies, session_id=session_id, also=to_approve, judging=judging)
    return (*lost, *((ToolPending(ids=tuple(waiting)),) if waiting else ()), *again)


def approved(
    round_: Round,
    call_id: str,
    policies: Policies,
    *,
    arguments: Mapping[str, Any] | None = None,
    digest: str | None = None,
    by: str | None = None,
    judging: Judge = judge,
) -> tuple[RoundEvent, ...]:
    """Return what follows when a person approves the call, with other arguments if some are given.

    An edited call passes the policies again: what they deny is answered with an error. What they would ask about has
    just been answered.

    Raises:
        CallNotPendingError: no such call waits for approval.
        StaleApprovalError: the digest is not that of the call as it is now, or the policies have changed since.
    """
    call = _pending(round_, call_id, "approval")
    if digest is not None and digest != call.digest:
        raise StaleApprovalError(call_id, "the call, or the policies it was asked under, are not what they were")
    if round_.revision != policies.revision:
        raise StaleApprovalError(call_id, "the policies have changed since it was asked for")
    if _has_changed(round_, call):
        raise StaleApprovalError(call_id, "its arguments are not those that it was asked for with: they were redacted")
    edited = dict(arguments) if arguments is not None else call.arguments
    events: list[RoundEvent] = []
    if arguments is not None and not _same(edited, call.arguments):
        events.append(ToolEdited(id=call_id, original=call.arguments, edited=edited, by=by))
        verdict = judging(policies, call.name, edited, ())
        if verdict.decision == "deny":
            text = f"{call.name} was not run with the edited arguments: {verdict.reason}"
            return (*events, ToolResult(id=call_id, name=call.name, result=text, is_error=True, ran=False))
    now = call_digest(call.name, edited, policies.revision)
    return (*events, ToolApproved(id=call_id, digest=now, by=by))


def rejected(round_: Round, call_id: str, reason: str, *, by: str | None = None) -> tuple[RoundEvent, ...]:
    """Return what follows when a person rejects the call, or does not want to answer the question.

    Raises:
        CallNotPendingError: no such call waits for a person.
    """
    call = _pending(round_, call_id, None)
    said = f": {reason}" if reason else ""
    text = f"{call.name} was not run: it was rejected{said}"
    return (
        ToolRejected(id=call_id, reason=reason, by=by),
        ToolResult(id=call_id, name=call.name, result=text, is_error=True, ran=False),
    )


def responded(round_: Round, call_id: str, value: Any, *, by: str | None = None) -> tuple[RoundEvent, ...]:  # noqa: ANN401 - any JSON value
    """Return what follows when a person answers the question that the call asks.

    Raises:
        CallNotPendingError: no such call asks a question.
        InvalidAnswerError: the question does not take this answer.
    """
    call = _pending(round_, call_id, "answer")
    assert call.question is not None  # what waits for an answer has asked for one
    answer = chosen(call.question, value)
    if isinstance(answer, InvalidAnswerError):
        raise answer
    return (
        HumanResponded(id=call_id, value=answer, by=by),
        ToolResult(id=call_id, name=call.name, result=answer, ran=False),
    )


def started(round_: Round) -> tuple[ToolStarted, ...]:
    """Return the start of every call that is ready."""
    return tuple(ToolStarted(id=call.id, name=call.name, attempt=call.attempts + 1) for call in round_.at("ready"))


def given_up(round_: Round, why: str, *, stages: Collection[Stage]) -> tuple[ToolResult, ...]:
    """Return an error as the answer to every call at one of the stages; it says if the call may have taken effect."""
    return tuple(_given_up(call, why) for call in round_.calls if call.stage in stages)


def under(round_: Round, policies: Policies, *, judging: Judge = judge) -> tuple[Round, tuple[ToolResult, ...]]:
    """Return the round as if people had been asked under these policies, and the answers to what they deny by now."""
    if round_.revision == policies.revision:
        return round_, ()
    calls: list[Call] = []
    denied: list[ToolResult] = []
    for call in round_.calls:
        digest = call.digest
        if not _has_changed(round_, call):
            digest = call_digest(call.name, call.arguments, policies.revision)
        calls.append(msgspec.structs.replace(call, digest=digest))
        verdict = judging(policies, call.name, call.arguments, ())
        if call.stage == "waiting" and call.kind == "approval" and verdict.decision == "deny":
            denied.append(_denied(call, verdict.reason))
    return Round(tuple(calls), policies.revision), tuple(denied)


def is_round_event(event: LoopEvent) -> bool:
    """Return whether a round takes note of the event."""
    return isinstance(event, RoundEvent)


def fold(round_: Round, events: Iterable[RoundEvent]) -> Round:
    """Return the round as it is once all of the events have happened."""
    for event in events:
        round_ = evolve(round_, event)
    return round_


def _has_changed(round_: Round, call: Call) -> bool:
    """Return whether it is another call than the one that people were asked about, as after a redaction."""
    return call.digest not in ("", call_digest(call.name, call.arguments, round_.revision))


def _denied(call: Call, reason: str) -> ToolResult:
    text = f"{call.name} was not run: {reason}"
    return ToolResult(id=call.id, name=call.name, result=text, is_error=True, ran=False)


def _given_up(call: Call, why: str) -> ToolResult:
    ran = call.stage == "running"
    text = f"{call.name}: {why}; it is not known whether it took effect" if ran else f"{call.name} was not run: {why}"
    return ToolResult(id=call.id, name=call.name, result=text, is_error=True, ran=ran)


def _asked(round_: Round, event: HumanApproveRequired) -> Round:
    asked: dict[str | None, dict[str, str]] = {
        one.id: {"kind": "approval", "digest": one.digest, "reason": one.reason} for one in event.calls
    }
    return msgspec.structs.replace(_with_each(round_, asked), revision=event.revision)


def _put(question: Question, call_id: str, session_id: str) -> HumanPromptRequired | HumanSelectRequired:
    if question.options is None:
        return HumanPromptRequired(session_id=session_id, prompt=question.prompt, id=call_id)
    return HumanSelectRequired(
        session_id=session_id, prompt=question.prompt, options=question.options, multi=question.multi, id=call_id
    )


def _kind(event: HumanPromptRequired | HumanSelectRequired) -> Kind:
    return "prompt" if isinstance(event, HumanPromptRequired) else "select"


def _question(event: HumanPromptRequired | HumanSelectRequired) -> Question:
    if isinstance(event, HumanPromptRequired):
        return Question(event.prompt)
    return Question(event.prompt, event.options, event.multi)


def _pending(round_: Round, call_id: str, wanted: Literal["approval", "answer"] | None) -> Call:
    call = round_.call(call_id)
    if call is None or call.stage != "waiting":
        raise CallNotPendingError(call_id)
    if wanted is not None and (call.kind == "approval") != (wanted == "approval"):
        raise CallNotPendingError(
            call_id, "it waits for an answer" if wanted == "approval" else "it waits for approval"
        )
    return call


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return call_digest("", one) == call_digest("", other)  # true is not 1


def _with(round_: Round, id_: str | None, **changes: Any) -> Round:  # noqa: ANN401 - fields differ in type
    return _with_each(round_, {id_: changes})


def _with_each(round_: Round, changes: Mapping[str | None, Mapping[str, Any]]) -> Round:
    """Return the round with the changes of each call, by its id."""
    calls = (msgspec.structs.replace(call, **changes[call.id]) if call.id in changes else call for call in round_.calls)
    return msgspec.structs.replace(round_, calls=tuple(calls))
