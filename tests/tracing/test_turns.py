"""Each turn is a trace of its own; what has ended in it is a span, whose times and ids the log has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given

from reenact.domain.image import Definition
from reenact.domain.loop.events import ToolResult
from reenact.domain.messages import TextBlock, ToolUseBlock
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.rules import Policy
from reenact.domain.session.agent import (
    Failure,
    ReceivedAnswer,
    TurnCompleted,
    TurnContinued,
    TurnInterrupted,
    TurnStarted,
)
from reenact.domain.tools import ToolSpec
from reenact.tracing.log_spans import LogSpans
from reenact.tracing.spans import Span
from tests.projections.audited import AuditedList, played
from tests.projections.histories import RULES, Step, World, steps

SEARCH = ToolUseBlock("t1", "search", {"q": "plums"})
SEND = ToolUseBlock("t2", "send", {"to": "ann"})
ASK = ToolUseBlock("t3", "ask_user", {"prompt": "Sure?"})
DONE = ReceivedAnswer(
    message_id="done",
    content=(TextBlock("Here you are"),),
    stop_reason="end_turn",
    usage={"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 7},
    model="claude-small-1",
)
NOTHING = ReceivedAnswer()


@pytest.fixture
def log() -> AuditedList:
    return AuditedList()


@pytest.fixture
def world(log: AuditedList) -> World:
    """A session with an agent that was asked something."""
    world = World(log)
    tools = (ToolSpec(name="search", description="Looks things up."),)
    world.register_image("i", Definition(name="finder", model="claude-small", max_tokens=99, tools=tools))
    world.create("a")
    world.run("a")
    world.say("a", "Find plums")
    return world


def spans_of(log: AuditedList, *, content: bool = False) -> list[Span]:
    return list(LogSpans(log, content=content).of(log.rows))


def named(spans: Sequence[Span], name: str) -> Span:
    (found,) = (span for span in spans if span.name == name)
    return found


def linked(span: Span) -> list[tuple[object, object]]:
    return [(link.attributes["reenact.link"], link.context) for link in span.links]


def test_a_turn_has_a_span_and_each_question_to_the_model_and_each_call_one_below_it(
    world: World, log: AuditedList
) -> None:
    world.ask("a", SEARCH)
    world.report("a")
    world.answer("a", DONE)

    spans = spans_of(log)

    turn = named(spans, "invoke_agent finder")
    assert [span.name for span in spans] == [
        "chat claude-small",
        "execute_tool search",
        "chat claude-small",
        "invoke_agent finder",
    ]
    assert turn.parent is None
    assert {span.parent for span in spans if span is not turn} == {turn.context}
    assert {span.context.trace_id for span in spans} == {turn.context.trace_id}
    assert len({span.context.span_id for span in spans}) == 4


def test_spans_begin_and_end_when_the_log_says(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH)
    world.report("a")
    world.answer("a", DONE)

    times = {type(row.event).__name__: row.recorded_at for row in log.rows}
    spans = spans_of(log)

    assert named(spans, "execute_tool search").start == times["ToolStarted"]
    assert named(spans, "execute_tool search").end == times["ToolResult"]
    assert (spans[2].start, spans[2].end) == (times["StepStarted"], times["AnswerRecorded"])
    assert (spans[3].start, spans[3].end) == (times["TurnStarted"], times["TurnCompleted"])


def test_the_input_tokens_are_all_of_them_cached_or_not(world: World, log: AuditedList) -> None:
    world.answer("a", DONE)

    chat = named(spans_of(log), "chat claude-small").attributes

    assert chat["gen_ai.usage.input_tokens"] == 117
    assert chat["gen_ai.usage.output_tokens"] == 5
    assert chat["gen_ai.usage.cache_read.input_tokens"] == 100
    assert chat["gen_ai.usage.cache_write.input_tokens"] == chat["gen_ai.usage.cache_creation.input_tokens"] == 7
    assert chat["gen_ai.provider.name"] == "anthropic"
    assert chat["gen_ai.response.model"] == "claude-small-1"
    assert chat["gen_ai.request.max_tokens"] == 99


def test_the_time_to_the_first_delta_is_that_of_the_log(world: World, log: AuditedList) -> None:
    world.answer("a", msgspec.structs.replace(DONE, first_delta=0.25))

    assert named(spans_of(log), "chat claude-small").attributes["gen_ai.response.time_to_first_chunk"] == 0.25


def test_the_cost_has_an_attribute_of_our_own(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH, usage={"input_tokens": 1000, "output_tokens": 100})
    world.report("a")
    world.answer("a", DONE)

    costs = [span.attributes.get("reenact.cost") for span in spans_of(log)]

    assert costs == [pytest.approx(0.00451), 0.1, None, pytest.approx(0.10451)]


def test_a_turn_that_waits_for_a_person_is_cut_and_linked_by_the_next(world: World, log: AuditedList) -> None:
    world.ask("a", SEND)
    world.approve("a")
    world.report("a")
    world.answer("a", DONE)

    spans = spans_of(log)

    first, second = (span for span in spans if span.kind == "invoke_agent")
    wait = named(spans, "approval send")
    assert first.attributes["reenact.turn.outcome"] == "waiting"
    assert first.links == ()
    assert second.context.trace_id != first.context.trace_id
    assert (second.parent, linked(second)) == (None, [("waited", first.context)])
    assert (wait.parent, wait.context.trace_id) == (first.context, first.context.trace_id)
    assert wait.attributes["reenact.approval.decision"] == "approved"
    assert wait.attributes["reenact.approval.by"] == "ann"
    assert wait.attributes["reenact.approval.waited_s"] == wait.seconds > 0
    assert named(spans, "execute_tool send").parent == second.context


def test_a_change_of_the_arguments_is_part_of_the_approval(world: World, log: AuditedList) -> None:
    world.ask("a", SEND)
    world.approve("a", arguments={"to": "bob"})
    world.report("a")

    spans = spans_of(log, content=True)

    assert named(spans, "approval send").attributes["reenact.approval.edited"] is True
    assert named(spans, "execute_tool send").attributes["gen_ai.tool.call.arguments"] == '{"to":"bob"}'


def test_a_call_that_a_person_rejects_has_not_run(world: World, log: AuditedList) -> None:
    world.ask("a", SEND)
    world.reject("a")

    spans = spans_of(log)

    call = named(spans, "execute_tool send")
    assert named(spans, "approval send").attributes["reenact.approval.decision"] == "rejected"
    assert (call.error, call.attributes["reenact.tool.ran"], call.seconds) == ("rejected", False, 0.0)


def test_a_call_that_the_policies_forbid_was_denied(world: World, log: AuditedList) -> None:
    world.rules = msgspec.structs.replace(world.rules, policies=Policies(deny=("search",)))
    world.ask("a", SEARCH)

    assert named(spans_of(log), "execute_tool search").error == "denied"


def test_a_question_to_a_person_is_a_wait_and_the_answer_the_result_of_the_call(world: World, log: AuditedList) -> None:
    world.ask("a", ASK)
    world.respond("a", "yes")

    spans = spans_of(log, content=True)

    asked, call = named(spans, "question ask_user"), named(spans, "execute_tool ask_user")
    assert asked.attributes["reenact.approval.decision"] == "answered"
    assert (call.error, call.attributes["gen_ai.tool.call.result"]) == (None, "yes")


def test_what_waits_when_the_turn_is_interrupted_is_withdrawn(world: World, log: AuditedList) -> None:
    world.ask("a", SEND)
    world.interrupt("a", NOTHING)

    spans = spans_of(log)

    assert named(spans, "approval send").attributes["reenact.approval.decision"] == "withdrawn"
    assert named(spans, "execute_tool send").error == "not_run"
    assert named(spans, "execute_tool send").parent == named(spans, "invoke_agent finder").context


def test_a_tool_that_fails_is_an_error_of_its_span_alone(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH)
    world.report("a", is_error=True)
    world.answer("a", DONE)

    spans = spans_of(log)

    assert {span.name: span.error for span in spans} == {
        "chat claude-small": None,
        "execute_tool search": "tool_error",
        "invoke_agent finder": None,
    }


def test_a_turn_that_fails_says_why_its_model_gave_no_answer(world: World, log: AuditedList) -> None:
    world.answer("a", ReceivedAnswer(failure=Failure("overloaded_error", "a secret of the API")))

    for content in (False, True):
        chat, turn = spans_of(log, content=content)
        assert (chat.error, turn.error) == ("overloaded_error", "overloaded_error")
        assert (chat.message, turn.message) == (("a secret of the API",) * 2 if content else (None, None))


def test_an_answer_that_was_interrupted_is_there_in_part_and_no_error(world: World, log: AuditedList) -> None:
    world.interrupt("a", ReceivedAnswer(message_id="m", content=(TextBlock("He"),), model="claude-small-1"))

    chat, turn = spans_of(log)

    assert (chat.error, chat.attributes["reenact.partial"]) == (None, True)
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("interrupted",)
    assert turn.attributes["reenact.turn.outcome"] == "interrupted"


def test_a_crash_is_an_error_of_the_turn(world: World, log: AuditedList) -> None:
    world.interrupt("a", NOTHING)
    log.rows[:] = [
        msgspec.structs.replace(row, event=TurnInterrupted(row.event.turn_id, "crash"))
        if isinstance(row.event, TurnInterrupted)
        else row
        for row in log.rows
    ]

    chat, turn = spans_of(log)

    assert (chat.error, turn.error) == ("crash", "crash")


def test_a_model_that_was_not_asked_since_all_is_spent_has_no_span(world: World, log: AuditedList) -> None:
    world.rules = RULES["y"]
    world.answer("a", DONE)
    world.rules = msgspec.structs.replace(RULES["x"], cost_limit=RULES["y"].cost_limit, costs={"search": 1.0})
    world.say("a")
    world.ask("a", SEARCH)
    world.report("a")
    before = len(spans_of(log))
    world.say("a")

    (turn,) = spans_of(log)[before:]

    assert turn.name == "invoke_agent finder"
    assert turn.attributes["reenact.turn.stop_reason"] == "cost_limit_exceeded"


def test_a_summary_is_a_question_to_the_model_of_its_own(world: World, log: AuditedList) -> None:
    world.answer("a", DONE)
    world.say("a")
    world.answer("a", DONE)
    before = len(spans_of(log))
    world.say("a")
    world.compress("a", {"input_tokens": 50, "output_tokens": 2})
    world.answer("a", DONE)

    summary, chat, turn = spans_of(log, content=True)[before:]

    assert summary.attributes["reenact.compression"] is True
    assert summary.attributes["gen_ai.usage.input_tokens"] == 50
    assert (summary.start, summary.end) == (turn.start, chat.start)
    assert chat.attributes["gen_ai.conversation.compacted"] is True
    assert len({summary.context, chat.context, turn.context}) == 3


def test_a_branch_has_its_own_turns_only_and_says_where_they_branch_off(world: World, log: AuditedList) -> None:
    world.answer("a", DONE)
    world.say("a")  # which is under way at the branch
    world.branch("a", "b")
    world.run("b")
    world.say("b")
    world.answer("b", DONE)
    world.answer("a", DONE)

    spans = spans_of(log)

    by_session = Counter(span.attributes["session.id"] for span in spans if span.kind == "invoke_agent")
    (own,) = (span for span in spans if span.kind == "invoke_agent" and span.attributes["session.id"] == "b")
    last = [span for span in spans if span.attributes["session.id"] == "a"][-1]
    assert by_session == {"a": 2, "b": 1}
    assert linked(own) == [("branched", last.context)]
    assert own.links[0].attributes["reenact.branch.origin"] == "a"


def test_what_waits_in_a_branch_too_is_told_of_by_each_in_traces_of_its_own(world: World, log: AuditedList) -> None:
    world.ask("a", SEND)
    world.branch("a", "b")
    world.run("b")
    world.approve("b")
    world.report("b")
    world.approve("a")

    spans = spans_of(log)

    first = next(span for span in spans if span.kind == "invoke_agent")
    of_branch, of_origin = (span for span in spans if span.name == "approval send")
    assert of_origin.parent == first.context
    assert (of_branch.parent, linked(of_branch)) == (None, [("waited", first.context)])
    assert of_branch.context.trace_id not in {span.context.trace_id for span in spans if span is not of_branch}
    (call,) = (span for span in spans if span.name == "execute_tool send")
    assert call.attributes["session.id"] == "b"


def test_a_call_that_nobody_knows_the_end_of_is_lost_when_a_person_is_asked(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH)
    world.rules = msgspec.structs.replace(world.rules, policies=Policies(tools={"search": Policy("required")}))
    world.resume("a")
    world.approve("a")
    world.report("a")

    lost, found = (span for span in spans_of(log) if span.name == "execute_tool search")

    assert (lost.error, found.error) == ("lost", None)
    assert lost.context.trace_id != found.context.trace_id


def test_a_call_that_runs_again_after_a_crash_is_one_span(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH)
    world.resume("a")
    world.report("a")

    call = named(spans_of(log), "execute_tool search")

    assert call.attributes["reenact.tool.attempts"] == 2
    assert call.error is None


def test_content_is_there_only_if_it_is_wanted(world: World, log: AuditedList) -> None:
    world.ask("a", SEARCH)
    world.report("a", result="three plums")
    world.answer("a", DONE)

    bare, whole = (msgspec.json.encode(spans_of(log, content=content)).decode() for content in (False, True))

    for text in ("Find plums", "plums", "three plums", "Here you are"):
        assert text not in bare
        assert text in whole
    _, call, chat, turn = spans_of(log, content=True)
    assert call.attributes["gen_ai.tool.call.arguments"] == '{"q":"plums"}'
    assert call.attributes["gen_ai.tool.call.result"] == "three plums"
    assert msgspec.json.decode(str(chat.attributes["gen_ai.input.messages"])) == [
        {"role": "user", "parts": [{"type": "text", "content": "Find plums"}]},
        {
            "role": "assistant",
            "parts": [{"type": "tool_call", "id": "t1", "name": "search", "arguments": {"q": "plums"}}],
        },
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "three plums"}]},
    ]
    assert msgspec.json.decode(str(turn.attributes["gen_ai.output.messages"])) == [
        {"role": "assistant", "parts": [{"type": "text", "content": "Here you are"}], "finish_reason": "end_turn"}
    ]


@given(steps)
def test_whatever_happens_each_turn_and_each_call_has_one_span_with_an_id_of_its_own(done: Sequence[Step]) -> None:
    log = log_of(done)

    spans = spans_of(log)

    begun = {(row.stream, row.event.turn_id) for row in log.rows if isinstance(row.event, TurnStarted | TurnContinued)}
    ended = [row for row in log.rows if isinstance(row.event, TurnCompleted)]
    own = [row for row in ended if (row.stream, getattr(row.event, "turn_id", None)) in begun]
    results = [row for row in log.rows if isinstance(row.event, ToolResult)]
    kinds = Counter(span.kind for span in spans)
    assert kinds["invoke_agent"] == len(own)
    assert sum(span.kind == "execute_tool" and span.error != "lost" for span in spans) == len(results)
    assert len({span.context.span_id for span in spans}) == len(spans)
    assert all(span.start <= span.end for span in spans)
    roots = {span.context for span in spans if span.parent is None}
    for span in spans:
        if span.parent is not None and span.parent not in roots:  # its turn has not ended yet
            assert any(row.stream == f"session/{span.attributes['session.id']}" for row in log.rows)
            assert len(own) < len(begun)


@given(steps)
def test_wherever_one_begins_again_the_spans_are_those_that_there_would_have_been(done: Sequence[Step]) -> None:
    log = log_of(done)
    once = LogSpans(log, content=True)
    whole = [list(once.of([row])) for row in log.rows]

    for cut in range(1, len(log.rows), 7):
        after = LogSpans(log, content=True)
        assert [list(after.of([row])) for row in log.rows[cut:]] == whole[cut:]


def log_of(done: Sequence[Step]) -> AuditedList:
    log = played(done).log
    assert isinstance(log, AuditedList)
    return log
