"""Answers as a person sees them: at a narrow terminal and a wide one, without colours, and resized in the middle."""

from __future__ import annotations

from reenact.terminal import TerminalEmulator
from tests.cli.chat.test_chat import has_colours
from tests.cli.conftest import PROMPT, Chat, ask
from tests.cli.tools import Office

MARKDOWN = """## The plan

First some **bold words** and `code`, in a sentence that is longer than a narrow terminal.

1. Do this, which takes more than one line of thirty columns
2. Then that

```python
print("a line of source that is longer than thirty columns")
```

| What | Count |
|------|------:|
| eggs | 12    |

The end.
"""
SOURCE = 'print("a line of source that is longer than thirty columns")'


def answered(chat: Chat, office: Office, columns: int, **variables: str) -> TerminalEmulator:
    """Return a chat at a terminal of so many columns in which Markdown was the answer."""
    office.api.reply(text=MARKDOWN)
    terminal = chat(**variables)
    terminal.resize(columns, 40)
    ask(terminal, "Go", "end.")
    return terminal


def test_an_answer_at_a_narrow_terminal(chat: Chat, office: Office) -> None:
    terminal = answered(chat, office, 30)

    lines = list(terminal.screen.lines)
    begin = lines.index("The plan")
    assert lines[begin : lines.index("The end.") + 1] == [
        "The plan",
        "",
        "First some bold words and",
        "code, in a sentence that is",
        "longer than a narrow terminal.",
        "",
        "1. Do this, which takes more",
        "   than one line of thirty",
        "   columns",
        "2. Then that",
        "",
        SOURCE[:30],
        SOURCE[30:],
        "",
        "╭──────┬───────╮",
        "│ What │ Count │",
        "├──────┼───────┤",
        "│ eggs │    12 │",
        "╰──────┴───────╯",
        "",
        "The end.",
    ]
    terminal.get_by_text("bold words").expect_style(bold=True)


def test_an_answer_at_a_wide_terminal_has_its_colours(chat: Chat, office: Office) -> None:
    terminal = answered(chat, office, 200)

    terminal.get_by_text("First some bold words and code, in a sentence that is longer than a").expect_visible()
    terminal.get_by_text(SOURCE).expect_visible()
    assert has_colours(terminal)


def test_an_answer_without_colours_is_the_same_in_black_and_white(chat: Chat, office: Office) -> None:
    terminal = answered(chat, office, 80, NO_COLOR="1")

    assert not has_colours(terminal)
    terminal.get_by_text("bold words").expect_style(bold=True)
    terminal.get_by_text("│ eggs │    12 │").expect_visible()


def test_an_answer_at_a_dumb_terminal_is_as_it_came(chat: Chat, office: Office) -> None:
    terminal = answered(chat, office, 80, TERM="dumb")

    assert MARKDOWN.strip() in terminal.get_stripped_output().replace("\r\n", "\n")


def test_no_word_is_lost_when_the_terminal_is_resized_in_the_middle_of_an_answer(chat: Chat, office: Office) -> None:
    words = [f"word{number}" for number in range(120)]
    office.api.reply(deltas=[f"{word} " for word in words], delay=0.01)
    terminal = chat()

    terminal.send_line("Go")
    for number, columns in ((20, 30), (50, 100), (80, 21)):
        terminal.wait_for(f"word{number}")
        terminal.resize(columns, 40)
    terminal.wait_for(words[-1])
    terminal.wait_for(PROMPT)

    written = terminal.get_stripped_output().replace("\r\n", " ").split()
    assert [word for word in written if word.startswith("word")] == words
