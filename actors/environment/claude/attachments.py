"""Leaves out images and documents for which the API refuses a request, and would refuse each later one.

The API checks them with every request, and its error names the place. It takes images of 5 MiB in base64 and of 8,000
pixels, of 2,000 pixels if there are more than 20, and requests of 32 MB. (platform.claude.com: "Vision", "Errors".)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from reenact.actors.environment.wire.faults import Fault
from reenact.actors.environment.wire.messages import api_blocks
from reenact.actors.environment.wire.stream import objects_in
from reenact.domain.messages import Said
from reenact.domain.plain import Json, JsonDict

_Place: TypeAlias = tuple[int, int, int | None]
"""The number of a message, of a block in it, and of a block in that block, if it is the result of a tool."""
_NAMED = re.compile(
    r"messages\.(\d+)\.content\.(\d+)(?:\.tool_result\.content\.(\d+))?\.(?:image|document|pdf)[.\w]*:? *(.*)"
)
_TYPES = frozenset({"image", "document"})


def leave_out_refused(request: Mapping[str, object], asked: Said, fault: Fault) -> bool:
    """Put a note in the place of the image or document for which the API has refused the request.

    If the request is too large, it is the first one. Those of the message that asks stay: the user has to know.

    Returns:
        Whether there was one.
    """
    messages = objects_in(request, "messages")
    places = list(_attachments(messages, asked))
    named = _NAMED.search(fault.message)
    if fault.error_type == "request_too_large":
        refused, why = places[:1], "the conversation became too large"
    elif named is not None:
        number, outer, inner, why = named.groups()
        place = int(number), int(outer), None if inner is None else int(inner)
        refused = [place] if place in places else []
    else:
        return False
    for place in refused:
        _replace(messages, place, {"type": "text", "text": f"[left out: {why}]"})
    return bool(refused)


def _attachments(messages: Sequence[JsonDict], asked: Said) -> Iterator[_Place]:
    """Yield the places of the images and documents, without those of the message that asks, which are the last ones."""
    for number, message in enumerate(messages):
        content = objects_in(message, "content")
        own = len(api_blocks(asked.content)) if number == len(messages) - 1 and asked.role == "user" else 0
        for outer, block in enumerate(content):
            if block.get("type") in _TYPES and outer < len(content) - own:
                yield number, outer, None
            elif block.get("type") == "tool_result":
                returned = enumerate(objects_in(block, "content"))
                yield from ((number, outer, inner) for inner, one in returned if one.get("type") in _TYPES)


def _replace(messages: Sequence[JsonDict], place: _Place, note: JsonDict) -> None:
    number, outer, inner = place
    content = objects_in(messages[number], "content")
    if inner is None:
        content[outer] = note
    else:
        returned: list[Json] = [*objects_in(content[outer], "content")]
        returned[inner] = note
        content[outer] = {**content[outer], "content": returned}
    messages[number]["content"] = [*content]
