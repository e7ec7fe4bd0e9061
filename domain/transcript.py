"""A conversation as one text, so that a model can be asked to summarise it.

The resulting request is a plain question without tools, thoughts or calls that would need answers. So it is valid for
every model, whatever the conversation holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from reenact.domain.attachments import Base64Source, ContentSource, DocumentBlock, ImageBlock, TextSource
from reenact.domain.messages import (
    Block,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.domain.plain import JsonObject
from reenact.domain.tools import is_array, is_object

INSTRUCTIONS = (
    "Sum up the conversation above for yourself, so that you can go on with it from your summary alone. Keep what was "
    "asked for and why, what was decided, what was done with which result, names, numbers, paths and identifiers as "
    "they are, what failed, and what is still to be done. Write nothing but the summary."
)
"""The instructions for the summary."""
LONGEST = 20_000
"""The longest text that goes into the transcript whole, in characters; of a longer one the middle is left out."""


def summary_request(conversation: Sequence[Said], *, part: float = 1) -> tuple[Said, ...]:
    """Return the conversation that asks a model to summarise another one, or the first and the last part of it."""
    text = transcript(conversation)
    text = _shortened(text, int(len(text) * part))
    return (Said("user", (TextBlock(text), TextBlock(INSTRUCTIONS))),)


def transcript(conversation: Sequence[Said]) -> str:
    """Return messages, calls and results as text, without thoughts; images and files are only mentioned."""
    names: dict[str, str] = {}
    lines = (line for said in conversation for block in said.content for line in _lines(said, block, names))
    return "\n\n".join(("<conversation>", *lines, "</conversation>"))


def _lines(said: Said, block: Block, names: dict[str, str]) -> Iterator[str]:
    match block:
        case TextBlock(text=text):
            if text.strip():
                yield f"[{said.role}] {_shortened(text)}"
        case ThinkingBlock():
            pass
        case ToolUseBlock(id=call_id, name=name, input=arguments):
            names[call_id] = name
            yield f"[{said.role} calls {name}] {_shortened(_json(arguments))}"
        case ToolResultBlock(tool_use_id=call_id, content=content, is_error=is_error):
            verb = "failed" if is_error else "answered"
            yield f"[{names.get(call_id, 'a tool')} {verb}] {_shortened(_plain_text(content))}"
        case ImageBlock():
            yield f"[{said.role}] (an image)"
        case DocumentBlock():
            yield f"[{said.role}] {_document(block)}"
        case _:
            yield from _opaque_lines(said, block.data)


def _document(block: DocumentBlock) -> str:
    title = f" {block.title!r}" if block.title else ""
    match block.source:
        case TextSource(data=text):
            return f"(a document{title}) {_shortened(text)}"
        case ContentSource(content=content):
            return f"(a document{title}) {_shortened(_plain_text(content))}"
        case Base64Source(media_type=media_type):
            return f"(a document{title}, {media_type})"
        case _:
            return f"(a document{title})"


def _plain_text(content: str | tuple[JsonObject, ...]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(piece.get("text") or f"({piece.get('type', 'something')})") for piece in content)


def _opaque_lines(said: Said, data: JsonObject) -> Iterator[str]:
    """Yield the inputs and results of the API's own tools; encrypted parts and other blocks are left out."""
    kind = str(data.get("type"))
    if kind.endswith("_tool_use"):
        yield f"[{said.role} calls {data.get('name')}] {_shortened(_json(data.get('input')))}"
    elif kind.endswith("_tool_result") or kind in {"search_result", "compaction"}:
        yield f"[{kind}] {_shortened(_json(data.get('content')))}"


def _json(value: object) -> str:
    return msgspec.json.encode(_without_encrypted(value)).decode()


def _without_encrypted(value: object) -> object:
    if is_array(value):
        return list(map(_without_encrypted, value))
    if is_object(value):
        return {name: _without_encrypted(one) for name, one in value.items() if not name.startswith("encrypted")}
    return value


def _shortened(text: str, longest: int = LONGEST) -> str:
    if len(text) <= longest:
        return text
    half = longest // 2
    return f"{text[:half]} … ({len(text) - 2 * half} characters left out) … {text[-half:]}"
