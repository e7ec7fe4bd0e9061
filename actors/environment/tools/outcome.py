"""The outcome of a call: a tool's result or error, as it is sent to the model and as it is recorded."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import TypeGuard

import msgspec

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.content import check_result_content
from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.calls import BLOCK_TYPES, Content, json_text
from reenact.domain.loop.values import is_mapping
from reenact.domain.messages import TextBlock
from reenact.domain.plain import Json, JsonDict, check_depth, is_sequence
from reenact.domain.tools import is_array, is_object

MAX_OUTPUT = 1_000_000
"""Bytes of text, in UTF-8, of one result that are sent to the model; the rest is cut off."""
MAX_BLOCK = 10_000_000
"""Bytes, as JSON, of an image or a document in a result; a larger one is left out."""

_BYTES = (bytes, bytearray, memoryview)
_BEYOND_64_BITS = re.compile(r"\d{19}")


class ToolOutcome(msgspec.Struct, frozen=True):
    """How a call ended.

    `content` is sent back to the model: text, or content blocks of the Messages API. `result` is the JSON value that is
    recorded, from which `content` can be made again. `duration` is in seconds. A tool may return an outcome itself, to
    report a failure in its own words.
    """

    content: Content = ""
    is_error: bool = False
    result: Json = None
    duration: float = 0.0


class _NotJsonError(Exception):
    """A result holds a value that JSON cannot represent."""


def outcome_of(result: object, *, tool: str = "the tool", limit: int = MAX_OUTPUT) -> ToolOutcome:
    """Return the outcome of a call that returned this result.

    Text stays text, None is empty, content blocks are passed on, any other value becomes JSON. A value that
    JSON cannot represent, such as bytes or NaN, makes an error outcome. `limit` is in bytes of text; a longer text is
    cut, and says so.
    """
    try:
        if isinstance(result, ToolOutcome):
            given = result.result if isinstance(result.content, str) and not result.content else result.content
            inner = outcome_of(given, tool=tool, limit=limit)
            return msgspec.structs.replace(inner, is_error=inner.is_error or result.is_error)
        if result is None:
            return ToolOutcome()
        return _outcome(_as_json(_with_listed_blocks(result)), limit)
    except (_NotJsonError, InvalidInputError) as unfit:
        return failure(f"{tool} returned a result of type {type(result).__name__} that cannot be sent: {unfit}")


def failure(why: str, *, limit: int = MAX_OUTPUT) -> ToolOutcome:
    """Return the outcome of a call that failed, with this text for the model."""
    text = _cut(why.encode("utf-8", "backslashreplace").decode(), limit)
    return ToolOutcome(text, is_error=True, result=text)


def error_text(error: BaseException) -> str:
    """Return the text for the model about an exception: its type and its message, and those of a group's members."""
    kind = type(error).__name__
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - an exception whose text cannot be made still has a type
        message = ""
    told = f"{kind}: {message}" if message else kind
    several: tuple[BaseException, ...] = error.exceptions if _is_group(error) else ()
    return f"{told}: {'; '.join(map(error_text, several))}" if several else told


def _is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    return isinstance(error, BaseExceptionGroup)


def _outcome(value: Json, limit: int) -> ToolOutcome:
    found = [one for one in value if _is_block(one)] if isinstance(value, list) else []
    if found and found == value:
        blocks = tuple(_cut_blocks(found, limit))
        check_result_content(blocks)  # otherwise the API would refuse every later request of the conversation
        return ToolOutcome(blocks, result=list(blocks)) if blocks else ToolOutcome()
    text = value if isinstance(value, str) else json_text(value)
    content = _cut(text, limit)
    recorded = content is text and not _BEYOND_64_BITS.search(text) and not _looks_like_blocks(value)
    return ToolOutcome(content, result=value if recorded else content)


def _with_listed_blocks(result: object) -> object:
    """Return a block, or blocks and texts, as a list of blocks; any other result is returned unchanged."""
    parts = result if is_sequence(result) else (result,)
    if not any(isinstance(part, TextBlock | ImageBlock | DocumentBlock) for part in parts):
        return result
    return [TextBlock(part) if isinstance(part, str) else part for part in parts]


def _as_json(result: object) -> Json:
    """Return the result as a JSON value, copied.

    Raises:
        _NotJsonError: JSON cannot represent it.
    """
    try:
        if isinstance(result, str):
            result.encode()
            return str.__str__(result)  # libraries that parse pages, for example, return subclasses of str
        copy: Json = msgspec.json.decode(_dumped(result))
        check_depth("it", copy)
    except UnicodeEncodeError as error:
        raise _NotJsonError(f"its text contains a lone surrogate, at index {error.start}") from None
    except RecursionError:
        raise _NotJsonError("it contains itself, or is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise _NotJsonError(str(error)) from None
    return copy


def _dumped(result: object) -> str:
    try:
        return _encode_strictly(result)
    except TypeError:  # keys that are not text, such as dates, of which msgspec knows more
        return _encode_strictly(_builtin(result))


def _replacement_for_json(value: object) -> object:
    """Return the replacement for a value that `json` does not know."""
    replaced = _replacement(value)
    return _builtin(value) if replaced is value else replaced


def _builtin(value: object) -> object:
    return msgspec.to_builtins(value, builtin_types=_BYTES, str_keys=True, enc_hook=_replacement_for_msgspec)


def _replacement_for_msgspec(value: object) -> object:
    """Return the replacement for a value that msgspec does not know."""
    replaced = _replacement(value)
    if replaced is value:
        raise _NotJsonError(
            f"it holds a value of type {type(value).__name__}; return text, numbers, lists, dicts, dataclasses, …"
        )
    return replaced


def _replacement(value: object) -> object:
    if isinstance(value, _BYTES):
        raise _NotJsonError("it holds bytes; return text, or a content block with base64 in it")
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    dump: Callable[..., object] | None = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json")
    if _is_set(value):
        return _sorted(value)
    if is_mapping(value):
        return dict(value)
    if _is_path(value):
        return os.fspath(value)
    return value


def _sorted(values: Collection[str]) -> list[str]:
    """Return the values in an order that is the same in every process, if they can be sorted."""
    try:
        return sorted(values)
    except TypeError:
        return list(values)


def _is_set(value: object) -> TypeGuard[set[str] | frozenset[str]]:
    return isinstance(value, set | frozenset)


def _is_path(value: object) -> TypeGuard[os.PathLike[str]]:
    return isinstance(value, os.PathLike)


def _looks_like_blocks(value: object) -> bool:
    return is_array(value) and all(is_object(item) and str(item.get("type")) in BLOCK_TYPES for item in value)


def _is_block(value: object) -> TypeGuard[JsonDict]:
    """Return whether the Messages API accepts the value as a block of a result."""
    if not is_object(value):
        return False
    match value.get("type"):
        case "text":
            return isinstance(value.get("text"), str)
        case "image" | "document":
            source = value.get("source")
            return is_object(source) and isinstance(source.get("type"), str)
        case "search_result":
            return isinstance(value.get("source"), str) and is_array(value.get("content"))
        case _:
            return False


def _cut_blocks(blocks: Sequence[JsonDict], limit: int) -> Iterator[JsonDict]:
    """Yield the blocks, without blank texts, which the API refuses, and with no more text than the limit."""
    left = limit
    for block in blocks:
        if block["type"] == "text" and isinstance(text := block["text"], str):
            if text.strip():
                yield {**block, "text": _cut(text, left)}
            left = max(0, left - len(text.encode()))
        elif (size := len(msgspec.json.encode(block))) > MAX_BLOCK:
            note = f"[{block['type']} of {size:,} bytes left out: at most {MAX_BLOCK:,} are sent]"
            yield {"type": "text", "text": note}
        else:
            yield block


def _cut(text: str, limit: int) -> str:
    encoded = text.encode()
    if len(encoded) <= limit:
        return text
    kept = encoded[:limit].decode(errors="ignore")
    return f"{kept}\n[cut here: {len(encoded) - limit:,} of {len(encoded):,} bytes are left out]"


_encode_strictly = json.JSONEncoder(allow_nan=False, ensure_ascii=False, default=_replacement_for_json).encode
