"""Where a request is marked for the API's prompt cache (platform.claude.com: "Prompt caching").

A mark says: what stands up to here may be kept, or read from what was kept. Requests of one conversation have their
beginning in common; so the last question is marked, which the next request finds marked again as the last but one,
and besides the system prompt and the tools, for those that have only these in common. Prompts that are too short to
be kept are taken as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from reenact.actors.environment.wire import Json

Life: TypeAlias = Literal["off", "5m", "1h"]

MOST_MARKS: Final = 4
"""How many marks the API takes in a request."""

_MARKABLE = frozenset({"text", "image", "document", "tool_result", "search_result", "container_upload"})
_MARK = "cache_control"


def marked(request: Json, life: Life) -> Json:
    """Return the request with its marks; those that are in it already count, and stay."""
    if life == "off":
        return request
    mark: Json = {"type": "ephemeral"} if life == "5m" else {"type": "ephemeral", "ttl": life}
    left = MOST_MARKS - _marks_in(request)
    places = list(islice(_questions(request["messages"]), 2))
    for mark_next in (_mark_question(places[:1]), _mark_system, _mark_question(places[1:]), _mark_tools):
        if left > 0:
            fields = mark_next(request, mark)
            request, left = {**request, **fields}, left - len(fields)
    return request


def _marks_in(request: Json) -> int:
    """Count the marks that came with the tools, or with blocks of kinds that are sent as they were given."""
    blocks: Iterator[Any] = (block for message in request["messages"] for block in message["content"])
    return sum(_MARK in one for one in (request, *request.get("tools", []), *blocks))


def _questions(messages: list[Json]) -> Iterator[tuple[int, int]]:
    """Yield the places that may be marked, the last first: in each message of the user the last block that may."""
    for number in range(len(messages) - 1, -1, -1):
        message = messages[number]
        if message["role"] == "user":
            for place in range(len(message["content"]) - 1, -1, -1):
                if message["content"][place].get("type") in _MARKABLE:
                    yield number, place
                    break


def _mark_question(places: Sequence[tuple[int, int]]) -> Callable[[Json, Json], Json]:
    """Return what marks the first of the places, if there is one."""

    def mark_it(request: Json, mark: Json) -> Json:
        messages = list(request["messages"])
        for number, place in places:
            content = list(messages[number]["content"])
            content[place] = {**content[place], _MARK: mark}
            messages[number] = {**messages[number], "content": content}
        return {"messages": messages} if places else {}

    return mark_it


def _mark_system(request: Json, mark: Json) -> Json:
    system: object = request.get("system")
    return {"system": [{"type": "text", "text": system, _MARK: mark}]} if isinstance(system, str) else {}


def _mark_tools(request: Json, mark: Json) -> Json:
    """Mark the last tool that the model is told of from the start; one that is found later cannot be marked."""
    tools: list[Json] = list(request.get("tools", []))
    if not any(_MARK in tool for tool in tools):
        for place in range(len(tools) - 1, -1, -1):
            if not tools[place].get("defer_loading"):
                tools[place] = {**tools[place], _MARK: mark}
                return {"tools": tools}
    return {}
