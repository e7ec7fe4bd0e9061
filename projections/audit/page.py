"""A session as a page that people read: who and where, the conversation with its times, what is under way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.legible import shortened
from reenact.domain.loop.ledger import Spent
from reenact.domain.messages import Block, Message, TextBlock, ThinkingBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.people import PendingCall

if TYPE_CHECKING:
    from reenact.projections.audit.showing import Shown

_LINE: Final = 400
"""So many columns of a line are shown."""
_LINES: Final = 60
"""So many lines of a block are shown."""
_MARGIN: Final = "    "


def page_of(shown: Shown) -> str:
    """Return the page; each line of it can be shown as it is."""
    return "\n".join(
        [
            *_head(shown),
            "",
            "Conversation",
            *(_conversation(shown) if shown.messages else ["", f"{_MARGIN}nothing has been said"]),
            *_under_way(shown),
            *_used(shown),
        ]
    )


def _head(shown: Shown) -> Iterator[str]:
    last = shown.last
    yield _fact("Session", f"{shown.session_id}{' (deleted)' if shown.deleted else ''}")
    yield _fact("Container", shown.container_id)
    yield _fact("Image", f"{shown.image_id}, revision {shown.image_revision}")
    if shown.origin is not None:
        origin = shown.origin
        yield _fact("Branch of", f"{origin.session_id}, behind its event {origin.version}, position {origin.position}")
    yield _fact("Began", _when(shown.created_at))
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
            yield from ("", "  (The model is given this in place of what stands above:)")
            yield from _passage(summary.text)
        yield ""
        yield _text(f"  {_speaker(message)}  {_when(message.created_at)}  {message.id}")
        for block in message.content:
            yield from _block(block)


def _speaker(message: Message) -> str:
    if message.partial:
        return f"{message.role} (in part: {message.stop_reason})"
    is_results = any(isinstance(block, ToolResultBlock) for block in message.content)
    return "results" if is_results else message.role


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
        yield _text(f"  turn {turn.id}, step {turn.step}, since {_when(turn.started_at)}")
    for call in running:
        what = f"  runs: {call.name}({_arguments(call.arguments)})  call {call.id}"
        yield _text(what)
    for pending in shown.pending:
        yield from _waits(pending)
    for queued in shown.queue:
        yield _text(f"  waits for its turn: {queued.id}, since {_when(queued.accepted_at)}")
        for block in queued.content:
            yield from _block(block)


def _waits(pending: PendingCall) -> Iterator[str]:
    what = f"{pending.name}({_arguments(pending.arguments)})" if pending.prompt is None else pending.prompt
    yield _text(f"  waits for a person: {what}")
    yield _text(f"{_MARGIN}call {pending.id}, {pending.kind}, since {_when(pending.since)}")
    if pending.digest:
        yield _text(f"{_MARGIN}digest {pending.digest}")
    if pending.reason:
        yield _text(f"{_MARGIN}because {pending.reason}")
    for option in pending.options or ():
        yield _text(f"{_MARGIN}- {option.label}")


def _used(shown: Shown) -> Iterator[str]:
    used = shown.usage
    if not used.models and not used.tools:
        return
    yield from ("", "Used", "")
    for name, spent in used.models.items():
        yield _text(f"  model {name or '(unknown)'}: {_spent(spent)}")
    for name, spent in used.tools.items():
        yield _text(f"  tool {name}: {_spent(spent)}")
    unpriced = f", and {used.unpriced} without a price" if used.unpriced else ""
    yield f"  in all: cost {used.cost:.6g}{unpriced}"


def _spent(spent: Spent) -> str:
    counts = "".join(f", {count} {name}" for name, count in spent.usage.items())
    is_priced = spent.calls > spent.unpriced
    return (
        f"{spent.calls} use{'' if spent.calls == 1 else 's'}{counts}{f', cost {spent.cost:.6g}' if is_priced else ''}"
    )


def _passage(text: str, head: str = "") -> Iterator[str]:
    """Yield the text as lines behind a margin; of a very long one the beginning, and how much more there is."""
    beginning = text[: _LINE * _LINES]
    lines = f"{head}{beginning}".splitlines() or [head]
    for line in lines[:_LINES]:
        yield f"{_MARGIN}{_text(line)}".rstrip()
    more = len(text) - sum(len(line) + 1 for line in lines[:_LINES]) + len(head) + 1
    if len(lines) > _LINES or len(beginning) < len(text):
        yield f"{_MARGIN}… and {max(more, 1)} more characters; --output-format json has them all"


def _arguments(arguments: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}: {_json(value)}" for name, value in arguments.items())


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _fact(name: str, value: str) -> str:
    return _text(f"{name:<10} {value}")


def _text(line: str) -> str:
    return shortened(line, _LINE)


def _when(time: datetime) -> str:
    return time.astimezone().strftime("%Y-%m-%d %H:%M:%S")
