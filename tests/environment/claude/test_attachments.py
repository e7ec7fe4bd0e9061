"""Images and documents for which the API refuses a conversation."""

from __future__ import annotations

import pytest

from reenact.domain.attachments import DocumentBlock, ImageBlock
from reenact.domain.messages import Block, Said, TextBlock, ToolResultBlock, ToolUseBlock
from reenact.domain.plain import Json
from reenact.testing import FakeMessagesAPI
from tests.environment.talking import ClaudeConversation, failure, said

PICTURE = ImageBlock.from_bytes(b"\x89PNG", "image/png")
TOO_LARGE = "image exceeds 5 MB maximum: 6500712 bytes > 5242880 bytes"
RETURNED: dict[str, Json] = {
    "type": "image",
    "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="},
}


def user(*blocks: Block) -> Said:
    return Said("user", blocks)


SEEN = (
    user(TextBlock("Look"), PICTURE),
    Said("assistant", (ToolUseBlock("c1", "shoot", {}),)),
    user(ToolResultBlock("c1", ({"type": "text", "text": "here"}, RETURNED))),
)


def refuse(api: FakeMessagesAPI, where: str, why: str = TOO_LARGE) -> None:
    api.error(400, "invalid_request_error", message=f"{where}: {why}")


def sent(api: FakeMessagesAPI) -> list[list[dict[str, object]]]:
    return [message["content"] for message in api.requests[-1].body["messages"]]


def test_what_a_tool_has_shown_and_the_api_refuses_is_left_out_and_the_model_is_told_why(api: FakeMessagesAPI) -> None:
    refuse(api, "messages.2.content.0.tool_result.content.1.image.source.base64")

    assert said(ClaudeConversation(api).ask(SEEN)) == "Hello from the fake API!"

    question, _, result = sent(api)
    assert [block["type"] for block in question] == ["text", "image"]
    assert result[0]["content"] == [
        {"type": "text", "text": "here"},
        {"type": "text", "text": f"[left out: {TOO_LARGE}]"},
    ]


@pytest.mark.parametrize(
    ("attached", "where"),
    [
        (PICTURE, "messages.0.content.1.image.source.base64.data"),
        (DocumentBlock.from_bytes(b"%PDF"), "messages.0.content.1.pdf.source.base64.data"),
    ],
)
def test_a_question_that_was_refused_for_its_attachment_fails_and_those_after_it_do_not(
    api: FakeMessagesAPI, attached: Block, where: str
) -> None:
    refuse(api, where)
    asked = user(TextBlock("Look"), attached)

    assert failure(ClaudeConversation(api).ask([asked])).message == f"{where}: {TOO_LARGE}"

    refuse(api, where)
    assert (
        said(ClaudeConversation(api).ask([asked, user(TextBlock("Without it, then."))])) == "Hello from the fake API!"
    )
    assert [block["text"] for block in sent(api)[0]] == ["Look", f"[left out: {TOO_LARGE}]", "Without it, then."]


def test_the_first_attachments_of_a_conversation_that_is_too_large_are_left_out(api: FakeMessagesAPI) -> None:
    for _ in range(2):
        api.error(413, "request_too_large")

    assert said(ClaudeConversation(api).ask(SEEN)) == "Hello from the fake API!"
    assert "image" not in repr(sent(api))


@pytest.mark.parametrize(
    "where",
    [
        "messages.0.content.0.image",  # it is a text
        "messages.2.content.0.image",
        "messages.2.content.0.tool_result.content.9.image",
        "messages.9.content.0.image",
        "tools.0.image",
    ],
)
def test_an_error_that_names_no_attachment_fails_the_turn(api: FakeMessagesAPI, where: str) -> None:
    refuse(api, where)

    assert failure(ClaudeConversation(api).ask(SEEN)).type == "invalid_request_error"
    assert len(api.requests) == 1


def test_a_conversation_that_is_too_large_without_attachments_fails(api: FakeMessagesAPI) -> None:
    api.error(413, "request_too_large")

    assert failure(ClaudeConversation(api).ask()).type == "request_too_large"
    assert len(api.requests) == 1
