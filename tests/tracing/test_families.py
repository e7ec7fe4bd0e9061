"""The turn of a child session is a part of the call that it is, in the same trace."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reenact import Runtime
from reenact._location import location_of
from reenact._runtime import codec
from reenact.testing import wait_until
from reenact.tracing.log_spans import LogSpans
from reenact.tracing.spans import Span
from tests.runtime.families import Plan, factory, furnish, send

NESTED: Plan = [[("agent", [[("agent", ["deep"])], "middle"])], "top"]
ASIDE: Plan = [[("aside", ["later"])], "top"]
SENDS: Plan = [[("agent", [[("send", {"to": "ann"})], "sent"])], "done"]


def spans_of(log: Path, plan: Plan, *, at_once: int = 10_000) -> list[Span]:
    """Return the spans of a log in which the plan was followed, read so many events at a time by one who forgets."""
    with Runtime.open(log, environment=factory(), synchronous="OFF") as runtime:
        furnish(runtime)
        with runtime.events.stream("root") as events:
            runtime.ask(json.dumps(plan), session="root", timeout=60)
            for call in runtime.agents.pending(session_id="root"):
                runtime.agents.approve(call)
            turns = 1 if plan is NESTED else 2
            while turns:
                event = events.next(60)
                assert event is not None
                turns -= event.type == "turn_completed"
    return spans_in(log, at_once)


def spans_in(log: Path, at_once: int) -> list[Span]:
    """Return the spans of the log."""
    with location_of(log).open(codec(), read_only=True) as journal:
        making, found, after = LogSpans(journal, content=False), list[Span](), 0
        while rows := journal.read_all(after=after, limit=at_once):
            found += making.of(rows)
            making.forget()
            after = rows[-1].position
        return found


@pytest.mark.parametrize("at_once", [1, 3, 10_000])
def test_the_turn_of_a_child_is_within_the_call_of_its_parent(tmp_path: Path, at_once: int) -> None:
    spans = spans_of(tmp_path / "log.db", NESTED, at_once=at_once)

    by_context = {span.context: span for span in spans}
    assert len({span.context.trace_id for span in spans}) == 1
    deepest = next(span for span in spans if span.kind == "invoke_agent")
    path = [deepest]
    while (parent := path[-1].parent) is not None:
        path.append(by_context[parent])
        assert path[-1].start <= path[-2].start <= path[-2].end <= path[-1].end
    assert [span.kind for span in path] == [
        *("invoke_agent", "execute_tool", "invoke_agent", "execute_tool", "invoke_agent")
    ]
    assert not [span for span in spans if span.error]


def test_a_detached_child_has_a_trace_of_its_own_with_a_link_to_the_call(tmp_path: Path) -> None:
    spans = spans_of(tmp_path / "log.db", ASIDE)

    call = next(span for span in spans if span.kind == "execute_tool")
    (child,) = (span for span in spans if any(link.context == call.context for link in span.links))
    assert (child.kind, child.parent) == ("invoke_agent", None)
    assert child.context.trace_id != call.context.trace_id


def test_a_call_that_waits_in_a_child_is_not_lost(tmp_path: Path) -> None:
    spans = spans_of(tmp_path / "log.db", SENDS)

    assert not [span for span in spans if span.error]
    assert [span.name for span in spans if span.kind == "execute_tool"] == [
        *("execute_tool agent", "execute_tool send", "execute_tool agent")
    ]


@pytest.mark.parametrize("at_once", [1, 10_000])
def test_a_branch_of_a_child_has_spans_of_its_own(tmp_path: Path, at_once: int) -> None:
    with Runtime.open(tmp_path / "log.db", environment=factory(), synchronous="OFF", tools=[send]) as runtime:
        furnish(runtime)
        runtime.ask(json.dumps(SENDS), session="root", timeout=60)
        runtime.sessions.branch("root", new_session_id="b")
        runtime.agents.approve(runtime.agents.pending()[-1])
        wait_until(lambda: runtime.sessions.messages("b")[-1].text == "done", 60, "it goes on")

    spans = spans_in(tmp_path / "log.db", at_once)

    assert len({span.context for span in spans}) == len(spans)
    assert not [span for span in spans if span.error]
    assert [span.name for span in spans if span.kind == "execute_tool"].count("execute_tool send") == 1
