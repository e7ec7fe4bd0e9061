"""Turns of a conversation, repaired so that the Messages API accepts them.

A call is answered by the message right after it. Who was interrupted, crashed or rejected left calls without an
answer: they get one that says so, since what the model wanted belongs to what it thought.

Calls of the tools that the API runs itself, such as web search, code execution, and those of MCP servers, are answered
within the model's turn, which may go on over several messages as long as nothing but results is between them. What was
begun there and never finished cannot be supplied: it is left out, with all that depends on it.
(platform.claude.com: "Stop reasons and fallback", "Programmatic tool calling".)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, Final, TypeAlias

from reenact.actors.environment.claude.stream import Json, is_json_object
from reenact.domain.messages import Role

Turn: TypeAlias = tuple[Role, list[Json]]

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
NO_RESULT: Final = "No result: the call was interrupted or never carried out, or its outcome was lost."
"""What the model is told of a call that nobody answered."""

_SERVER_CALLS: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_AFTER_A_CALL = _SERVER_CALLS | {"tool_use"}
_LONGEST_NAME = 128
_IMPROPER = re.compile(r"[^a-zA-Z0-9_-]")


def repaired_turns(spoken: Iterable[Turn], *, resumable: bool = True) -> list[Turn]:
    """Return what was said as turns that the API accepts; with the first rule that changes anything all begin again.

    Where code that calls tools is not `resumable`, it is left out with its calls.
    """
    rules: tuple[Callable[[list[Turn]], Iterable[Turn]], ...] = (
        _from_first_question,
        _with_answers,
        lambda turns: _with_server_results(turns, resumable=resumable),
        _without_last_thoughts,
    )
    turns = _merged(_with_answers(list(_identified(_joined(spoken)))))
    done = 0
    while done < len(rules):
        repaired = _merged(rules[done](turns))
        done = done + 1 if repaired == turns else 0
        turns = repaired
    return turns


def _merged(turns: Iterable[Turn]) -> list[Turn]:
    """Join what one side said in several messages; leave out a message that says nothing."""
    return _joined(turn for turn in turns if turn[1])


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    for role, blocks in turns:
        if joined and joined[-1][0] == role:
            joined[-1][1].extend(blocks)
        else:
            joined.append((role, [*blocks]))
    return joined


def _from_first_question(turns: list[Turn]) -> list[Turn]:
    return turns[1:] if turns and turns[0][0] == "assistant" else turns


def _identified(turns: Iterable[Turn]) -> Iterator[Turn]:
    """Give each call an id that no other has, and a name and an id of letters that the API takes, and so its answer.

    The answers to a call are those of the next message. The first of them stands; any other is left out, and so is
    one that answers nothing.
    """
    used: set[str] = set()
    asked: dict[str, list[str]] = {}
    for role, blocks in turns:
        if role == "assistant":
            asked = defaultdict(list)
            yield role, [_call(block, asked, used) if block.get("type") == "tool_use" else block for block in blocks]
        else:
            yield role, list(_answers(blocks, asked))


def _call(block: Json, asked: dict[str, list[str]], used: set[str]) -> Json:
    given, name = str(block.get("id", "")), str(block.get("name", ""))
    call_id = stem = _IMPROPER.sub("_", given) or "call"
    count = 1
    while call_id in used:
        count += 1
        call_id = f"{stem}_{count}"
    used.add(call_id)
    asked[given].append(call_id)
    proper = _IMPROPER.sub("_", name)[:_LONGEST_NAME] or "tool"
    return block if call_id == given and proper == name else {**block, "id": call_id, "name": proper}


def _answers(blocks: list[Json], asked: dict[str, list[str]]) -> Iterator[Json]:
    for block in blocks:
        if block.get("type") != "tool_result":
            yield block
        elif waiting := asked.get(str(block.get("tool_use_id", ""))):
            call_id = waiting.pop(0)
            yield block if call_id == block["tool_use_id"] else {**block, "tool_use_id": call_id}


def _with_answers(turns: list[Turn]) -> Iterator[Turn]:
    """Let every call be answered, by a failure if nobody did, first thing in the next message, in order.

    A message that says more after its calls is two: the answers come between.
    """
    calls: list[Json] = []
    for number, (role, blocks) in enumerate(turns):
        if role == "user":
            results = _results(blocks)
            others = [block for block in blocks if block.get("type") != "tool_result"]
            yield role, [*(_answer(call, results) for call in calls), *others]
            calls = []
        else:
            *before, last = _segments(blocks)
            results = _results([block for _, following in turns[number + 1 : number + 2] for block in following])
            for segment in before:
                yield "assistant", segment
                yield "user", [_answer(call, results) for call in _calls(segment)]
            yield "assistant", last
            calls = _calls(last)
    yield "user", [_answer(call, {}) for call in calls]


def _segments(blocks: list[Json]) -> list[list[Json]]:
    """Cut a message of the model where it goes on after a call with anything but calls."""
    segments: list[list[Json]] = [[]]
    for block in blocks:
        if _calls(segments[-1]) and block.get("type") not in _AFTER_A_CALL:
            segments.append([])
        segments[-1].append(block)
    return segments


def _calls(blocks: list[Json]) -> list[Json]:
    return [block for block in blocks if block.get("type") == "tool_use"]


def _results(blocks: list[Json]) -> dict[str, Json]:
    return {block["tool_use_id"]: block for block in blocks if block.get("type") == "tool_result"}


def _answer(call: Json, results: dict[str, Json]) -> Json:
    result = results.get(call["id"])
    if result is None:
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": NO_RESULT, "is_error": True}
    toolset = call.get("toolset_name")
    return result if toolset is None or "toolset_name" in result else {**result, "toolset_name": toolset}


def _without_last_thoughts(turns: list[Turn]) -> Iterator[Turn]:
    """Leave out thoughts that lead to nothing any more; the API refuses them at the end of a message."""
    for role, blocks in turns:
        end = len(blocks)
        while role == "assistant" and end and blocks[end - 1].get("type") in THOUGHTS:
            end -= 1
        yield role, blocks[:end]


def _with_server_results(turns: list[Turn], *, resumable: bool) -> Iterator[Turn]:
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
    return block.get("type") in _SERVER_CALLS or "caller" in block or _answered(block) is not None


def is_open(blocks: list[Json]) -> bool:
    """Return whether work of the API's own tools was begun in the message of the model and not finished."""
    begun = {str(block.get("id")) for block in blocks if block.get("type") in _SERVER_CALLS}
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
            if block.get("type") in _SERVER_CALLS:
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
    if block.get("type") in _SERVER_CALLS:
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
