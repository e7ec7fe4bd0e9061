"""When two requests are the same, and where they differ: ids, times and sessions do not count, all else does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from reenact.actors.environment.recorded.form import Setting
from reenact.actors.environment.recorded.hiding import Veil
from reenact.domain.messages import Block, Said, TextBlock, ToolResultBlock, ToolUseBlock

NOTHING: Final = b""
"""The digest of a conversation in which nothing was said."""
_SHOWN: Final = 80
"""Characters of what differs that a message shows."""
_BEFORE: Final = 20
"""How many of them stand before the difference."""
_encode: Final = msgspec.json.Encoder(order="deterministic").encode


def normal(said: Said, before: Said | None) -> Said:
    """Return the message with its calls, and those of the message before that it answers, named by their places."""
    own = _places(said)
    asked = {} if before is None else _places(before)
    return msgspec.structs.replace(said, content=tuple(_normal(block, own, asked) for block in said.content))


def digest_after(digest: bytes, messages: Sequence[Said], before: Said | None) -> bytes:
    """Return the digest of a conversation that had this one, and goes on with the messages."""
    for said in messages:
        digest = hashlib.sha256(digest + _encode(normal(said, before))).digest()
        before = said
    return digest


def key_of(digest: bytes, setting: Setting) -> bytes:
    """Return what requests have in common that may be answered alike; whether their models agree is looked at apart."""
    told = msgspec.structs.replace(setting, model=None, max_tokens=None)
    return hashlib.sha256(digest + _encode(told)).digest()


def models_agree(asked: str | None, recorded: str | None) -> bool:
    """Return whether an answer of the one may stand for one of the other; where none is named, any may."""
    return asked is None or recorded is None or asked == recorded


class Digests:
    """Digests of a conversation that grows: what stood in it the last time is not read again."""

    def __init__(self) -> None:
        self._messages: list[Said] = []
        self._digests: list[bytes] = [NOTHING]

    def of(self, messages: Sequence[Said]) -> bytes:
        """Return the digest of the conversation."""
        return self.all_of(messages)[-1]

    def all_of(self, messages: Sequence[Said]) -> Sequence[bytes]:
        """Return the digest of each beginning of the conversation, of none of it first and of all of it last."""
        same = common(messages, self._messages)
        del self._messages[same:], self._digests[same + 1 :]
        before = self._messages[-1] if same else None
        for said in messages[same:]:
            self._digests.append(digest_after(self._digests[-1], (said,), before))
            self._messages.append(said)
            before = said
        return self._digests


class Asking:
    """What one agent asks, as it is compared with what was recorded: without keys."""

    def __init__(self, setting: Setting) -> None:
        self._given = setting
        self._known: tuple[str, ...] | None = None
        self._raw: list[Said] = []
        self._digests = Digests()
        self.setting = setting
        self.messages: list[Said] = []

    def ask(self, messages: Sequence[Said], veil: Veil) -> bytes:
        """Take this for the conversation, and return its digest; keys in it that can be recognised are known then."""
        same = common(messages, self._raw)
        if self._known is None:
            veil.search(self._given)
        veil.search(messages[same:])
        if self._known is not veil.secrets:
            self.setting, same = without_keys(self._given, veil), 0
            self._known = veil.secrets
        self._raw[same:] = messages[same:]
        self.messages[same:] = map(veil.said, messages[same:])
        return self._digests.of(self.messages)


def without_keys(setting: Setting, veil: Veil) -> Setting:
    """Return the setting as it is compared."""
    return msgspec.json.decode(veil.line(setting), type=Setting)


def common(these: Sequence[Said], those: Sequence[Said]) -> int:
    """Return how many messages the conversations have in common, from the first on, ids and all."""
    count = 0
    for one, other in zip(these, those, strict=False):
        if one is not other and one != other:
            break
        count += 1
    return count


def alike(these: Sequence[Said], those: Sequence[Said]) -> int:
    """Return how many messages the conversations have in common, from the first on, whatever the ids."""
    count = 0
    for one, other in zip(_normals(these), _normals(those), strict=False):
        if one != other:
            break
        count += 1
    return count


def difference(asked: Sequence[Said], setting: Setting, recorded: Sequence[Said], recorded_setting: Setting) -> str:
    """Say where a request differs first from a recorded one, and how."""
    for name in ("system", "tools", "mcp_servers", "api_tools"):
        one, other = getattr(setting, name), getattr(recorded_setting, name)
        if one != other:
            return f"{name.replace('_', ' ')}: asked {_shown(one, other)}, recorded {_shown(other, one)}"
    if not models_agree(setting.model, recorded_setting.model):
        return f"model: asked {setting.model!r}, recorded {recorded_setting.model!r}"
    place = alike(asked, recorded)
    if place == len(asked):
        return f"message {place + 1}: not asked, recorded {told(recorded[place])}"
    if place == len(recorded):
        return f"message {place + 1}: asked {told(asked[place])}, recorded is none"
    one_, other_ = (_at(messages, place) for messages in (asked, recorded))
    return f"message {place + 1}: {_different_block(one_, other_)}"


def told(said: Said) -> str:
    """Return who says what, in a few words."""
    texts = "".join(block.text if isinstance(block, TextBlock) else f"({_kind(block)})" for block in said.content)
    return f"{said.role}: {_excerpt(texts, 0)}"


def _different_block(asked: Said, recorded: Said) -> str:
    if asked.role != recorded.role:
        return f"asked {told(asked)}, recorded {told(recorded)}"
    for one, other in zip_longest(asked.content, recorded.content):
        if one != other:
            if isinstance(one, TextBlock) and isinstance(other, TextBlock):
                return f"asked {asked.role}: {_shown(one.text, other.text)}, recorded {_shown(other.text, one.text)}"
            return f"asked {asked.role}: {_shown_block(one, other)}, recorded {_shown_block(other, one)}"
    return f"asked {told(asked)}, recorded the same as one that was refused"


def _shown_block(one: Block | None, other: Block | None) -> str:
    return "nothing more" if one is None else _shown(one, other)


def _shown(one: object, other: object) -> str:
    """Return what the first place looks like at which the one is not as the other."""
    text, against = (_as_text(value) for value in (one, other))
    pairs = zip_longest(text, against)
    place = next((number for number, (own, its) in enumerate(pairs) if own != its), 0)
    return _excerpt(text, max(0, place - _BEFORE))


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else _encode(value).decode()


def _excerpt(text: str, start: int) -> str:
    piece = text[start : start + _SHOWN]
    return f"{'…' if start else ''}{piece!r}{'…' if start + _SHOWN < len(text) else ''}"


def _kind(block: Block) -> str:
    return f"{block.name} is called" if isinstance(block, ToolUseBlock) else type(block).__name__.removesuffix("Block")


def _normals(messages: Sequence[Said]) -> Iterator[Said]:
    before: Said | None = None
    for said in messages:
        yield normal(said, before)
        before = said


def _at(messages: Sequence[Said], place: int) -> Said:
    return normal(messages[place], messages[place - 1] if place else None)


def _places(said: Said) -> dict[str, str]:
    calls = (block.id for block in said.content if isinstance(block, ToolUseBlock))
    return {id_: f"call {number}" for number, id_ in enumerate(calls, 1)}


def _normal(block: Block, own: dict[str, str], asked: dict[str, str]) -> Block:
    if isinstance(block, ToolUseBlock):
        return msgspec.structs.replace(block, id=own[block.id])
    if isinstance(block, ToolResultBlock):
        return msgspec.structs.replace(block, tool_use_id=asked.get(block.tool_use_id, "call unknown"))
    return block
