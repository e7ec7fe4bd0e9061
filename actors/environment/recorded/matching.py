"""Compares requests with recorded ones; ids, times and sessions are ignored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile, zip_longest

import msgspec

from reenact.actors.environment.recorded.format import Redactor, Setting
from reenact.domain.messages import Block, Said, TextBlock, ToolResultBlock, ToolUseBlock

EMPTY_DIGEST = b""
"""The digest of an empty conversation."""
_SHOWN = 80
"""How many characters of a difference a message shows."""
_BEFORE = 20
"""How many of them are before the difference."""
_encode = msgspec.json.Encoder(order="deterministic").encode


def without_ids(said: Said, before: Said | None) -> Said:
    """Return the message with the ids of its calls, and of the calls that it answers, replaced by their positions."""
    own = _call_names(said)
    asked = {} if before is None else _call_names(before)
    return msgspec.structs.replace(said, content=tuple(_block_without_ids(block, own, asked) for block in said.content))


def digests_after(digest: bytes, messages: Sequence[Said], before: Said | None) -> list[bytes]:
    """Return the digest of a conversation, and its digests after each further message."""
    digests = [digest]
    for said in messages:
        digests.append(hashlib.sha256(digests[-1] + _encode(without_ids(said, before))).digest())
        before = said
    return digests


def key_of(digest: bytes, setting: Setting) -> bytes:
    """Return the key of requests that may have the same answer; their models are compared separately."""
    told = msgspec.structs.replace(setting, model=None, max_tokens=None)
    return hashlib.sha256(digest + _encode(told)).digest()


def models_agree(asked: str | None, recorded: str | None) -> bool:
    """Return whether an answer of one model may stand for one of the other; a model that is not named matches any."""
    return asked is None or recorded is None or asked == recorded


class Request:
    """An agent's request as it is compared: without keys, and sharing the digests of the agent's last request.

    `digests` holds the digest of each beginning of the conversation: of the empty one first, of the whole last.
    """

    def __init__(self, setting: Setting) -> None:
        self._given = setting
        self._secrets: tuple[str, ...] | None = None
        self._raw: list[Said] = []
        self.setting = setting
        self.messages: list[Said] = []
        self.digests: list[bytes] = [EMPTY_DIGEST]

    def ask(self, messages: Sequence[Said], redactor: Redactor) -> bytes:
        """Set the conversation, and return its digest; keys in it that can be recognised are hidden from then on."""
        same = common_length(messages, self._raw)
        if self._secrets is None:
            redactor.search(self._given)
        redactor.search(messages[same:])
        if self._secrets is not redactor.secrets:
            self.setting, same = redactor.copy(self._given), 0
            self._secrets = redactor.secrets
        self._raw[same:] = messages[same:]
        self.messages[same:] = map(redactor.copy, messages[same:])
        before = self.messages[same - 1] if same else None
        self.digests[same:] = digests_after(self.digests[same], self.messages[same:], before)
        return self.digests[-1]


def common_length(these: Iterable[Said], those: Iterable[Said]) -> int:
    """Return how many messages, from the first on, are equal in both conversations, including ids."""
    same = takewhile(lambda pair: pair[0] is pair[1] or pair[0] == pair[1], zip(these, those, strict=False))
    return sum(1 for _ in same)


def difference(asked: Sequence[Said], setting: Setting, recorded: Sequence[Said], recorded_setting: Setting) -> str:
    """Return a description of the first difference between a request and a recorded one."""
    for name in ("system", "tools", "mcp_servers", "api_tools"):
        one, other = getattr(setting, name), getattr(recorded_setting, name)
        if one != other:
            return f"{name.replace('_', ' ')}: asked {_shown(one, other)}, recorded {_shown(other, one)}"
    if not models_agree(setting.model, recorded_setting.model):
        return f"model: asked {setting.model!r}, recorded {recorded_setting.model!r}"
    ours, theirs = list(_all_without_ids(asked)), list(_all_without_ids(recorded))
    place = common_length(ours, theirs)
    if place == len(asked):
        return f"message {place + 1}: not asked, recorded {excerpt_of(recorded[place])}"
    if place == len(recorded):
        return f"message {place + 1}: asked {excerpt_of(asked[place])}, recorded is none"
    return f"message {place + 1}: {_different_block(ours[place], theirs[place])}"


def excerpt_of(said: Said) -> str:
    """Return the role and an excerpt of a message."""
    texts = "".join(block.text if isinstance(block, TextBlock) else f"({_kind(block)})" for block in said.content)
    return f"{said.role}{' (refused)' if said.refused else ''}: {_excerpt(texts, 0)}"


def _different_block(asked: Said, recorded: Said) -> str:
    for one, other in zip_longest(asked.content, recorded.content):
        if one != other:
            return f"asked {asked.role}: {_shown(one, other)}, recorded {_shown(other, one)}"
    return f"asked {excerpt_of(asked)}, recorded {excerpt_of(recorded)}"


def _shown(one: object, other: object) -> str:
    """Return an excerpt of the one around the first place where it differs from the other."""
    text, against = _as_text(one), _as_text(other)
    pairs = zip_longest(text, against)
    place = next((number for number, (own, its) in enumerate(pairs) if own != its), 0)
    return _excerpt(text, max(0, place - _BEFORE))


def _as_text(value: object) -> str:
    value = value.text if isinstance(value, TextBlock) else value
    return value if isinstance(value, str) else _encode(value).decode()


def _excerpt(text: str, start: int) -> str:
    piece = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{piece!r}{'…' if start + _SHOWN < len(text) else ''}"


def _kind(block: Block) -> str:
    return f"{block.name} is called" if isinstance(block, ToolUseBlock) else type(block).__name__.removesuffix("Block")


def _all_without_ids(messages: Sequence[Said]) -> Iterator[Said]:
    before: Said | None = None
    for said in messages:
        yield without_ids(said, before)
        before = said


def _call_names(said: Said) -> dict[str, str]:
    calls = (block.id for block in said.content if isinstance(block, ToolUseBlock))
    return {id_: f"call {number}" for number, id_ in enumerate(calls, 1)}


def _block_without_ids(block: Block, own: dict[str, str], asked: dict[str, str]) -> Block:
    if isinstance(block, ToolUseBlock):
        return msgspec.structs.replace(block, id=own[block.id])
    if isinstance(block, ToolResultBlock):
        return msgspec.structs.replace(block, tool_use_id=asked.get(block.tool_use_id, "call unknown"))
    return block
