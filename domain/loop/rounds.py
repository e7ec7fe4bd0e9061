"""A round: the calls that one answer of the model requests, and the state of each; a fold over events.

A call is `ready` to run, `waiting` for a person, `running`, or `answered`. When all are answered, the results go back
to the model, in the order of the calls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias, assert_never

import msgspec

from reenact.domain.errors import CallNotPendingError, StaleApprovalError
from reenact.domain.loop.asking import ASK_USER, Question, checked_answer, question_of
from reenact.domain.loop.calls import content_of, is_unreadable
from reenact.domain.loop.events import (
    AskedCall,
    HumanApproveRequired,
    HumanPromptRequired,
    HumanResponded,
    HumanSelectRequired,
    ToolApproved,
    ToolEdited,
    ToolPending,
    ToolRejected,
    ToolResult,
    ToolStarted,
)
from reenact.domain.loop.rules import Rules
from reenact.domain.marks import is_marked
from reenact.domain.messages import ToolResultBlock
from reenact.domain.plain import Json, JsonObject
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Verdict, call_digest
from reenact.domain.structs import Frozen

Stage: TypeAlias = Literal["ready", "waiting", "running", "answered"]
Kind: TypeAlias = Literal["approval", "prompt", "select"]
CallKind: TypeAlias = Literal[Kind, "child"]
_UNREADABLE = "its arguments cannot be read as a JSON object; call it again, with valid JSON"
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


class Call(Frozen):
    """A call that the model requests.

    `digest` is the one that an approval must match, or that was approved; `question` is the question to a person. A
    call of kind `child` is a child session: it waits while its child waits for a person.
    """

    id: str
    name: str
    arguments: JsonObject
    stage: Stage = "ready"
    kind: CallKind = "approval"
    digest: str = ""
    reason: str = ""
    question: Question | None = None
    attempts: int = 0
    result: Json = None
    is_error: bool = False

    def digest_under(self, revision: str) -> str:
        """Return the digest of the call as it is now, under this revision of the policies, "" for any."""
        return call_digest(self.name, self.arguments, revision)


class Round(Frozen):
    """The calls of one answer, in order. `revision` is that of the policies under which people were asked."""

    calls: tuple[Call, ...] = ()
    revision: str = ""

    def call(self, id: str) -> Call | None:  # noqa: A002 - the word users know it by
        """Return the call with that id, or None."""
        return next((call for call in self.calls if call.id == id), None)

    def at(self, stage: Stage) -> tuple[Call, ...]:
        """Return the calls at that stage."""
        return tuple(call for call in self.calls if call.stage == stage)

    @property
    def runs(self) -> bool:
        """Whether one of the calls is running."""
        return any(call.stage == "running" for call in self.calls)

    @property
    def is_answered(self) -> bool:
        """Whether all calls are answered."""
        return all(call.stage == "answered" for call in self.calls)

    def results(self) -> tuple[ToolResultBlock, ...]:
        """Return the results, in the order of the calls."""
        return tuple(
            ToolResultBlock(call.id, content_of(call.result), call.is_error)
            for call in self.calls
            if call.stage == "answered"
        )

    def digest(self) -> str:
        """Return a digest that is equal whenever the same calls are requested."""
        return call_digest("", {"calls": [[call.name, call.arguments] for call in self.calls]})

    def outcome(self) -> str:
        """Return a digest that is equal whenever the same calls are requested and have the same results."""
        told = [[call.name, call.arguments, content_of(call.result), call.is_error] for call in self.calls]
        return call_digest("", {"outcome": told})


def evolve(round_: Round, event: RoundEvent) -> Round:
    """Return the round after the event."""
    match event:
        case ToolStarted():
            return _with_call_changed(round_, event.id, stage="running", attempts=event.attempt)
        case ToolResult():
            return _with_call_changed(round_, event.id, stage="answered", result=event.result, is_error=event.is_error)
        case HumanApproveRequired():
            asked = {one.id: {"kind": "approval", "digest": one.digest, "reason": one.reason} for one in event.calls}
            return msgspec.structs.replace(_with_calls_changed(round_, asked), revision=event.revision)
        case HumanPromptRequired():
            return _with_call_changed(round_, event.id, kind="prompt", question=Question(event.prompt))
        case HumanSelectRequired():
            return _with_call_changed(
                round_, event.id, kind="select", question=Question(event.prompt, event.options, event.multi)
            )
        case ToolPending():
            return _with_calls_changed(round_, {id_: {"stage": "waiting"} for id_ in event.ids})
        case ToolApproved():
            return _with_call_changed(round_, event.id, stage="ready", digest=event.digest)
        case ToolEdited():
            return _with_call_changed(round_, event.id, arguments=event.edited)
        case ToolRejected() | HumanResponded():
            return round_  # the result of the call follows as an event of its own
        case _:
            assert_never(event)


def judged(
    round_: Round,
    rules: Rules,
    asked: Collection[str],
    *,
    session_id: str,
    questions: str | None = ASK_USER,
    ask_always: bool = False,
) -> tuple[RoundEvent, ...]:
    """Return the events that judge the calls that are ready: which are denied, and which a person is asked about.

    A call whose arguments cannot be parsed gets an error as its result. The policies decide about the others.

    `asked` are the digests of the calls that a person has approved in this session. `questions` names the tool whose
    calls are questions, which a person is asked unless they are denied. With `ask_always`, a person is asked about all
    calls that are not denied.
    """
    denied: list[RoundEvent] = []
    put: list[HumanPromptRequired | HumanSelectRequired] = []
    to_approve: list[AskedCall] = []
    for call in round_.at("ready"):
        verdict = rules.verdict(call.name, call.arguments, asked)
        if is_unreadable(call.arguments):
            denied.append(not_run(call, _UNREADABLE))
        elif verdict.decision == "deny":
            denied.append(_denied_result(call, verdict))
        elif call.name == questions:
            question = question_of(call.arguments)
            if isinstance(question, str):
                denied.append(ToolResult(id=call.id, name=call.name, result=question, is_error=True, ran=False))
            else:
                put.append(_question_event(question, call.id, session_id))
        elif verdict.decision == "ask" or ask_always:
            to_approve.append(_call_to_approve(call, rules, verdict))
    waiting = {*(event.id for event in put), *(call.id for call in to_approve)}
    return (
        *denied,
        *_approval_required(to_approve, rules, session_id),
        *put,
        *_pending_event(call.id for call in round_.calls if call.id in waiting),
    )


def judged_anew(
    round_: Round, rules: Rules, *, session_id: str, also: Sequence[AskedCall] = ()
) -> tuple[RoundEvent, ...]:
    """Return the events that judge the calls waiting for approval under changed policies: denied, or asked about again.

    A call that these policies would let run is asked about all the same, since a person has been told that it waits.
    The calls in `also` are asked about together with them.
    """
    denied: list[RoundEvent] = []
    to_approve = [*also]
    for call in round_.at("waiting"):
        if call.kind == "approval":
            verdict = rules.verdict(call.name, call.arguments)
            if verdict.decision == "deny":
                denied.append(_denied_result(call, verdict))
            else:
                to_approve.append(_call_to_approve(call, rules, verdict))
    return (*denied, *_approval_required(to_approve, rules, session_id))


def resumed(
    round_: Round, rules: Rules, asked: Collection[str], idempotent: Collection[str], *, session_id: str
) -> tuple[RoundEvent, ...]:
    """Return the events that decide about the calls after the process has ended during the round.

    Running calls of `idempotent` tools run again, unless policies that have changed since deny them or require
    approval. All other running calls get an error that says it is unknown whether they took effect, except child
    sessions, which continue. If the policies have changed, people are asked again about the calls that wait for
    approval.
    """
    ended = "the process ended while it ran"
    lost: list[RoundEvent] = []
    again: list[RoundEvent] = []
    to_approve: list[AskedCall] = []
    for call in round_.at("running"):
        if call.kind == "child":
            continue  # the child session continues by itself
        is_same = call.digest == call.digest_under(rules.policies.revision)
        verdict = Verdict("run") if is_same else rules.verdict(call.name, call.arguments, asked)
        if call.name not in idempotent or is_marked(call.arguments):  # a redacted call cannot be run again
            lost.append(_given_up_result(call, ended))
        elif verdict.decision == "deny":
            lost.append(_given_up_result(call, f"{ended}, and it was not run again: {verdict.reason}"))
        elif verdict.decision == "ask":
            to_approve.append(_call_to_approve(call, rules, verdict))
        else:
            again.append(start_of(call))
    if to_approve or round_.revision not in ("", rules.policies.revision):
        lost += judged_anew(round_, rules, session_id=session_id, also=to_approve)
    return (*lost, *_pending_event(call.id for call in to_approve), *again)


def approved(
    round_: Round,
    call_id: str,
    rules: Rules,
    *,
    arguments: JsonObject | None = None,
    digest: str | None = None,
    by: str | None = None,
) -> tuple[RoundEvent, ...]:
    """Return the events of a person's approval of the call, with other arguments if some are given.

    An edited call is judged by the policies again: if they deny it, it gets an error as its result; if they would ask a
    person, this approval counts.

    Raises:
        CallNotPendingError: no such call waits for approval.
        StaleApprovalError: the digest is not that of the call as it is now, or the policies have changed since.
    """
    call = _pending_call(round_, call_id, "approval")
    if digest is not None and digest != call.digest:
        raise StaleApprovalError(call_id, "the call, or the policies it was asked under, are not what they were")
    if round_.revision != rules.policies.revision:
        raise StaleApprovalError(call_id, "the policies have changed since it was asked for")
    if _has_changed(round_, call):
        raise StaleApprovalError(call_id, "its arguments are not those that it was asked for with: they were redacted")
    edited = call.arguments if arguments is None else dict(arguments)
    events: list[RoundEvent] = []
    if arguments is not None and call_digest("", edited) != call_digest("", call.arguments):  # not `!=`: true is not 1
        events.append(ToolEdited(id=call_id, original=call.arguments, edited=edited, by=by))
        verdict = rules.verdict(call.name, edited)
        if verdict.decision == "deny":
            return (*events, _denied_result(call, verdict, how=" with the edited arguments"))
    now = call_digest(call.name, edited, rules.policies.revision)
    return (*events, ToolApproved(id=call_id, digest=now, by=by))


def rejected(round_: Round, call_id: str, reason: str, *, by: str | None = None) -> tuple[RoundEvent, ...]:
    """Return the events of a person's rejection of the call or refusal to answer its question.

    Raises:
        CallNotPendingError: no such call waits for a person.
    """
    call = _pending_call(round_, call_id, None)
    said = f": {reason}" if reason else ""
    return (ToolRejected(id=call_id, reason=reason, by=by), not_run(call, f"it was rejected{said}"))


def responded(round_: Round, call_id: str, value: object, *, by: str | None = None) -> tuple[RoundEvent, ...]:
    """Return the events of a person's answer to the question that the call asks.

    Raises:
        CallNotPendingError: no such call asks a question.
        InvalidAnswerError: the answer does not fit the question.
    """
    call = _pending_call(round_, call_id, "answer")
    assert call.question is not None  # a call that waits for an answer has a question
    answer = checked_answer(call.question, value)
    return (
        HumanResponded(id=call_id, value=answer, by=by),
        ToolResult(id=call_id, name=call.name, result=answer, ran=False),
    )


def with_child(round_: Round, call_id: str, *, waits: bool = False) -> Round:
    """Return the round with the call marked as a child session, which may wait for a person."""
    call = round_.call(call_id)
    if call is None or call.stage == "answered":
        return round_
    changes = {"kind": "child", "stage": "waiting"} if waits else {"kind": "child"}
    return _with_call_changed(round_, call_id, **changes)


def started(round_: Round) -> tuple[ToolStarted, ...]:
    """Return the start event of every call that is ready."""
    return tuple(map(start_of, round_.at("ready")))


def given_up(round_: Round, why: str, *, stages: Collection[Stage]) -> tuple[ToolResult, ...]:
    """Return an error result for every call at one of the stages; it says whether the call may have taken effect."""
    return tuple(_given_up_result(call, why) for call in round_.calls if call.stage in stages)


def under(round_: Round, policies: Policies) -> Round:
    """Return the round with the digests and the revision of these policies, as if people had been asked under them."""
    calls = (
        call
        if _has_changed(round_, call)
        else msgspec.structs.replace(call, digest=call.digest_under(policies.revision))
        for call in round_.calls
    )
    return Round(tuple(calls), policies.revision)


def fold(round_: Round, events: Iterable[RoundEvent]) -> Round:
    """Return the round after all of the events."""
    for event in events:
        round_ = evolve(round_, event)
    return round_


def _has_changed(round_: Round, call: Call) -> bool:
    """Return whether the call differs from the one that people were asked about, as after a redaction."""
    return call.digest not in ("", call.digest_under(round_.revision))


def _call_to_approve(call: Call, rules: Rules, verdict: Verdict) -> AskedCall:
    digest = call.digest_under(rules.policies.revision)
    return AskedCall(call.id, call.name, call.arguments, digest, verdict.reason)


def _approval_required(calls: Sequence[AskedCall], rules: Rules, session_id: str) -> Iterator[HumanApproveRequired]:
    if calls:
        yield HumanApproveRequired(session_id=session_id, calls=tuple(calls), revision=rules.policies.revision)


def _pending_event(ids: Iterable[str]) -> Iterator[ToolPending]:
    waiting = tuple(ids)
    if waiting:
        yield ToolPending(ids=waiting)


def start_of(call: Call) -> ToolStarted:
    """Return the start event of the call."""
    return ToolStarted(id=call.id, name=call.name, attempt=call.attempts + 1)


def not_run(call: Call, why: str, *, how: str = "", denied: bool = False) -> ToolResult:
    """Return an error result for a call that does not run."""
    text = f"{call.name} was not run{how}: {why}"
    return ToolResult(id=call.id, name=call.name, result=text, is_error=True, ran=False, denied=denied)


def _denied_result(call: Call, verdict: Verdict, *, how: str = "") -> ToolResult:
    return not_run(call, verdict.reason, how=how, denied=True)


def _given_up_result(call: Call, why: str) -> ToolResult:
    if call.stage != "running":
        return not_run(call, why)
    text = f"{call.name}: {why}; it is not known whether it took effect"
    return ToolResult(id=call.id, name=call.name, result=text, is_error=True)


def _question_event(question: Question, call_id: str, session_id: str) -> HumanPromptRequired | HumanSelectRequired:
    if question.options is None:
        return HumanPromptRequired(session_id=session_id, prompt=question.prompt, id=call_id)
    return HumanSelectRequired(
        session_id=session_id, prompt=question.prompt, options=question.options, multi=question.multi, id=call_id
    )


def _pending_call(round_: Round, call_id: str, wanted: Literal["approval", "answer"] | None) -> Call:
    call = round_.call(call_id)
    if call is None or call.stage != "waiting":
        raise CallNotPendingError(call_id)
    if call.kind == "child":
        raise CallNotPendingError(call_id, "its child session waits; decide there")
    if wanted is not None and (call.kind == "approval") != (wanted == "approval"):
        raise CallNotPendingError(
            call_id, "it waits for an answer" if wanted == "approval" else "it waits for approval"
        )
    return call


def _with_call_changed(round_: Round, id_: str | None, **changes: object) -> Round:
    """Return the round with the changes of one call."""
    return _with_calls_changed(round_, {id_ or "": changes})


def _with_calls_changed(round_: Round, changes: Mapping[str, Mapping[str, object]]) -> Round:
    """Return the round with the changes of each call, by its id."""
    calls = (msgspec.structs.replace(call, **changes[call.id]) if call.id in changes else call for call in round_.calls)
    return msgspec.structs.replace(round_, calls=tuple(calls))
