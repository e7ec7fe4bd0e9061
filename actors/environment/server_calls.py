"""Calls of the tools that the API runs itself, such as web search, code execution, and those of MCP servers.

They are answered within the model's turn, which may go on over several messages as long as nothing but results stands
between them. What was begun there and never finished cannot be supplied: it is left out, with all that hangs on it.
(platform.claude.com: "Stop reasons and fallback", "Programmatic tool calling".)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

from reenact.actors.environment.wire import Json, is_json_object
from reenact.domain.messages import Role

Turn: TypeAlias = tuple[Role, list[Json]]

SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})


def with_server_results(turns: list[Turn], *, resumable: bool) -> Iterator[Turn]:
    """Leave out what the API's own tools began and did not finish, and what they finished and never began."""
    if not any(_concerns_the_server(block) for _, blocks in turns for block in blocks):
        yield from turns
        return
    begun: set[str] = set()
    for exchange in _exchanges(turns):
        spoken = [blocks for role, blocks in exchange if role == "assistant"]
        goes_on = exchange[-1] is turns[-1] and not _is_over(exchange[-1])
        finished, unfinished = _work(spoken)
        stays = finished | (unfinished if resumable else unfinished - _calling(spoken)) if goes_on else finished
        running: set[str] = set()
        for role, blocks in exchange:
            yield role, [block for block in blocks if role == "user" or _belongs(block, stays, running, begun)]


def _concerns_the_server(block: Json) -> bool:
    return block.get("type") in SERVER_CALLS or "caller" in block or _answered(block) is not None


def is_open(blocks: list[Json]) -> bool:
    """Return whether work of the API's own tools was begun in the message of the model and not finished."""
    begun = {str(block.get("id")) for block in blocks if block.get("type") in SERVER_CALLS}
    return not begun <= {_answered(block) for block in blocks}


def _exchanges(turns: list[Turn]) -> Iterator[list[Turn]]:
    """Cut the conversation before each question: what follows it, up to the next one, is one turn of the model."""
    exchange: list[Turn] = []
    for turn in turns:
        if exchange and _is_question(turn):
            yield exchange
            exchange = []
        exchange.append(turn)
    yield exchange


def _is_over(turn: Turn) -> bool:
    """Return whether nothing of the model's turn can be on its way: the user spoke, or the model has said something."""
    role, blocks = turn
    return _is_question(turn) or (role == "assistant" and blocks[-1].get("type") == "text")


def _is_question(turn: Turn) -> bool:
    return turn[0] == "user" and any(block.get("type") != "tool_result" for block in turn[1])


def _work(messages: list[list[Json]]) -> tuple[set[str], set[str]]:
    """Return the ids of the server's calls that are answered, and of those that still may be.

    A call is answered in the message that it was made in, or in the next one; unless code that it runs calls in there,
    and goes on.
    """
    finished: set[str] = set()
    running: set[str] = set()
    for blocks in messages:
        waiting = set(running)
        for block in blocks:
            caller, answered = _caller(block), _answered(block)
            if block.get("type") in SERVER_CALLS:
                running.add(str(block.get("id")))
            elif answered in running:
                running.remove(answered)
                finished.add(answered)
            waiting -= {caller, answered}
        running -= waiting
    return finished, running


def _calling(messages: list[list[Json]]) -> set[str | None]:
    """Return the ids of the server's calls whose code has called something."""
    return {_caller(block) for block in chain.from_iterable(messages)}


def _belongs(block: Json, stays: set[str], running: set[str], begun: set[str]) -> bool:
    """Return whether the block may stay, and note what the server has begun and what it has finished."""
    caller, answered = _caller(block), _answered(block)
    if caller is not None and caller not in running:
        return False
    if block.get("type") in SERVER_CALLS:
        call_id = str(block.get("id"))
        if call_id not in stays or call_id in begun:
            return False
        begun.add(call_id)
        running.add(call_id)
    elif answered is not None:
        if answered not in running:
            return False
        running.remove(answered)
    return True


def _answered(block: Json) -> str | None:
    """Return the id of the server's call that the block answers, if it is such an answer."""
    kind = block.get("type")
    return str(block.get("tool_use_id")) if isinstance(kind, str) and kind.endswith("_tool_result") else None


def _caller(block: Json) -> str | None:
    """Return the id of the server's call whose code has called, if it was code; an answer goes with its own call."""
    caller: Any = block.get("caller")
    if _answered(block) is not None or not is_json_object(caller):
        return None
    return str(caller["tool_id"]) if "tool_id" in caller else None
