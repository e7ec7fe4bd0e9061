"""The view of a session at a position of the log, as a value for programs and as a page for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.errors import LogUnusableError, reading
from reenact.domain.legible import shortened
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import (
    Block,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    instant,
    text_of,
)
from reenact.domain.session.agent import AgentStarted
from reenact.domain.session.people import PendingCall
from reenact.domain.session.state import BranchPoint, Forgotten, Session, SessionDeleted, SessionForgotten, Summary
from reenact.domain.session.told import ToolCallInfo, UsageInfo, usage_info
from reenact.domain.stream.events import AgentState
from reenact.projections.errors import ProjectionFailedError
from reenact.projections.explain.entries import Fields, fields_of, place_of, session_of
from reenact.projections.explain.history import History, believe, history_of
from reenact.projections.log import AuditedLog, InMemoryLog, InMemoryRow, Row
from reenact.projections.read_model.queries import ReadModel

_LINE = 400
"""How many columns of a line are shown."""
_LINES = 60
"""How many lines of a block are shown."""
_MARGIN = "    "


class LastEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The last of the events on which the view is based; for a branch, it may be one shared with its origin."""

    position: int
    stream: str
    version: int
    type: str
    time: datetime


class AgentShown(msgspec.Struct, frozen=True, kw_only=True):
    """The live agent, and its state as far as the log shows."""

    id: str
    state: AgentState
    started_at: datetime


class TurnShown(msgspec.Struct, frozen=True, kw_only=True):
    """The turn under way; the model was asked `step` times in it, and `usage` and `cost` are those of its answers."""

    id: str
    message_id: str
    accepted_at: datetime
    started_at: datetime
    step: int
    usage: Usage
    cost: float | None


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A queued message."""

    id: str
    turn_id: str
    content: tuple[Block, ...]
    accepted_at: datetime

    @property
    def text(self) -> str:
        """The text of the message."""
        return text_of(self.content)


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """A session after its `last` event up to the requested position; `events` is the number of its events.

    If it was `forgotten`, nothing else is known of it. `origin` is the point at which it branches off, `messages` are
    those of the conversation, `calls` all that were requested, and `pending` those that waited for a person, each with
    the digest to which an approval is bound. `summary` replaced the first messages for the model, `context_tokens` was
    the length of the conversation for it, and `warned` is whether the warning of the cost limit had been given. `rules`
    are those in force, None if none are recorded.
    """

    session_id: str
    container_id: str
    image_id: str
    image_revision: int
    origin: BranchPoint | None
    created_at: datetime
    deleted: bool
    forgotten: Forgotten | None
    last: LastEvent
    events: int
    agent: AgentShown | None
    turn: TurnShown | None
    queue: tuple[QueuedMessage, ...]
    messages: tuple[Message, ...]
    calls: tuple[ToolCallInfo, ...]
    pending: tuple[PendingCall, ...]
    usage: UsageInfo
    summary: Summary | None
    context_tokens: int
    warned: bool
    rules: Fields | None

    def text(self) -> str:
        """Return the view as a page for people, with local times; very long messages are truncated."""
        return _page(self)


def shown(log: AuditedLog, session_id: str, *, at: int | None = None) -> Shown:
    """Return the session as it was at the position of the log, now if it is None; it may have been deleted.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        InvalidInputError: the session begins after the position, or the log ends before it.
        LogUnusableError: the log lacks a session that this one branches off from, or holds impossible events.
    """
    history = history_of(log, session_id, until=at)
    with reading(f"session {session_id!r}"):
        return shown_of(session_id, history)


def shown_of(session_id: str, history: History) -> Shown:
    """Return the view of the session after this history."""
    session, agent_since = Session(), history[0]
    for row in history:
        session = believe(session, row)
        if isinstance(row.event, AgentStarted):
            agent_since = row
    undeleted = list(_undeleted(history))  # a deleted session is shown in full
    try:
        past = ReadModel.of(InMemoryLog(undeleted, undeleted[-1].position))
    except ProjectionFailedError as error:
        raise LogUnusableError(f"{error}; verify the log") from error
    with past as model:
        then = session_of(history[-1].stream) or session_id  # before a branch begins, its origin
        messages, calls, pending = model.messages(then), model.tool_calls(then), model.pending(then)
        unsaid = {turn.message_id for turn in model.turns_of(then) if turn.started_at is None}
        info = model.session(then)
        assert info is not None  # its first event is in the history
    agent, turn = session.agent, session.turn
    return Shown(
        session_id=session_id,
        container_id=session.container_id,
        image_id=session.image_id,
        image_revision=session.image_revision,
        origin=info.origin,
        created_at=info.created_at,
        deleted=session.deleted,
        forgotten=info.forgotten,
        last=last_of(history[-1]),
        events=len(history),
        agent=None
        if agent is None
        else AgentShown(
            id=agent.id, state=agent.state(turn, session.round), started_at=instant(agent_since.recorded_at)
        ),
        turn=None
        if turn is None
        else TurnShown(
            id=turn.id,
            message_id=turn.message_id,
            accepted_at=instant(turn.asked_at),
            started_at=instant(turn.at),
            step=turn.steps,
            usage=turn.usage,
            cost=turn.cost,
        ),
        queue=tuple(
            QueuedMessage(id=one.message_id, turn_id=one.turn_id, content=one.content, accepted_at=instant(one.at))
            for one in session.queue
        ),
        messages=tuple(message for message in messages if message.id not in unsaid),
        calls=tuple(replace(call, session_id=session_id) for call in calls),
        pending=tuple(replace(call, session_id=session_id) for call in pending),
        usage=usage_info(session_id, session.ledger.models, session.ledger.tools),
        summary=session.summary,
        context_tokens=session.context_tokens,
        warned=session.warned,
        rules=None if session.rules is None else fields_of(session.rules),
    )


def last_of(row: Row) -> LastEvent:
    """Return the description of a session's last event."""
    return LastEvent(**place_of(row))


def _undeleted(history: History) -> Iterator[Row]:
    for row in history:
        match row.event:
            case SessionDeleted() if row.stream == history[-1].stream:  # not that of its origin, if it is a branch
                pass
            case SessionForgotten(deleted=True):
                event = replace(row.event, deleted=False)
                yield InMemoryRow(row.stream, row.version, row.position, row.recorded_at, event, row.cause)
            case _:
                yield row


def _page(shown: Shown) -> str:
    """Return the page; every line of it is safe to display."""
    lines = [
        *_head(shown),
        "",
        "Conversation",
        *(_conversation(shown) if shown.messages else ["", f"{_MARGIN}{_nothing(shown)}"]),
        *_under_way(shown),
        *_used(shown),
    ]
    return "\n".join(shortened(line, _LINE).rstrip() for line in lines)


def _nothing(shown: Shown) -> str:
    return "nothing has been said" if shown.forgotten is None else "what was said was forgotten"


def _head(shown: Shown) -> Iterator[str]:
    last = shown.last
    yield _fact("Session", f"{shown.session_id}{' (deleted)' if shown.deleted else ''}")
    yield _fact("Container", shown.container_id)
    yield _fact("Image", f"{shown.image_id}, revision {shown.image_revision}")
    if shown.origin is not None:
        origin = shown.origin
        yield _fact("Branch of", f"{origin.session_id}, behind its event {origin.version}, position {origin.position}")
    yield _fact("Began", _when(shown.created_at))
    if shown.forgotten is not None:
        why = f": {shown.forgotten.why}" if shown.forgotten.why else ""
        yield _fact("Forgotten", f"{_when(shown.forgotten.at)}, by {shown.forgotten.by}{why}")
    agent = "none"
    if shown.agent is not None:
        agent = f"{shown.agent.id}, {shown.agent.state}, live since {_when(shown.agent.started_at)}"
    yield _fact("Agent", agent)
    if shown.rules is not None:
        yield _fact("Rules", _json(shown.rules))
    yield _fact("Events", str(shown.events))
    yield _fact("Last", f"{last.type} at position {last.position}, version {last.version}, {_when(last.time)}")


def _conversation(shown: Shown) -> Iterator[str]:
    summary = shown.summary
    for number, message in enumerate(shown.messages):
        if summary is not None and number == summary.replaced:
            yield from ("", "  (The model is given this in place of everything above:)")
            yield from _passage(summary.text)
        yield ""
        yield f"  {_speaker(message)}  {_when(message.created_at)}  {message.id}"
        for block in message.content:
            yield from _block(block)


def _speaker(message: Message) -> str:
    if message.partial:
        return f"{message.role} (in part: {message.stop_reason})"
    return "results" if message.tool_results else message.role


def _block(block: Block) -> Iterator[str]:
    match block:
        case TextBlock():
            yield from _passage(block.text)
        case ThinkingBlock():
            yield from _passage(block.thinking, head="(thinking) ")
        case ToolUseBlock():
            yield from _passage(f"{block.name}({_arguments(block.input)})  call {block.id}", head="-> ")
        case ToolResultBlock():
            head = f"<- call {block.tool_use_id}{', an error' if block.is_error else ''}: "
            content = block.content if isinstance(block.content, str) else _json(block.content)
            yield from _passage(content, head=head)
        case ImageBlock() | DocumentBlock():
            kind = "image" if isinstance(block, ImageBlock) else "document"
            yield from _passage(_json(msgspec.to_builtins(block.source)), head=f"[{kind}] ")
        case _:
            yield from _passage(_json(block.data), head="[block] ")


def _under_way(shown: Shown) -> Iterator[str]:
    turn = shown.turn
    running = [call for call in shown.calls if call.stage == "running"]
    if turn is None and not shown.pending and not shown.queue and not running:
        return
    yield from ("", "Under way", "")
    if turn is not None:
        yield f"  turn {turn.id}, step {turn.step}, since {_when(turn.started_at)}"
    for call in running:
        yield f"  runs: {call.name}({_arguments(call.arguments)})  call {call.id}"
    for pending in shown.pending:
        yield from _waits(pending)
    for queued in shown.queue:
        yield f"  waits for its turn: {queued.id}, since {_when(queued.accepted_at)}"
        for block in queued.content:
            yield from _block(block)


def _waits(pending: PendingCall) -> Iterator[str]:
    what = f"{pending.name}({_arguments(pending.arguments)})" if pending.prompt is None else pending.prompt
    yield f"  waits for a person: {what}"
    yield f"{_MARGIN}call {pending.id}, {pending.kind}, since {_when(pending.since)}"
    if pending.digest:
        yield f"{_MARGIN}digest {pending.digest}"
    if pending.reason:
        yield f"{_MARGIN}because {pending.reason}"
    for option in pending.options or ():
        yield f"{_MARGIN}- {option.label}"


def _used(shown: Shown) -> Iterator[str]:
    used = shown.usage
    if not used.models and not used.tools:
        return
    yield from ("", "Used", "")
    for name, spent in used.models.items():
        yield f"  model {name or '(unknown)'}: {_spent(spent)}"
    for name, spent in used.tools.items():
        yield f"  tool {name}: {_spent(spent)}"
    unpriced = f", and {used.unpriced} without a price" if used.unpriced else ""
    yield f"  in all: cost {used.cost:.6g}{unpriced}"


def _spent(spent: Spent) -> str:
    counts = "".join(f", {count} {name}" for name, count in spent.usage.items())
    is_priced = spent.calls > spent.unpriced
    return (
        f"{spent.calls} use{'' if spent.calls == 1 else 's'}{counts}{f', cost {spent.cost:.6g}' if is_priced else ''}"
    )


def _passage(text: str, head: str = "") -> Iterator[str]:
    """Yield the lines of the text, indented; a very long text is truncated, with the number of characters left out."""
    beginning = text[: _LINE * _LINES]
    lines = f"{head}{beginning}".splitlines() or [head]
    for line in lines[:_LINES]:
        yield f"{_MARGIN}{line}"
    more = len(text) - sum(len(line) + 1 for line in lines[:_LINES]) + len(head) + 1
    if len(lines) > _LINES or len(beginning) < len(text):
        yield f"{_MARGIN}… and {max(more, 1)} more characters; --output-format json has them all"


def _arguments(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}: {_json(value)}" for name, value in arguments.items())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _fact(name: str, value: str) -> str:
    return f"{name:<10} {value}"


def _when(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
