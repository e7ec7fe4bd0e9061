"""Whatever a model, a tool or a person says, a collector can take what it is sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reenact.domain.attachments import Base64Source, ImageBlock
from reenact.domain.image import Definition
from reenact.domain.messages import OpaqueBlock, TextBlock, ThinkingBlock, ToolUseBlock
from reenact.domain.session.agent import ReceivedAnswer
from reenact.tracing import collector as collectors
from reenact.tracing import metrics
from reenact.tracing.collector import Collector
from reenact.tracing.content import LARGEST
from reenact.tracing.log_spans import LogSpans
from reenact.tracing.spans import Context, Span
from tests.jsons import array_at
from tests.projections.audited import AuditedList
from tests.projections.histories import World
from tests.tracing.receiver import Receiver, attributes

HOSTILE = 'a\0b\x1b[2J\u202e\u2028"\\]}{,\U0001f600é'
PICTURE = ImageBlock(Base64Source("image/png", "c2VjcmV0"))


@pytest.fixture
def world() -> World:
    world = World(AuditedList())
    api_tools = ({"type": "web_search_1", "name": "web"},)
    world.register_image("i", Definition(name=HOSTILE, system_prompt=HOSTILE * 50_000, api_tools=api_tools))
    world.create("a")
    world.run("a")
    world.say("a", HOSTILE)
    return world


def sent(world: World, receiver: Receiver) -> dict[str, dict[str, object]]:
    """Have the spans sent with content, and return the attributes of those that have come, by their kinds."""
    log = world.log
    assert isinstance(log, AuditedList)
    spans = list(LogSpans(log, content=True).of(log.rows))
    collector = Collector.at(receiver.url, metrics=True)
    collector.send(spans, metrics.added({}, spans), log.rows[0], 0)
    collector.close()
    assert len(receiver.spans()) == len(spans)
    return {span.name.split()[0]: attributes(span.attributes) for span in receiver.spans()}


def messages(text: object) -> object:
    return msgspec.json.decode(str(text))


def test_any_text_arrives_and_lists_of_messages_stay_json(world: World, receiver: Receiver) -> None:
    world.ask("a", ToolUseBlock("t1", HOSTILE, {HOSTILE: [HOSTILE, None]}))
    world.report("a", "t1", {HOSTILE: HOSTILE})
    said = (ThinkingBlock(HOSTILE), TextBlock(HOSTILE), PICTURE, OpaqueBlock({"type": HOSTILE, "data": "sealed"}))
    world.answer("a", ReceivedAnswer(message_id=HOSTILE, content=said, stop_reason=HOSTILE, model=HOSTILE, usage={}))

    found = sent(world, receiver)

    assert all(nul not in str(value) for of in found.values() for value in of.values() for nul in ("\0", "\\u0000"))
    answer = messages(found["invoke_agent"]["gen_ai.output.messages"])
    assert [one["type"] for one in array_at(answer, 0, "parts")] == [
        "reasoning",
        "text",
        "image",
        "opaque",
    ]
    assert "c2VjcmV0" not in str(found)
    assert "sealed" not in str(found)
    assert messages(found["chat"]["gen_ai.input.messages"])
    assert str(found["execute_tool"]["gen_ai.tool.name"]).startswith("a\ufffdb")
    assert messages(found["invoke_agent"]["gen_ai.tool.definitions"]) == [{"type": "web_search_1", "name": "web"}]


def test_numbers_that_are_none_are_left_out(world: World, receiver: Receiver) -> None:
    usage = {"input_tokens": 1 << 70, "output_tokens": -1, "cache_read_input_tokens": True}
    world.answer("a", ReceivedAnswer(message_id="m", content=(TextBlock("x"),), stop_reason="end_turn", usage=usage))

    found = sent(world, receiver)

    assert [name for name in found["chat"] if "tokens" in name] == []


def test_long_content_is_bounded_and_long_names_are_cut(world: World, receiver: Receiver) -> None:
    long = "x" * (2 * LARGEST)
    for number in range(15):
        call = ToolUseBlock(f"t{number}", long, {str(key): "y" * 19_000 for key in range(20)})
        world.ask("a", call)
        world.report("a", f"t{number}", long)

    found = sent(world, receiver)

    for of in found.values():
        assert max(len(str(value)) for value in of.values()) < LARGEST + 1000
    assert max(len(span.name) for span in receiver.spans()) <= 200
    assert "characters left out" in str(found["execute_tool"]["gen_ai.tool.call.arguments"])
    assert "characters left out" in str(found["execute_tool"]["gen_ai.tool.call.result"])
    assert messages(found["chat"]["gen_ai.input.messages"])


def span(text: str = "", **told: str) -> Span:
    return Span(
        name="chat",
        kind="chat",
        context=Context(1, 2),
        parent=None,
        start=0,
        end=1,
        attributes={"gen_ai.operation.name": "chat", "text": text, **told},
    )


class Counting(SpanExporter):
    """How many spans it was given at once."""

    def __init__(self) -> None:
        self.counts: list[int] = []

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.counts.append(len(spans))
        return SpanExportResult.SUCCESS


def test_no_more_is_sent_at_once_than_a_collector_takes(world: World) -> None:
    exporter = Counting()
    row = world.log.rows[0]
    collector = Collector(exporter)

    collector.send([span()] * 1100, {}, row, 0)
    collector.send([span("x" * 900_000)] * 5, {}, row, 0)
    collector.send([span("x" * 2 * collectors.MOST_TEXT)] * 2, {}, row, 0)
    collector.send([], {}, row, 0)

    assert exporter.counts == [512, 512, 76, 2, 2, 1, 1, 1]
    assert collector.sent == 1107


def test_a_span_of_one_that_failed_has_the_class_of_the_error_and_no_more(world: World) -> None:
    exporter = InMemorySpanExporter()
    failed = msgspec.structs.replace(span(), error="overloaded_error")

    Collector(exporter).send([failed], {}, world.log.rows[0], 0)

    (found,) = exporter.get_finished_spans()
    assert isinstance(found, ReadableSpan)
    assert (found.status.is_ok, found.status.description) == (False, None)
    assert (found.attributes or {})["error.type"] == "overloaded_error"


def test_series_without_end_are_counted_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_SERIES", 10)

    sums = metrics.added({}, [span(**{"gen_ai.response.model": f"model-{number}"}) for number in range(50)])

    assert len(sums) == 11
    assert sums[(metrics.DURATION, (("otel.metric.overflow", "true"),))].count == 40
    assert metrics.from_text(metrics.as_text(sums)) == sums


def test_a_bound_is_in_the_bucket_below_it() -> None:
    (distribution,) = metrics.added({}, [msgspec.structs.replace(span(), end=10_000)]).values()

    assert distribution.buckets[0] == 1
    assert (distribution.least, distribution.most) == (0.01, 0.01)
