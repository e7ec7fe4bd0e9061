"""What stands in the text that a model is asked to sum up."""

from __future__ import annotations

import pytest

from reenact.domain.attachments import Base64Source, ContentSource, DocumentBlock, ImageBlock
from reenact.domain.messages import (
    Block,
    OpaqueBlock,
    Said,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from reenact.domain.transcript import INSTRUCTIONS, LONGEST, summary_request, transcript


def told(*blocks: Block) -> str:
    """Return the transcript of one message of the user, without its frame."""
    return transcript([Said("user", blocks)]).removeprefix("<conversation>").removesuffix("</conversation>").strip()


def test_a_conversation_is_told_in_order_without_its_thoughts() -> None:
    conversation = [
        Said("user", (TextBlock("What is here?"),)),
        Said("assistant", (ThinkingBlock("hm", "s"), TextBlock(" "), ToolUseBlock("c", "bash", {"command": "ls"}))),
        Said("user", (ToolResultBlock("c", "a.txt"), ToolResultBlock("d", "gone", is_error=True))),
        Said("assistant", (TextBlock("One file."),)),
    ]

    assert transcript(conversation) == (
        "<conversation>\n\n"
        "[user] What is here?\n\n"
        '[assistant calls bash] {"command":"ls"}\n\n'
        "[bash answered] a.txt\n\n"
        "[a tool failed] gone\n\n"
        "[assistant] One file.\n\n"
        "</conversation>"
    )


@pytest.mark.parametrize(
    ("block", "line"),
    [
        (ImageBlock.from_url("https://x"), "[user] (an image)"),
        (DocumentBlock.from_text("Hi", title="T"), "[user] (a document 'T') Hi"),
        (DocumentBlock(ContentSource("Hi")), "[user] (a document) Hi"),
        (DocumentBlock(ContentSource(({"type": "text", "text": "Hi"}, {"type": "image"}))), "(a document) Hi\n(image)"),
        (DocumentBlock(Base64Source("application/pdf", "x")), "[user] (a document, application/pdf)"),
        (DocumentBlock.from_url("https://x"), "[user] (a document)"),
        (ToolResultBlock("c", ({"type": "text", "text": "Hi"}, {})), "[a tool answered] Hi\n(something)"),
        (OpaqueBlock({"type": "server_tool_use", "name": "web", "input": {"q": 1}}), '[user calls web] {"q":1}'),
        (
            OpaqueBlock({"type": "web_tool_result", "content": [{"url": "u", "encrypted_content": "x"}]}),
            '[web_tool_result] [{"url":"u"}]',
        ),
        (OpaqueBlock({"type": "compaction", "content": "before"}), '[compaction] "before"'),
        (OpaqueBlock({"type": "redacted_thinking", "data": "x"}), ""),
    ],
)
def test_what_is_no_text_is_named(block: Block, line: str) -> None:
    assert told(block).endswith(line)
    assert bool(told(block)) == bool(line)


def test_of_a_long_text_the_middle_is_left_out() -> None:
    text = "a" * LONGEST + "b" * LONGEST

    assert told(TextBlock("c" * LONGEST)) == f"[user] {'c' * LONGEST}"
    assert told(TextBlock(text)) == (
        f"[user] {'a' * (LONGEST // 2)} … ({LONGEST} characters left out) … {'b' * (LONGEST // 2)}"
    )


def test_the_request_is_one_question_with_the_instructions_last() -> None:
    conversation = [Said("user", (TextBlock("Hi"),))]

    (asked,) = summary_request(conversation)

    assert asked == Said("user", (TextBlock(transcript(conversation)), TextBlock(INSTRUCTIONS)))


def test_a_request_for_a_summary_of_a_part_has_the_first_and_the_last_of_the_transcript() -> None:
    (asked,) = summary_request([Said("user", (TextBlock("a" * 500 + "b" * 500),))], part=0.1)

    text = asked.text.removesuffix(INSTRUCTIONS)
    assert text.startswith("<conversation>\n\n[user] aaa")
    assert text.endswith("bbb\n\n</conversation>")
    assert "characters left out" in text
