"""A conversation as the Messages API accepts it.

A conversation is recorded as it was held, including answers that were cut short. The API is stricter: every tool call
is answered by the next message, thoughts are signed and never last, no text is blank, users and the model take turns.
Which blocks are left out or supplied for that depends only on the blocks before them and on the next message, so that a
growing conversation is always sent with the same beginning: caches and signatures rely on that. (platform.claude.com:
"Handle tool calls", "Preserved thinking", "Stop reasons and fallback", "Errors".)

A call is answered by the message right after it. An interrupt, a crash or a rejection leaves calls without an answer:
they get one that says so, since a call belongs to the thoughts that led to it.

Calls of the tools that the API runs itself, such as web search, code execution, and those of MCP servers, are answered
within the model's turn, which may go on over several messages as long as only results are between them. The result of
such a call cannot be supplied: an unfinished call is left out, with everything that depends on it.
(platform.claude.com: "Stop reasons and fallback", "Programmatic tool calling".)
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from itertools import compress
from typing import TypeAlias, TypedDict

import msgspec

from reenact.actors.environment.received_json import is_json_object, text_in
from reenact.domain.messages import (
    SERVER_CALLS,
    Block,
    OpaqueBlock,
    Role,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)

THOUGHTS = frozenset({"thinking", "redacted_thinking"})
CONTINUE = "Continue."
"""The user's text that is added when the model spoke last and cannot continue its own answer."""
FAILED = "The tool failed and said nothing more."
"""The content of a failure without any, since the API requires some."""

_FILE_ID = "file_id"  # the API adds it to citations, and refuses it in requests
_USER_BLOCKS = frozenset({"tool_result", "image", "document", "search_result"})
_MODEL_BLOCKS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use", "compaction", "fallback", *THOUGHTS})
_CONTAINER = "container"


FOREIGN = "openai:"
"""The prefix of the signature of a thought that came from one of OpenAI's APIs; the rest says how it is sent back.

It is also the prefix of names that only such an API understands: a field of a call, the type of a block.
"""
ApiBlock: TypeAlias = Mapping[str, object]


class Limits(msgspec.Struct, frozen=True):
    """The maximum lengths that an API allows for a call's id (None: no limit) and a tool's name, in characters."""

    call_id: int | None = None
    name: int = 128


MESSAGES_API = Limits()


class ApiMessage(TypedDict):
    """A message as the API has it."""

    role: Role
    content: list[ApiBlock]


def api_messages(
    conversation: Sequence[Said],
    *,
    prefill: bool = False,
    resumable: bool = True,
    thoughts: bool = True,
    limits: Limits = MESSAGES_API,
) -> list[ApiMessage]:
    """Return the `messages` of a request: the conversation without blocks that would make the API refuse all of it.

    With `prefill`, an answer at the end stays there for the model to continue. Code that calls tools, and whose
    container is gone (not `resumable`), is left out with its calls. Without `thoughts`, all thoughts are left out.
    """
    spoken = (_sendable_turn(said, thoughts=thoughts) for said in _without_refused_turns(conversation))
    turns = repaired_turns(spoken, resumable=resumable, limits=limits)
    messages: list[ApiMessage] = [{"role": role, "content": blocks} for role, blocks in turns]
    if messages and messages[-1]["role"] == "assistant" and not is_open(messages[-1]["content"]):
        _end_for_model(messages, prefill=prefill)
    return messages


def api_blocks(blocks: Iterable[Block]) -> list[ApiBlock]:
    """Return the blocks as the API has them, without those that it refuses anywhere."""
    return [block for block in map(_api_block, blocks) if not _is_unsendable(block)]


def container_of(conversation: Sequence[Said]) -> ApiBlock | None:
    """Return the latest data about the container in which the API runs code: its `id`, and when it `expires_at`."""
    for said in reversed(conversation):
        for block in reversed(said.content):
            if isinstance(block, OpaqueBlock) and block.data.get("type") == _CONTAINER:
                return block.data
    return None


def _without_refused_turns(conversation: Sequence[Said]) -> Iterable[Said]:
    """Leave out each turn that the API refused, beginning with its question; it would be refused again each time."""
    if not any(said.refused for said in conversation):
        return conversation
    kept: list[Said] = []
    for said in conversation:
        if said.refused:
            while kept and not _is_users_question(kept.pop()):
                pass
        else:
            kept.append(said)
    return kept


def _is_users_question(said: Said) -> bool:
    return said.role == "user" and not all(isinstance(block, ToolResultBlock) for block in said.content)


def _sendable_turn(said: Said, *, thoughts: bool) -> Turn:
    """Return the message with those blocks that its role may send."""
    blocks = api_blocks(said.content)
    kinds = (block.get("type") for block in blocks)
    may = [_is_sendable_by(said.role, kind) and (thoughts or kind not in THOUGHTS) for kind in kinds]
    return said.role, list(compress(blocks, may))


def _is_sendable_by(role: Role, kind: object) -> bool:
    if role == "user":
        return kind not in _MODEL_BLOCKS and not (isinstance(kind, str) and kind.endswith("_tool_result"))
    return kind not in _USER_BLOCKS


def _api_block(block: Block) -> ApiBlock:
    match block:
        case TextBlock(text=text, citations=citations):
            cited = {} if citations is None else {"citations": list(map(_citation, citations))}
            return {"type": "text", "text": text, **cited}
        case ThinkingBlock(thinking=thinking, signature=signature):
            return {"type": "thinking", "thinking": thinking, "signature": signature}
        case ToolUseBlock(id=call_id, name=name, input=arguments, extra=extra):
            own = {key: value for key, value in (extra or {}).items() if not key.startswith(FOREIGN)}
            return {"type": "tool_use", "id": call_id, "name": name, "input": arguments, **own}
        case ToolResultBlock(tool_use_id=call_id, content=content, is_error=is_error):
            told = _result(content, is_error=is_error)
            return {"type": "tool_result", "tool_use_id": call_id, "content": told, "is_error": is_error}
        case OpaqueBlock(data=data):
            return data
        case _:
            plain: dict[str, object] = msgspec.to_builtins(block)
            return plain


def _result(content: str | tuple[ApiBlock, ...], *, is_error: bool) -> str | list[ApiBlock]:
    """Return a result's content; a failure has only text, and never none."""
    if isinstance(content, str):
        return FAILED if is_error and not content.strip() else content
    blocks = [
        block for block in content if not _is_unsendable(block) and not (is_error and block.get("type") != "text")
    ]
    return blocks or (FAILED if is_error else "")


def _citation(citation: ApiBlock) -> ApiBlock:
    return {name: value for name, value in citation.items() if name != _FILE_ID}


def _is_unsendable(block: ApiBlock) -> bool:
    """Return whether the API refuses the block everywhere: it is empty, not signed for this API, or not a block."""
    match block.get("type"):
        case "text":
            return not text_in(block, "text").strip()
        case "thinking":
            signature = text_in(block, "signature")
            return not signature or signature.startswith(FOREIGN)
        case "compaction":
            return block.get("content") == ""
        case kind:
            return kind is None or kind == _CONTAINER or str(kind).startswith(FOREIGN)


def _end_for_model(messages: list[ApiMessage], *, prefill: bool) -> None:
    """Add a user message at the end, or strip trailing white space from the answer that the model is to continue."""
    if not prefill:
        messages.append({"role": "user", "content": [{"type": "text", "text": CONTINUE}]})
        return
    *before, last = messages[-1]["content"]
    if last.get("type") == "text":
        messages[-1]["content"] = [*before, {**last, "text": text_in(last, "text").rstrip()}]


Turn: TypeAlias = tuple[Role, list[ApiBlock]]

NO_RESULT = "No result: the call was interrupted or never carried out, or its outcome was lost."
"""The result of a call that was never answered."""

_CALL_TYPES = SERVER_CALLS | {"tool_use"}
_DIGEST = 8
_NOT_ALLOWED = re.compile(r"[^a-zA-Z0-9_-]")


def repaired_turns(spoken: Iterable[Turn], *, resumable: bool = True, limits: Limits = MESSAGES_API) -> list[Turn]:
    """Return the conversation as turns that the API accepts; after a rule changes anything, all rules run again.

    Code that calls tools and is not `resumable` is left out with its calls.
    """
    rules: tuple[Callable[[list[Turn]], Iterable[Turn]], ...] = (
        _from_first_question,
        _with_answers,
        lambda turns: _with_server_results(turns, resumable=resumable),
        _without_last_thoughts,
    )
    turns = _joined_nonempty(_with_answers(list(_with_unique_ids(_joined(spoken), limits))))
    done = 0
    while done < len(rules):
        repaired = _joined_nonempty(rules[done](turns))
        done = done + 1 if repaired == turns else 0
        turns = repaired
    return turns


def _joined_nonempty(turns: Iterable[Turn]) -> list[Turn]:
    """Join consecutive messages of one side; leave out empty messages."""
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


def _with_unique_ids(turns: Iterable[Turn], limits: Limits) -> Iterator[Turn]:
    """Give each call a unique id, and an id and a name of characters that the API accepts; change its answer likewise.

    The answers to a call are those of the next message. The first of them stays; any other is left out, and so is an
    answer without a call.
    """
    used: set[str] = set()
    asked: dict[str, list[str]] = {}
    for role, blocks in turns:
        if role == "assistant":
            asked = defaultdict(list)
            yield (
                role,
                [_with_unique_id(one, asked, used, limits) if one.get("type") == "tool_use" else one for one in blocks],
            )
        else:
            yield role, list(_with_renamed_results(blocks, asked))


def _with_unique_id(block: ApiBlock, asked: dict[str, list[str]], used: set[str], limits: Limits) -> ApiBlock:
    given, name = str(block.get("id", "")), str(block.get("name", ""))
    call_id = stem = _shortened(_NOT_ALLOWED.sub("_", given) or "call", limits.call_id)
    count = 1
    while call_id in used:
        count += 1
        call_id = _shortened(f"{stem}_{count}", limits.call_id)
    used.add(call_id)
    asked[given].append(call_id)
    proper = _NOT_ALLOWED.sub("_", name)[: limits.name] or "tool"
    return block if call_id == given and proper == name else {**block, "id": call_id, "name": proper}


def _shortened(call_id: str, most: int | None) -> str:
    """Return an id of at most `most` characters; a longer one ends with its digest, so that it stays unique."""
    if most is None or len(call_id) <= most:
        return call_id
    digest = blake2b(call_id.encode(), digest_size=_DIGEST).hexdigest()
    return f"{call_id[: most - len(digest) - 1]}_{digest}"


def _with_renamed_results(blocks: list[ApiBlock], asked: dict[str, list[str]]) -> Iterator[ApiBlock]:
    for block in blocks:
        if block.get("type") != "tool_result":
            yield block
        elif waiting := asked.get(str(block.get("tool_use_id", ""))):
            call_id = waiting.pop(0)
            yield block if call_id == block["tool_use_id"] else {**block, "tool_use_id": call_id}


def _with_answers(turns: list[Turn]) -> Iterator[Turn]:
    """Answer every call at the beginning of the next message, in order; a call without an answer gets a failure.

    A message that goes on after its calls is split in two, with the answers between them.
    """
    calls: list[ApiBlock] = []
    for number, (role, blocks) in enumerate(turns):
        if role == "user":
            results = _results(blocks)
            others = [block for block in blocks if block.get("type") != "tool_result"]
            yield role, [*(_result_of(call, results) for call in calls), *others]
            calls = []
        else:
            *before, last = _segments(blocks)
            results = _results([block for _, following in turns[number + 1 : number + 2] for block in following])
            for segment in before:
                yield "assistant", segment
                yield "user", [_result_of(call, results) for call in _calls(segment)]
            yield "assistant", last
            calls = _calls(last)
    yield "user", [_result_of(call, {}) for call in calls]


def _segments(blocks: list[ApiBlock]) -> list[list[ApiBlock]]:
    """Split a message of the model where other blocks follow a call."""
    segments: list[list[ApiBlock]] = [[]]
    for block in blocks:
        if _calls(segments[-1]) and block.get("type") not in _CALL_TYPES:
            segments.append([])
        segments[-1].append(block)
    return segments


def _calls(blocks: list[ApiBlock]) -> list[ApiBlock]:
    return [block for block in blocks if block.get("type") == "tool_use"]


def _results(blocks: list[ApiBlock]) -> dict[str, ApiBlock]:
    return {str(block["tool_use_id"]): block for block in blocks if block.get("type") == "tool_result"}


def _result_of(call: ApiBlock, results: dict[str, ApiBlock]) -> ApiBlock:
    result = results.get(str(call["id"]))
    if result is None:
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": NO_RESULT, "is_error": True}
    toolset = call.get("toolset_name")
    return result if toolset is None or "toolset_name" in result else {**result, "toolset_name": toolset}


def _without_last_thoughts(turns: list[Turn]) -> Iterator[Turn]:
    """Leave out thoughts at the end of a message, which the API refuses."""
    for role, blocks in turns:
        end = len(blocks)
        while role == "assistant" and end and blocks[end - 1].get("type") in THOUGHTS:
            end -= 1
        yield role, blocks[:end]


def _with_server_results(turns: list[Turn], *, resumable: bool) -> Iterator[Turn]:
    """Leave out unfinished calls of the API's own tools, and results without a call."""
    if not any(_involves_server_calls(block) for _, blocks in turns for block in blocks):
        yield from turns
        return
    begun: set[str] = set()
    for exchange in _exchanges(turns):
        spoken = [blocks for role, blocks in exchange if role == "assistant"]
        goes_on = exchange[-1] is turns[-1] and not _is_over(exchange[-1])
        finished, unfinished = _server_calls_of(spoken)
        callers = {_calling_id(block) for blocks in spoken for block in blocks}
        stays = finished | (unfinished if resumable else unfinished - callers) if goes_on else finished
        running: set[str] = set()
        for role, blocks in exchange:
            yield role, [block for block in blocks if role == "user" or _may_stay(block, stays, running, begun)]


def _involves_server_calls(block: ApiBlock) -> bool:
    return block.get("type") in SERVER_CALLS or "caller" in block or _answered_call_id(block) is not None


def is_open(blocks: list[ApiBlock]) -> bool:
    """Return whether the model's message has calls of the API's own tools without a result."""
    begun = {str(block.get("id")) for block in blocks if block.get("type") in SERVER_CALLS}
    return not begun <= {_answered_call_id(block) for block in blocks}


def _exchanges(turns: list[Turn]) -> Iterator[list[Turn]]:
    """Split the conversation before each question: what follows, up to the next one, is one turn of the model."""
    exchange: list[Turn] = []
    for turn in turns:
        if exchange and _is_question(turn):
            yield exchange
            exchange = []
        exchange.append(turn)
    yield exchange


def _is_over(turn: Turn) -> bool:
    """Return whether the model's turn is over: the user has asked a question, or the model's message ends with text."""
    role, blocks = turn
    return _is_question(turn) or (role == "assistant" and blocks[-1].get("type") == "text")


def _is_question(turn: Turn) -> bool:
    return turn[0] == "user" and any(block.get("type") != "tool_result" for block in turn[1])


def _server_calls_of(messages: list[list[ApiBlock]]) -> tuple[set[str], set[str]]:
    """Return the ids of the server's calls that are answered, and of those that still may be.

    A call is answered in its own message, or in the next one; unless code that it runs makes calls in that message, and
    goes on.
    """
    finished: set[str] = set()
    running: set[str] = set()
    for blocks in messages:
        waiting = set(running)
        for block in blocks:
            caller, answered = _calling_id(block), _answered_call_id(block)
            if block.get("type") in SERVER_CALLS:
                running.add(str(block.get("id")))
            elif answered in running:
                running.remove(answered)
                finished.add(answered)
            waiting -= {caller, answered}
        running -= waiting
    return finished, running


def _may_stay(block: ApiBlock, stays: set[str], running: set[str], begun: set[str]) -> bool:
    """Return whether the block may stay, and record which server calls have begun and which have finished."""
    caller, answered = _calling_id(block), _answered_call_id(block)
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


def _answered_call_id(block: ApiBlock) -> str | None:
    """Return the id of the server's call that the block answers, if it is such an answer."""
    kind = block.get("type")
    return str(block.get("tool_use_id")) if isinstance(kind, str) and kind.endswith("_tool_result") else None


def _calling_id(block: ApiBlock) -> str | None:
    """Return the id of the server's call whose code made this call, if code made it; None for an answer."""
    caller = block.get("caller")
    if _answered_call_id(block) is not None or not is_json_object(caller):
        return None
    return str(caller["tool_id"]) if "tool_id" in caller else None
