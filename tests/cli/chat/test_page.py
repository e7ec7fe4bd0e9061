"""Where a person reads an answer: its text, what the model thinks, its calls, and why it is not whole."""

from __future__ import annotations

import io
import logging
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from rich.console import Console as Screen

from reenact.cli.chat.conversation import Decision
from reenact.cli.chat.page import Page
from reenact.cli.output.answers import unasked
from reenact.cli.output.console import Console
from reenact.cli.output.failures import INTERRUPTED, Problem
from reenact.cli.output.logs import TerminalLock
from reenact.domain.children import NO_BUDGET, ChildOutcome
from reenact.domain.loop.events import AskedCall
from reenact.domain.session.people import PendingCall
from reenact.domain.session.turns import MAX_STEPS
from reenact.domain.stream.events import (
    ChildEnded,
    ChildStarted,
    Context,
    ContextCompressed,
    Envelope,
    EventData,
    HumanApproveRequired,
    MessageDelta,
    MessageStart,
    TextDelta,
    ThinkingDelta,
    ThinkingEnd,
    ToolCall,
    ToolEdited,
    ToolResult,
    ToolStarted,
    Warned,
)
from reenact.terminal import Screen as Seen
from reenact.testing import wait_until
from tests.cli.chat.test_person import MAIL
from tests.cli.render.kit import plain, screen_of, style_of

KEY = "sk-ant-this-is-a-secret"


class Terminal(io.StringIO):
    """A terminal in memory, or a file."""

    def __init__(self, *, is_terminal: bool = True) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


@dataclass
class Shown:
    """A page, and what is seen of it."""

    page: Page
    out: Terminal
    err: Terminal

    def show(self, *events: EventData, of: str = "s") -> None:
        """Let the page hear of events, of its own session or of one below."""
        for event in events:
            context = Context(session_id=of)
            now = datetime.now(UTC)
            envelope = Envelope(
                id="e", type="t", timestamp=now, source="agent", category="stream", intent="notification",
                context=context, data=event,
            )  # fmt: skip
            self.page.on_event(envelope, is_own=of == "s")

    @property
    def text(self) -> str:
        """All that was shown, without styles."""
        return plain(self.err.getvalue())

    @property
    def screen(self) -> Seen:
        """What stands on the terminal."""
        return screen_of(self.err.getvalue(), 50)


def shown(monkeypatch: pytest.MonkeyPatch, *, file: Terminal | None = None, **variables: str) -> Shown:
    """Return a page on a terminal, or one of which the answers go to a file."""
    err = Terminal()
    out = err if file is None else file
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in {"TERM": "xterm", **variables}.items():
        monkeypatch.setenv(name, value)
    lock = TerminalLock()  # of its own, since not every example ends the page
    for module in ("chat.page", "output.console", "output.logs"):
        monkeypatch.setattr(f"reenact.cli.{module}.TERMINAL_LOCK", lock)
    console = Console({"ANTHROPIC_API_KEY": KEY, "TERM": variables.get("TERM", "xterm")}, in_ci=False)
    screen = Screen(file=err, highlight=False, markup=False, soft_wrap=True, width=50)
    return Shown(Page(console, screen, "s"), out, err)


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Shown:
    """A page on a terminal."""
    return shown(monkeypatch)


def test_an_answer_on_a_terminal_is_rendered(seen: Shown) -> None:
    seen.show(TextDelta(text="This is **bo"), TextDelta(text="ld**."))
    seen.page.end(unasked("s", INTERRUPTED))

    assert seen.text == "This is bold.\nInterrupted.\n\n"
    assert style_of("bold", seen.err.getvalue()).bold


def test_an_answer_in_a_file_is_as_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    file = Terminal(is_terminal=False)
    seen = shown(monkeypatch, file=file, FORCE_COLOR="1")

    seen.show(TextDelta(text="# This is **bo"), TextDelta(text="ld**\n\n| a |\n\x1b[2J"), TextDelta(text="\t- b"))
    seen.page.end(unasked("s", INTERRUPTED))

    assert file.getvalue() == "# This is **bold**\n\n| a |\n[2J\t- b\n"
    assert seen.text == "Interrupted.\n\n"


def test_a_terminal_that_is_dumb_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = shown(monkeypatch, TERM="dumb")

    with seen.page:
        seen.show(TextDelta(text="# This is **bo"), TextDelta(text="ld**"))

    assert seen.err.getvalue() == "# This is **bold**\n"


def test_thoughts_are_dim_and_no_markdown(seen: Shown) -> None:
    seen.show(ThinkingDelta(text="Is it **th"), ThinkingDelta(text="is**?"), ThinkingEnd(), TextDelta(text="It is.\n"))

    assert seen.text == "Is it **this**?\n\nIt is.\n"
    assert style_of("**this**?", seen.err.getvalue()).dim
    assert style_of("**this**?", seen.err.getvalue()).italic


def test_text_thoughts_and_calls_are_set_apart(seen: Shown) -> None:
    seen.show(
        TextDelta(text="I look."),
        ToolCall(id="1", name="look", input={"at": "it"}),
        ToolStarted(id="1", name="look", input={"at": "it"}),
        ToolResult(id="1", name="look", result="a thing\nand more"),
        TextDelta(text="I saw."),
    )
    seen.page.end(unasked("s", INTERRUPTED))

    assert seen.text.split("\n") == [
        "I look.",
        "",
        '→ look(at: "it")',
        "  │ a thing",
        "  │ and more",
        "",
        "I saw.",
        "Interrupted.",
        "",
        "",
    ]


def test_the_name_of_a_call_stands_out(seen: Shown) -> None:
    seen.show(ToolStarted(id="1", name="look", input={"at": "it"}))

    assert style_of("look", seen.err.getvalue()).bold
    assert style_of('(at:"it")', seen.err.getvalue()).dim


def test_of_calls_that_run_at_once_each_result_says_whose_it_is(seen: Shown) -> None:
    seen.show(
        ToolCall(id="1", name="look", input={"at": "one"}),
        ToolCall(id="2", name="look", input={"at": "two"}),
        ToolStarted(id="1", name="look", input={"at": "one"}),
        ToolStarted(id="2", name="look", input={"at": "two"}),
        ToolResult(id="2", name="look", result="second"),
        ToolResult(id="1", name="look", result="first"),
    )

    assert seen.text.split("\n") == [
        '→ look(at: "one")',
        '→ look(at: "two")',
        "  │ second",
        '  look(at: "one")',
        "  │ first",
        "",
    ]


def test_an_error_is_red_and_says_so(seen: Shown) -> None:
    seen.show(ToolCall(id="1", name="f"), ToolResult(id="1", name="f", result="it burns", is_error=True))

    assert "  │ error: it burns\n" in seen.text
    assert style_of("error:", seen.err.getvalue()).foreground == "red"


def test_calls_and_results_fit_on_their_lines(seen: Shown) -> None:
    seen.show(
        ToolCall(id="1", name="f", input={"x": "long " * 50}),
        ToolResult(id="1", name="f", result="long " * 50, is_error=True),
        ToolResult(id="1", name="f", result="again"),
    )

    assert all(len(line) <= 50 for line in seen.text.split("\n"))


def test_a_call_that_a_person_changed_is_shown_as_it_runs(seen: Shown) -> None:
    seen.show(ToolCall(id="1", name="f", input={"x": 1}), ToolEdited(id="1", original={"x": 1}, edited={"x": 2}))
    seen.show(ToolStarted(id="1", name="f", input={"x": 2}), ToolResult(id="1", name="f", result="done"))

    assert seen.text == "→ f(x: 2)\n  │ done\n"


def test_notes_do_not_stand_in_the_middle_of_a_line(seen: Shown) -> None:
    seen.show(
        TextDelta(text="One"),
        Warned(reason="r", message="watch\x1b[2Jout"),
        TextDelta(text="Two"),
        ContextCompressed(summary="s", kept=1),
    )

    assert seen.text == "One\nwatch[2Jout\nTwo\n(What was said earlier was summarised.)\n"


def test_the_key_is_not_shown(seen: Shown) -> None:
    seen.show(
        ToolCall(id="1", name="f", input={"key": KEY}),
        ToolResult(id="1", name="f", result=KEY),
        ToolResult(id="1", name="f", result=KEY),
        Warned(reason="r", message=KEY),
    )
    seen.page.end(unasked("s", Problem(1, "unexpected", f"no {KEY}")))

    assert KEY not in seen.text
    assert seen.text.count("…") == 6


@pytest.mark.parametrize(
    ("problem", "stop_reason", "told"),
    [
        (None, "end_turn", ""),
        (None, MAX_STEPS, "--max-turns"),
        (INTERRUPTED, None, "Interrupted."),
        (Problem(4, "connection_lost", "the line\x1b[2J broke"), None, "the line[2J broke"),
    ],
)
def test_why_an_answer_is_not_whole_is_said_at_its_end(
    seen: Shown, problem: Problem | None, stop_reason: str | None, told: str
) -> None:
    answer = msgspec.structs.replace(unasked("s", INTERRUPTED), problem=problem, stop_reason=stop_reason)

    seen.show(TextDelta(text="Some of it"))
    seen.page.end(answer)

    assert seen.text.startswith("Some of it\n")
    assert told in seen.text
    assert seen.text.endswith("\n\n")


def test_whoever_is_asked_has_a_line_of_their_own(seen: Shown) -> None:
    asked: list[tuple[str, int]] = []

    def decide(pending: Sequence[PendingCall]) -> list[Decision] | None:
        screen = seen.screen
        asked.append((screen.text, screen.cursor.row))
        return None

    with seen.page as page:
        seen.show(TextDelta(text="May I **do"))
        decided = page.pausing_for(decide)([MAIL])

    assert (decided, asked) == (None, [("May I **do", 2)])


def test_whatever_happens_the_line_is_ended_and_the_cursor_is_there(seen: Shown) -> None:
    def interrupted() -> None:
        with seen.page:
            seen.show(TextDelta(text="One\n"))
            wait_until(lambda: "writing" in seen.err.getvalue())
            seen.show(TextDelta(text="Two thr"))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    screen = seen.screen
    assert screen.text == "One\nTwo thr"
    assert (screen.cursor.visible, screen.cursor.column) == (True, 0)


def test_nothing_goes_on_while_a_person_is_asked(seen: Shown) -> None:
    asked: list[Seen] = []

    def decide(pending: Sequence[PendingCall]) -> list[Decision] | None:
        asked.append(seen.screen)
        assert not [thread for thread in threading.enumerate() if thread.name == "reenact-live-line"]
        return None

    with seen.page as page:
        wait_until(lambda: "waiting" in seen.err.getvalue())
        page.pausing_for(decide)([MAIL])
        shows = seen.err.getvalue().count("?25l")
        wait_until(lambda: seen.err.getvalue().count("?25l") > shows, what="the live line again")

    (screen,) = asked
    assert (screen.text, screen.cursor.visible) == ("", True)


def test_a_call_that_a_person_decides_about_is_shown_by_whoever_asks_and_not_again(
    seen: Shown,
) -> None:
    mail = msgspec.structs.replace(MAIL, id="c1~2")
    free, edited = {"at": 1}, {"to": "bob"}

    def decide(pending: Sequence[PendingCall]) -> list[Decision] | None:
        seen.err.write("ASKED\n")
        return None

    with seen.page as page:
        seen.show(ToolCall(id="c1", name=mail.name, input=mail.arguments), ToolCall(id="c2", name="look", input=free))
        seen.show(
            HumanApproveRequired(calls=(AskedCall("c1~2", mail.name, mail.arguments, "d", ""),)),
            ToolStarted(id="c2~2", name="look", input=free),
        )
        seen.show(ToolResult(id="c2~2", name="look", result="it"))
        page.pausing_for(decide)([mail])
        seen.show(ToolEdited(id=mail.id, original=mail.arguments, edited=edited))
        seen.show(ToolStarted(id=mail.id, name=mail.name, input=edited))
        seen.show(ToolResult(id=mail.id, name=mail.name, result="sent"))

    assert seen.screen.text.split("\n") == [
        "→ look(at: 1)",
        "  │ it",
        "",
        "ASKED",
        "  │ sent",
    ]


def test_a_call_that_did_not_run_is_shown_with_its_result(seen: Shown) -> None:
    seen.show(
        ToolCall(id="c1", name="look", input={"at": 1}),
        TextDelta(text="It is denied."),
        ToolResult(id="c1", name="look", result="denied by policy", is_error=True),
    )

    assert seen.text == "It is denied.\n\n→ look(at: 1)\n  │ error: denied by policy\n"


def test_the_live_line_says_who_writes_and_how_much(seen: Shown) -> None:
    with seen.page:
        seen.show(MessageStart(model="claude-x"), TextDelta(text="word " * 8))
        wait_until(lambda: re.search(r"writing \(.*~10 tokens, claude-x\)", seen.err.getvalue()))
        seen.show(MessageDelta(usage={"output_tokens": 25}), TextDelta(text="\nmore"))
        wait_until(lambda: "~26 tokens" in seen.err.getvalue())
        seen.show(MessageStart(model="claude-y"), ThinkingDelta(text="Hm. " * 10))
        wait_until(lambda: re.search(r"thinking \(.*~36 tokens, claude-y\)", seen.err.getvalue()))

    assert "tokens" not in seen.screen.text


def test_what_runs_is_said(seen: Shown) -> None:
    with seen.page:
        seen.show(ToolStarted(id="1", name="f", input={}))
        wait_until(lambda: "running" in seen.err.getvalue())
        seen.show(ToolResult(id="1", name="f", result="x"))
        wait_until(lambda: "waiting" in seen.err.getvalue())

    assert seen.screen.text == "→ f()\n  │ x"


def test_a_call_that_is_named_as_one_of_an_earlier_turn_is_shown_once(seen: Shown) -> None:
    seen.show(ToolCall(id="c1", name="look", input={"at": 1}), ToolCall(id="c2", name="look", input={"at": 2}))
    seen.show(
        ToolStarted(id="c1~2", name="look", input={"at": 1}), ToolStarted(id="c2~2", name="look", input={"at": 2})
    )
    seen.show(ToolResult(id="c2~2", name="look", result="two"), ToolResult(id="c1~2", name="look", result="one"))

    assert seen.text.count("\u2192") == 2
    assert seen.text.splitlines()[2:] == ["  \u2502 two", "  look(at: 1)", "  \u2502 one"]


def test_what_is_logged_stands_between_the_texts_and_never_in_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen = shown(monkeypatch)
    library = logging.getLogger("a.library")

    with Console({}, in_ci=False).logging(tmp_path), seen.page:
        seen.show(TextDelta(text="I will "))
        library.warning("beware")
        logging.getLogger("reenact.tools").warning("tool look has failed", extra={"tool": "look"})
        seen.show(TextDelta(text="look."), ToolStarted(id="c1", name="look", input={}))
        library.warning("again")
        seen.show(ToolResult(id="c1", name="look", result="seen"))

    lines = [line for line in seen.text.replace("\r", "").splitlines() if line]
    assert lines == [
        "I will look.",
        "reenact: warning: beware",
        "\u2192 look()",
        "reenact: warning: again",
        "  look()",
        "  \u2502 seen",
    ]


# Child sessions.


def begun(call_id: str, child_id: str, *, depth: int = 1, detached: bool = False) -> ChildStarted:
    return ChildStarted(
        call_id=call_id, child_id=child_id, image_id="i", image_revision=1, depth=depth, budget=NO_BUDGET,
        detached=detached,
    )  # fmt: skip


def ended(call_id: str, child_id: str, *, tokens: int, outcome: ChildOutcome = "completed") -> ChildEnded:
    return ChildEnded(
        call_id=call_id, child_id=child_id, outcome=outcome, stop_reason="end_turn", steps=1,
        usage={"input_tokens": tokens}, cost=None, version=1, cursor=1, digest="",
    )  # fmt: skip


def ask_agent(seen: Shown, call_id: str, prompt: str) -> None:
    """Let an agent be called, in the child session `child-of-CALL`."""
    seen.show(ToolStarted(id=call_id, name="clerk", input={"prompt": prompt}), begun(call_id, f"child-of-{call_id}"))


def test_a_child_session_is_a_block_below_its_call_and_what_it_says_one_line(seen: Shown) -> None:
    ask_agent(seen, "c1", "Look")
    seen.show(
        MessageStart(model="m"), TextDelta(text="I look."), ToolStarted(id="x", name="see", input={"at": "it"}),
        ToolResult(id="x", name="see", result="a tree"), begun("y", "deep", depth=2), of="child-of-c1",
    )  # fmt: skip
    seen.show(ToolStarted(id="z", name="hear", input={}), of="deep")
    seen.show(ToolStarted(id="z", name="none", input={}), of="nobody's")
    seen.show(ended("c1", "child-of-c1", tokens=1000, outcome="waiting"), ended("c1", "child-of-c1", tokens=234))
    seen.show(ToolResult(id="c1", name="clerk", result="It is\na tree."), TextDelta(text="A tree."))
    seen.page.end(unasked("s", INTERRUPTED))

    assert seen.text.splitlines()[:7] == [
        '→ clerk(prompt: "Look")',
        "  │ session child-of-c1",
        '  │ see(at: "it")',
        "  │   hear()",
        "  │ completed, 2 steps, 1,234 tokens: It is a tre…",
        "",
        "A tree.",
    ]


def test_children_at_work_at_the_same_time_are_told_apart(seen: Shown) -> None:
    ask_agent(seen, "c1", "One")
    ask_agent(seen, "c2", "Two")
    seen.show(ToolStarted(id="x", name="see", input={}), of="child-of-c1")
    seen.show(ToolStarted(id="y", name="hear", input={}), of="child-of-c1")
    seen.show(ended("c2", "child-of-c2", tokens=1), ToolResult(id="c2", name="clerk", result="no", is_error=True))

    assert seen.text.splitlines() == [
        '→ clerk(prompt: "One")',
        "  │ session child-of-c1",
        '→ clerk(prompt: "Two")',
        "  │ session child-of-c2",
        '  clerk(prompt: "One")',
        "  │ see()",
        "  │ hear()",
        '  clerk(prompt: "Two")',
        "  │ completed, 1 step, 1 token: no",
    ]


def test_what_an_agent_says_that_a_person_has_asked_is_shown_once_as_the_answer(
    seen: Shown,
) -> None:
    seen.show(MessageStart(model="@clerk"))
    ask_agent(seen, "c1", "Look")
    seen.show(ended("c1", "child-of-c1", tokens=7), ToolResult(id="c1", name="clerk", result="A tree."))
    seen.show(MessageStart(model="@clerk"), TextDelta(text="A tree."))
    seen.page.end(unasked("s", INTERRUPTED))

    assert "  │ completed, 1 step, 7 tokens\n\nA tree." in seen.text
    assert seen.text.count("A tree.") == 1


def test_a_detached_child_is_a_call_that_is_answered_at_once(seen: Shown) -> None:
    seen.show(ToolStarted(id="c1", name="clerk", input={}), begun("c1", "child", detached=True))
    seen.show(ToolResult(id="c1", name="clerk", result="Session child has started."))
    seen.show(ToolStarted(id="x", name="see", input={}), of="child")
    seen.show(ended("c1", "child", tokens=1))

    assert seen.text.splitlines() == ["→ clerk()", "  │ Session child has started."]


def test_where_nothing_can_be_styled_a_child_is_its_call_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = shown(monkeypatch, TERM="dumb")

    ask_agent(seen, "c1", "Look")
    seen.show(ToolStarted(id="x", name="see", input={}), of="child-of-c1")
    seen.show(ended("c1", "child-of-c1", tokens=7), ToolResult(id="c1", name="clerk", result="A tree."))

    assert len(seen.text.splitlines()) == 2
    assert "completed, 1 step, 7 tokens: A tree." in seen.text
