"""An event of the log in a few words, for people: a message is what was said, a call is the call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from reenact.cli.calls import call_line, result_lines
from reenact.cli.exact import harmless, on_one_line
from reenact.cli.log import told_of
from reenact.domain.tools import is_array, is_object
from reenact.projections.explain.entries import LogEntry

_WIDEST: Final = 500


def in_words(entry: LogEntry) -> str:
    """Return what the event says, on one line; as its fields have it if there are no words for it."""
    words = _WORDS.get(entry.type)
    return told_of(entry) if words is None else harmless(" ".join(words(entry.data).split()))


def _said(content: object) -> str:
    """Return the text of a message's blocks, the calls in it as calls, and of other blocks what they are."""
    return " ".join(_block(block) for block in content if is_object(block)) if is_array(content) else ""


def _block(block: dict[Any, Any]) -> str:
    match block:
        case {"type": "text", "text": str(text)}:
            return text
        case {"type": "tool_use", "name": str(name), "input": arguments}:
            return f"→ {call_line(name, arguments, _WIDEST)}"
        case _:
            return f"[{block.get('type')}]"


def _tokens(usage: object) -> str:
    match usage:
        case {"input_tokens": int(given), "output_tokens": int(written)}:
            return f" ({given:,} tokens in, {written:,} out)"
        case _:
            return ""


def _by(person: object) -> str:
    return f"by {person}" if person else ""


def _result(data: Any) -> str:  # noqa: ANN401 - fields are any JSON
    return f"{data['name']}: {'error: ' if data['is_error'] else ''}{result_lines(data['result'], _WIDEST)[0]}"


def _turn(data: Any) -> str:  # noqa: ANN401 - likewise
    cost = "" if data["cost"] is None else f", cost {data['cost']:.6g}"
    return f"{data['outcome']} after {data['duration']:.1f} s{_tokens(data['usage'])}{cost}"


def _nothing(_: object) -> str:
    return ""


_WORDS: Final[Mapping[str, Callable[[Any], str]]] = {
    "session-created": lambda data: f"with image {data['image_id']}",
    "session-branched": lambda data: f"from {data['origin']}",
    "session-deleted": _nothing,
    "agent-started": _nothing,
    "agent-stopped": lambda data: data["reason"],
    "message-accepted": lambda data: f"You: {_said(data['content'])}",
    "turn-started": _nothing,
    "turn-continued": _nothing,
    "turn-interrupted": lambda data: data["reason"],
    "turn-failed": lambda data: data["failure"]["message"],
    "turn-completed": _turn,
    "answer-recorded": lambda data: (
        f"{_said(data['content'])}{' (cut short)' if data['partial'] else ''}{_tokens(data['usage'])}"
    ),
    "tools-requested": _nothing,
    "results-recorded": lambda data: f"{len(data['content'])} for the model",
    "step-started": lambda data: f"request {data['step']} to the model",
    "context-compressed": lambda data: f"{data['replaced']} messages summarised: {data['summary']}",
    "human-approve-required": lambda data: ", ".join(
        call_line(call["name"], call["arguments"], _WIDEST) for call in data["calls"]
    ),
    "human-prompt-required": lambda data: data["prompt"],
    "human-select-required": lambda data: data["prompt"],
    "tool-pending": lambda data: f"{len(data['ids'])} for a person",
    "tool-approved": lambda data: _by(data["by"]),
    "tool-edited": lambda data: f"{on_one_line(data['edited'])} {_by(data['by'])}",
    "tool-rejected": lambda data: ": ".join(filter(None, (_by(data["by"]), data["reason"]))),
    "human-responded": lambda data: f"{on_one_line(data['value'])} {_by(data['by'])}",
    "tool-started": lambda data: data["name"],
    "tool-result": _result,
    "warning": lambda data: data["message"],
}
