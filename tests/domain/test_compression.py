"""Which part of a conversation a summary takes the place of: never what is being answered, never half a call."""

from __future__ import annotations

import pytest

from reenact.domain.conversation import replaceable_count, summary_message
from reenact.domain.messages import Said, TextBlock, ToolResultBlock, ToolUseBlock

ASKED = Said("user", (TextBlock("Why?"),))
SAID = Said("assistant", (TextBlock("Because."),))
CALLS = Said("assistant", (ToolUseBlock("c", "look", {}),))
RESULTS = Said("user", (ToolResultBlock("c", "sunny"),))


@pytest.mark.parametrize(
    ("messages", "cut"),
    [
        ((), 0),
        ((ASKED,), 0),
        ((SAID, SAID), 0),
        ((ASKED, ASKED), 1),
        ((ASKED, SAID, ASKED), 2),
        ((ASKED, SAID, ASKED, SAID, ASKED), 4),
        ((ASKED, CALLS, RESULTS), 0),
        ((ASKED, CALLS, RESULTS, CALLS, RESULTS), 3),
        ((ASKED, SAID, ASKED, CALLS, RESULTS, CALLS, RESULTS), 5),
        ((RESULTS, RESULTS), 0),
    ],
)
def test_the_question_stays_unless_its_answer_is_what_became_long(messages: tuple[Said, ...], cut: int) -> None:
    assert replaceable_count(messages) == cut


def test_the_model_is_told_that_it_reads_a_summary() -> None:
    told = summary_message("they talked")

    assert told.role == "user"
    assert told.text.endswith("they talked")
    assert "summary" in told.text
