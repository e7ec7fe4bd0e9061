"""Checks content given by callers, block by block: a user's message and a tool's result."""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import msgspec

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.errors import InvalidInputError, InvalidMessageError
from reenact.domain.messages import Block, OpaqueBlock, TextBlock, check_message
from reenact.domain.plain import Json, JsonDict, check_unicode, is_mapping, is_sequence, plain_object

Content: TypeAlias = str | Sequence[str | Block | Mapping[str, object]]
"""The content of a message as callers may give it: text, or a list of texts, content blocks, or plain mappings."""
IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
DOCUMENT_TYPES = ("application/pdf",)
MAX_CONTENT_BYTES = 20 * 1024 * 1024
"""The largest content accepted, in bytes of JSON; the Messages API itself refuses requests above 32 MB."""

_Check: TypeAlias = Callable[[str, JsonDict], None]
_IN_MESSAGES = ("text", "image", "document", "search_result", "container_upload")
_IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
_IN_DOCUMENTS = ("text", "image")
_TYPED: Final[dict[str, type[TextBlock | ImageBlock | DocumentBlock]]] = {
    "text": TextBlock,
    "image": ImageBlock,
    "document": DocumentBlock,
}


def check_content(content: object) -> tuple[Block, ...]:
    """Return the blocks of a user's message, which is given as text or as a list of blocks or of their plain mappings.

    Raises:
        InvalidMessageError: the content is empty or too large, or the API would not accept a block; the message names
            the block by its index, and the field.
    """
    if isinstance(content, str):
        return (TextBlock(check_message(content)),)
    try:
        return tuple(_typed_block(block) for block in _blocks("content", content, _IN_MESSAGES))
    except InvalidInputError as wrong:
        raise InvalidMessageError(str(wrong)) from None


def plain_content(content: object) -> object:
    """Return content with its blocks as plain mappings, as they are sent; anything else is returned unchecked."""
    if isinstance(content, str):
        return str.__str__(content)  # template engines, for example, return subclasses of str
    if not is_sequence(content):
        return content
    return [_plain_block(block) for block in content]


def _plain_block(block: object) -> object:
    match block:
        case str():
            return {"type": "text", "text": str.__str__(block)}
        case OpaqueBlock(data=data):
            return data
        case msgspec.Struct():
            return msgspec.to_builtins(block)
        case _:
            return block


def check_result_content(content: object) -> str | tuple[JsonDict, ...]:
    """Return the content of a tool's result, which is given as text or as a list of blocks or of their plain mappings.

    Raises:
        InvalidInputError: the content is too large, or the API would not accept a block; the message names the block by
            its index, and the field.
    """
    if isinstance(content, str):
        _check_size(check_unicode("content", content))
        return content
    if is_sequence(content) and not content:
        return ""
    return tuple(_blocks("content", content, _IN_RESULTS))


def _blocks(where: str, content: object, kinds: tuple[str, ...]) -> list[JsonDict]:
    if not is_sequence(content):
        raise InvalidInputError(f"{where} must be text or a list of blocks, not {type(content).__name__}")
    if not content:
        raise InvalidInputError(f"{where} is empty; say something")
    blocks = [_block(f"{where}[{index}]", one, kinds) for index, one in enumerate(content)]
    _check_size(msgspec.json.encode(blocks))
    return blocks


def _block(where: str, given: object, kinds: tuple[str, ...]) -> JsonDict:
    """Return the block as a plain mapping; raise if its type is not in `kinds` or the API would not accept a field."""
    if isinstance(given, OpaqueBlock):
        given = given.data
    elif isinstance(given, TextBlock | ImageBlock | DocumentBlock):
        given = msgspec.to_builtins(given)
    if not is_mapping(given):
        hint = f'; as a block it is {{"type": "text", "text": {given!r:.40}}}' if isinstance(given, str) else ""
        raise InvalidInputError(f"{where} is not a content block, but {type(given).__name__}{hint}")
    fields: JsonDict = plain_object(where, given)
    kind = fields.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        what = "has no type" if kind is None else f"has the type {kind!r}"
        raise InvalidInputError(f"{where} {what}; here it is one of {', '.join(kinds)}")
    if kind in _CHECKS:
        _CHECKS[kind](where, fields)
    return fields


def _typed_block(fields: JsonDict) -> Block:
    kind = _TYPED.get(str(fields["type"]))
    return OpaqueBlock(fields) if kind is None else msgspec.convert(fields, kind)


def _check_text(where: str, block: JsonDict) -> None:
    _check_names(where, block, "text")
    _checked_text(where, block, "text")


def _check_image(where: str, block: JsonDict) -> None:
    _check_names(where, block, "source")
    _check_source(
        f"{where}.source",
        block.get("source"),
        {"base64": partial(_check_bytes, IMAGE_TYPES), "url": _check_url, "file": _check_file},
    )


def _check_document(where: str, block: JsonDict) -> None:
    _check_names(where, block, "source", "title", "context", "citations")
    kinds: dict[str, _Check] = {
        "base64": partial(_check_bytes, DOCUMENT_TYPES),
        "url": _check_url,
        "file": _check_file,
        "text": _check_plain_text,
        "content": _check_pieces,
    }
    _check_source(f"{where}.source", block.get("source"), kinds)
    for name in ("title", "context"):
        if block.get(name) is not None:
            _checked_text(where, block, name)
    citations = block.get("citations")
    if citations is not None and not (is_mapping(citations) and isinstance(citations.get("enabled"), bool)):
        raise InvalidInputError(
            f'{where}.citations must be {{"enabled": true}} or {{"enabled": false}}, not {citations!r:.80}'
        )


def _check_source(where: str, source: Json, kinds: Mapping[str, _Check]) -> None:
    if not isinstance(source, dict):
        raise InvalidInputError(
            f"{where} is missing" if source is None else f"{where} must be a mapping, not {type(source).__name__}"
        )
    kind = source.get("type")
    if not isinstance(kind, str) or kind not in kinds:
        raise InvalidInputError(f"{where}.type is {kind!r}; here it is one of {', '.join(kinds)}")
    kinds[kind](where, source)


def _check_bytes(media_types: tuple[str, ...], where: str, source: JsonDict) -> None:
    _check_names(where, source, "media_type", "data")
    if source.get("media_type") not in media_types:
        raise InvalidInputError(
            f"{where}.media_type is {source.get('media_type')!r}; the API takes {', '.join(media_types)}"
        )
    data = _checked_text(where, source, "data")
    try:
        b64decode(data, validate=True)
    except (binascii.Error, ValueError) as wrong:
        raise InvalidInputError(
            f"{where}.data is not base64: {wrong}; `from_bytes` of the block encodes a file's bytes"
        ) from None


def _check_url(where: str, source: JsonDict) -> None:
    _check_names(where, source, "url")
    url = _checked_text(where, source, "url")
    if not url.startswith(("https://", "http://")):
        raise InvalidInputError(f"{where}.url is {url!r:.80}; the API fetches only from https:// and http:// addresses")


def _check_file(where: str, source: JsonDict) -> None:
    _check_names(where, source, "file_id")
    _checked_text(where, source, "file_id")


def _check_plain_text(where: str, source: JsonDict) -> None:
    _check_names(where, source, "media_type", "data")
    if source.setdefault("media_type", "text/plain") != "text/plain":
        raise InvalidInputError(f"{where}.media_type is {source['media_type']!r}; a text source is text/plain")
    _checked_text(where, source, "data")


def _check_pieces(where: str, source: JsonDict) -> None:
    _check_names(where, source, "content")
    content = source.get("content")
    if isinstance(content, str):
        _checked_text(where, source, "content")
    else:
        _blocks(f"{where}.content", content, _IN_DOCUMENTS)


_CHECKS: Final[dict[str, _Check]] = {
    "text": _check_text,
    "image": _check_image,
    "document": _check_document,
}
"""The check of each block type. Blocks of other types are only checked for being storable; the API judges the rest."""


def _check_names(where: str, fields: JsonDict, *known: str) -> None:
    for name in fields:
        if name not in {"type", *known}:
            hint = "; LLMConfig(cache=…) sets it where it helps" if name == "cache_control" else ""
            raise InvalidInputError(f"{where} has no field {name!r}; known are {', '.join(known)}{hint}")


def _checked_text(where: str, fields: JsonDict, name: str) -> str:
    """Return the text in a field, or raise `InvalidInputError` if it is missing, not text, or blank."""
    text, place = fields.get(name), f"{where}.{name}"
    if not isinstance(text, str):
        raise InvalidInputError(
            f"{place} is missing" if text is None else f"{place} must be text, not {type(text).__name__}"
        )
    if not text.strip():
        raise InvalidInputError(f"{place} is blank; leave it out")
    check_unicode(place, text)
    return text


def _check_size(stored: bytes) -> None:
    if len(stored) > MAX_CONTENT_BYTES:
        raise InvalidInputError(
            f"the content has {len(stored)} bytes; at most {MAX_CONTENT_BYTES} are accepted: upload files, name them"
        )
