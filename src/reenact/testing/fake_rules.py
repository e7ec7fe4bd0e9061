"""The rules by which the Messages API refuses a request, as far as they concern conversations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import groupby
from typing import Any, TypeAlias

from reenact.testing.fake_replies import FakeError

Json: TypeAlias = dict[str, Any]
_Turn: TypeAlias = tuple[str, list[Json]]

_REQUIRED = ("model", "max_tokens", "messages")


def refusal(headers: Mapping[str, str], body: Json, api_key: str | None) -> FakeError | None:
    """Return why the API would not answer a request, or None if it would. Without an `api_key` any one will do."""
    given = headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ")
    if not given:
        return FakeError(401, message="x-api-key header is required")
    if api_key is not None and given != api_key:
        return FakeError(401, message="invalid x-api-key")
    wrong = next(_wrong(headers, body), None)
    return FakeError(400, message=wrong) if wrong is not None else None


def _wrong(headers: Mapping[str, str], body: Json) -> Iterator[str]:
    if "anthropic-version" not in headers:
        yield "anthropic-version: header is required"
    for field in _REQUIRED:
        if field not in body:
            yield f"{field}: Field required"
            return
    turns = [
        (role, [block for message in said for block in _content(message)])
        for role, said in groupby(body["messages"], key=_role)
    ]
    if not turns:
        yield "messages: at least one message is required"
        return
    if turns[0][0] != "user":
        yield "messages: first message must use the user role"
    for number, (role, blocks) in enumerate(turns):
        if not blocks:
            yield f"messages.{number}: content must not be empty"
        for block in blocks:
            check = _BLOCK_RULES.get(str(block.get("type")))
            if check is not None and not check(block):
                yield f"messages.{number}: invalid `{block.get('type')}` block"
        if role == "assistant":
            following = turns[number + 1][1] if number + 1 < len(turns) else []
            yield from _unanswered(number, blocks, following)
        else:
            yield from _unasked(number, turns[number - 1][1] if number else [], blocks)
    yield from _wrong_end(turns[-1])


def _role(message: Json) -> str:
    return str(message.get("role"))


def _content(message: Json) -> list[Json]:
    content = message.get("content", [])
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


_BLOCK_RULES: dict[str, Callable[[Json], bool]] = {
    "text": lambda block: bool(str(block.get("text", "")).strip()),
    "thinking": lambda block: isinstance(block.get("signature"), str) and bool(block["signature"]),
    "tool_use": lambda block: bool(block.get("id")) and isinstance(block.get("input"), dict),
    "tool_result": lambda block: bool(block.get("tool_use_id")),
}


def _ids(blocks: list[Json], kind: str, field: str) -> list[str]:
    return [block[field] for block in blocks if block.get("type") == kind]


def _unanswered(number: int, blocks: list[Json], following: list[Json]) -> Iterator[str]:
    asked = _ids(blocks, "tool_use", "id")
    answered = _ids(following, "tool_result", "tool_use_id")
    if len(set(asked)) != len(asked):
        yield f"messages.{number}: `tool_use` ids must be unique"
    if set(asked) - set(answered):
        yield f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after"


def _unasked(number: int, before: list[Json], blocks: list[Json]) -> Iterator[str]:
    answered = _ids(blocks, "tool_result", "tool_use_id")
    if set(answered) - set(_ids(before, "tool_use", "id")):
        yield f"messages.{number}: unexpected `tool_use_id` found in `tool_result` blocks"
    if len(set(answered)) != len(answered):
        yield f"messages.{number}: each tool_use must have a single result"
    kinds = [block.get("type") for block in blocks]
    if "tool_result" in kinds[len(answered) :]:
        yield f"messages.{number}: `tool_result` blocks must come before other content"


def _wrong_end(turn: _Turn) -> Iterator[str]:
    role, blocks = turn
    if role == "assistant" and blocks and blocks[-1].get("type") == "text":
        text = str(blocks[-1]["text"])
        if text != text.rstrip():
            yield "messages: final assistant content cannot end with trailing whitespace"
