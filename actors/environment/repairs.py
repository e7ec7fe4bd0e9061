"""Turns of a conversation, mended until the Messages API would accept them.

A call is answered by the message right after it. Who was interrupted, crashed or rejected left calls without an
answer: they get one that says so, since what the model wanted belongs to what it thought.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from reenact.actors.environment.server_calls import SERVER_CALLS, Turn, with_server_results
from reenact.actors.environment.wire import Json

THOUGHTS: Final = frozenset({"thinking", "redacted_thinking"})
NO_RESULT: Final = "No result: the call was interrupted or never carried out, or its outcome was lost."
"""What the model is told of a call that nobody answered."""

_AFTER_A_CALL = SERVER_CALLS | {"tool_use"}
_LONGEST_NAME = 128
_IMPROPER = re.compile(r"[^a-zA-Z0-9_-]")


def repaired(spoken: Iterable[Turn], *, resumable: bool = True) -> list[Turn]:
    """Return what was said as turns that the API accepts; with the first rule that changes anything all begin again.

    Where code that calls tools is not `resumable`, it is left out with its calls.
    """
    rules: tuple[Callable[[list[Turn]], Iterable[Turn]], ...] = (
        _from_first_question,
        _with_answers,
        lambda turns: with_server_results(turns, resumable=resumable),
        _without_last_thoughts,
    )
    turns = _merged(_with_answers(list(_identified(_joined(spoken)))))
    done = 0
    while done < len(rules):
        mended = _merged(rules[done](turns))
        done = done + 1 if mended == turns else 0
        turns = mended
    return turns


def _merged(turns: Iterable[Turn]) -> list[Turn]:
    """Join what one side said in several messages; leave out a message that says nothing."""
    return _joined(turn for turn in turns if turn[1])


def _joined(turns: Iterable[Turn]) -> list[Turn]:
    joined: list[Turn] = []
    copied = False
    for role, blocks in turns:
        if not joined or joined[-1][0] != role:
            joined.append((role, blocks))
            copied = False
            continue
        if not copied:
            joined[-1] = role, list(joined[-1][1])
            copied = True
        joined[-1][1].extend(blocks)
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
            others = [block for block in blocks if block.get("type") != "tool_result"] if results else blocks
            yield role, [*(_answer(call, results) for call in calls), *others] if results or calls else blocks
            calls = []
        elif not _calls(blocks):
            yield role, blocks
        else:
            following = turns[number + 1][1] if number + 1 < len(turns) else []
            *before, last = _segments(blocks)
            for segment in before:
                yield "assistant", segment
                yield "user", [_answer(call, _results(following)) for call in _calls(segment)]
            yield "assistant", last
            calls = _calls(last)
    yield "user", [_answer(call, {}) for call in calls]


def _segments(blocks: list[Json]) -> list[list[Json]]:
    """Cut a message of the model where it goes on after a call with anything but calls."""
    segments: list[list[Json]] = [[]]
    called = False
    for block in blocks:
        kind = block.get("type")
        if called and kind not in _AFTER_A_CALL:
            segments.append([])
            called = False
        called = called or kind == "tool_use"
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
