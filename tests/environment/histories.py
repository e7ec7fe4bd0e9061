"""Conversations of every kind: what models say, what interrupts, crashes, rejections and faults leave of it.

Every text and every thought of a history is different from all others, so that a test can tell what became of it. Ids
come from few letters, so that they collide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeAlias

from hypothesis import strategies as st

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.messages import (
    Block,
    OpaqueBlock,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.domain.plain import JsonObject
from tests.jsons import object_at

Kind: TypeAlias = Callable[[Iterator[str]], st.SearchStrategy[Block]]
IDS = st.sampled_from("ab")
BLANK = st.sampled_from(["", " ", "\n\t"])


@st.composite
def histories(draw: st.DrawFn, most: int = 4) -> list[Said]:
    """Return a conversation that ends with a question, as every conversation does that is sent."""
    fresh = (f"<{number}>" for number in count(1))
    said: list[Said] = []
    for _ in range(draw(st.integers(0, most))):
        likely = draw(st.integers(0, 4)) > 0
        said += draw(exchanges(fresh)) if likely else [draw(messages(fresh))]
    return [*said, Said("user", (TextBlock(next(fresh)),))]


@st.composite
def plain_histories(draw: st.DrawFn) -> list[Said]:
    """Return a conversation in which the API has no tools of its own, and refuses nothing."""
    history: list[Said] = draw(histories())
    return [Said(said.role, tuple(block for block in said.content if _is_plain(block))) for said in history]


@st.composite
def open_histories(draw: st.DrawFn) -> list[Said]:
    """Return a conversation that may end anywhere, also in the middle of the model's turn."""
    history: list[Said] = draw(histories())
    return history[: len(history) - draw(st.integers(0, len(history) - 1))]


@st.composite
def exchanges(draw: st.DrawFn, fresh: Iterator[str]) -> list[Said]:
    """Return a question and what came of it, with all that can go wrong on the way to an answer."""
    said = [Said("user", (draw(said_aloud(fresh)), *draw(some(attachments(fresh)))))]
    running: list[str] = []
    for _ in range(draw(st.integers(0, 3))):
        blocks = [*draw(some(thoughts(fresh))), *draw(some(said_aloud(fresh)))]
        blocks += draw(server_work(fresh, running))
        asked = [draw(fresh_calls(fresh, running)) for _ in range(draw(st.integers(0, 2)))]
        said.append(Said("assistant", (*blocks, *asked)))
        answers = [answer for call in asked for answer in draw(answers_to(call, fresh))]
        spoken = draw(some(said_aloud(fresh))) if draw(st.integers(0, 5)) == 0 else []
        said.append(Said("user", (*draw(st.permutations([*answers, *spoken])),)))
    end = [*draw(some(thoughts(fresh))), *draw(some(st.one_of(said_aloud(fresh), blanks(fresh), beside(fresh))))]
    return [*said, Said("assistant", tuple(end), refused=draw(st.integers(0, 9)) == 0)]


def some(blocks: st.SearchStrategy[Block]) -> st.SearchStrategy[list[Block]]:
    """Return none or one of the blocks."""
    return st.lists(blocks, max_size=1)


@st.composite
def fresh_calls(draw: st.DrawFn, fresh: Iterator[str], running: list[str]) -> ToolUseBlock:
    """Return a call under an id of its own, by the model or by code that is running."""
    caller = draw(st.sampled_from([None, *running]))
    extra = None if caller is None else {"caller": {"type": "code_execution_20250825", "tool_id": caller}}
    return ToolUseBlock(f"toolu_{next(fresh)[1:-1]}", "bash", {"n": next(fresh)}, extra)


@st.composite
def answers_to(draw: st.DrawFn, call: ToolUseBlock, fresh: Iterator[str]) -> list[Block]:
    """Return the answer to a call, or none, or two."""
    times = draw(st.sampled_from([0, 1, 1, 1, 2]))
    return [ToolResultBlock(call.id, next(fresh), is_error=draw(st.booleans())) for _ in range(times)]


@st.composite
def server_work(draw: st.DrawFn, fresh: Iterator[str], running: list[str]) -> list[Block]:
    """Return what the API does by itself: it ends what runs, begins something, and mostly ends it too."""
    done: list[Block] = []
    for call_id in [*running]:
        if draw(st.booleans()):
            running.remove(call_id)
            done.append(OpaqueBlock({"type": "code_execution_tool_result", "tool_use_id": call_id, "content": {}}))
    if draw(st.booleans()):
        call_id = f"srvtoolu_{next(fresh)[1:-1]}"
        begun: JsonObject = {
            "type": "server_tool_use",
            "id": call_id,
            "name": "code_execution",
            "input": {"n": next(fresh)},
        }
        done.append(OpaqueBlock(begun))
        if draw(st.booleans()):
            running.append(call_id)
        else:
            done.append(OpaqueBlock({"type": "code_execution_tool_result", "tool_use_id": call_id, "content": {}}))
    return done


@st.composite
def messages(draw: st.DrawFn, fresh: Iterator[str]) -> Said:
    """Return any message, of either side, with blocks that belong there and some that do not."""
    if draw(st.booleans()):
        kinds = [said_aloud, results, attachments, blanks, calls] if draw(st.booleans()) else [results]
        return Said("user", tuple(draw(blocks_of(kinds, fresh))))
    kinds = [said_aloud, thoughts, calls, server_calls, server_results, blanks, beside, results]
    return Said("assistant", tuple(draw(blocks_of(kinds, fresh))), refused=draw(st.integers(0, 9)) == 0)


def blocks_of(kinds: Sequence[Kind], fresh: Iterator[str]) -> st.SearchStrategy[list[Block]]:
    """Return a few blocks of these kinds, in any order."""
    return st.lists(st.one_of([kind(fresh) for kind in kinds]), max_size=5)


@st.composite
def said_aloud(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a text, some of them with white space around or with citations."""
    before, after = draw(st.sampled_from(["", " "])), draw(st.sampled_from(["", " \n"]))
    text = f"{before}{next(fresh)}{after}"
    return TextBlock(text, draw(st.sampled_from([None, ({"type": "char_location", "file_id": None},)])))


@st.composite
def blanks(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a text that says nothing."""
    del fresh
    return TextBlock(draw(BLANK))


@st.composite
def thoughts(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a thought: signed, not signed since it was cut short, signed and not shown, or sealed."""
    kind = draw(st.sampled_from(["signed", "cut", "hidden", "sealed"]))
    if kind == "sealed":
        return OpaqueBlock({"type": "redacted_thinking", "data": next(fresh)})
    signature = None if kind == "cut" else next(fresh)
    return ThinkingBlock("" if kind == "hidden" else next(fresh), signature)


@st.composite
def calls(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a call of a tool, by the model itself or by code that it runs."""
    name = draw(st.sampled_from(["bash", "my tool", ""]))
    given = draw(st.sampled_from(["a", "b", "toolu_1", "call|x", ""]))
    caller = draw(st.sampled_from([None, {"type": "direct"}, {"type": "code_execution_20250825", "tool_id": "a"}]))
    return ToolUseBlock(given, name, {"n": next(fresh)}, None if caller is None else {"caller": caller})


@st.composite
def results(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return an answer to a call, or to none."""
    given = draw(st.sampled_from(["a", "b", "toolu_1", "call|x", "", "nobody"]))
    text: dict[str, Any] = {"type": "text", "text": next(fresh)}
    picture: dict[str, Any] = {"type": "image", "source": {"type": "url", "url": "https://x"}}
    contents: list[str | tuple[dict[str, Any], ...]] = [next(fresh), "", " ", (), (text, picture), (picture,)]
    content = draw(st.sampled_from([*contents, ({**text, "text": ""},)]))
    return ToolResultBlock(given, content, is_error=draw(st.booleans()))


@st.composite
def attachments(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return an image or a document."""
    if draw(st.booleans()):
        return ImageBlock.from_bytes(next(fresh).encode(), "image/png")
    return DocumentBlock.from_text(next(fresh), title="T", citations=True)


@st.composite
def server_calls(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a call that the API carries out itself."""
    kind = draw(st.sampled_from(["server_tool_use", "mcp_tool_use"]))
    caller = draw(st.sampled_from([{}, {"caller": {"type": "code_execution_20260120", "tool_id": "b"}}]))
    return OpaqueBlock({"type": kind, "id": draw(IDS), "name": "web", "input": {"n": next(fresh)}, **caller})


@st.composite
def server_results(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return what such a call came to."""
    kind = draw(st.sampled_from(["web_search_tool_result", "code_execution_tool_result", "mcp_tool_result"]))
    return OpaqueBlock({"type": kind, "tool_use_id": draw(IDS), "content": [{"text": next(fresh)}]})


@st.composite
def beside(draw: st.DrawFn, fresh: Iterator[str]) -> Block:
    """Return a block that stands by itself."""
    kinds = [
        {"type": "compaction", "content": next(fresh)},
        {"type": "compaction", "content": ""},
        {"type": "container", "id": next(fresh), "expires_at": "2026-01-01T00:00:00Z"},
        {"data": "of no type"},
    ]
    return OpaqueBlock(draw(st.sampled_from(kinds)))


def _is_plain(block: Block) -> bool:
    if isinstance(block, ToolUseBlock):
        return "tool_id" not in object_at({"caller": {}, **(block.extra or {})}, "caller")
    return not (isinstance(block, OpaqueBlock) and "tool" in str(block.data.get("type")))
