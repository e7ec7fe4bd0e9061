"""A collector is sent spans and metrics whose names and attributes are those of the conventions."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from reenact import Image, Runtime
from reenact.testing import MockEnvironmentFactory, wait_until
from reenact.tracing import Tracing
from tests.tracing.conftest import TOOLS
from tests.tracing.receiver import Receiver, attributes

COMMON = {"gen_ai.conversation.id", "session.id", "openinference.span.kind", "gen_ai.agent.name", "reenact.position"}
USAGE = {"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "gen_ai.usage.cache_read.input_tokens"}
MODEL = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.finish_reasons"}
SPANS: Mapping[str, tuple[int, set[str]]] = {
    "invoke_agent clerk": (
        Span.SPAN_KIND_INTERNAL,
        COMMON
        | MODEL
        | USAGE
        | {"gen_ai.agent.id", "gen_ai.agent.version", "gen_ai.output.type", "reenact.turn.outcome", "reenact.turn.id"},
    ),
    "chat claude-clerk": (
        Span.SPAN_KIND_CLIENT,
        COMMON
        | MODEL
        | USAGE
        | {"gen_ai.response.id", "gen_ai.response.model", "gen_ai.request.max_tokens", "gen_ai.request.stream"},
    ),
    "execute_tool find": (
        Span.SPAN_KIND_INTERNAL,
        COMMON
        | {
            "gen_ai.operation.name",
            "gen_ai.tool.name",
            "gen_ai.tool.type",
            "gen_ai.tool.call.id",
            "gen_ai.tool.description",
        },
    ),
    "execute_tool mail": (
        Span.SPAN_KIND_INTERNAL,
        COMMON | {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.tool.call.id"},
    ),
    "approval mail": (
        Span.SPAN_KIND_INTERNAL,
        COMMON
        | {
            "gen_ai.tool.name",
            "reenact.approval.kind",
            "reenact.approval.decision",
            "reenact.approval.by",
            "reenact.approval.waited_s",
        },
    ),
}
"""The spans of the history below: the kind of each, and the attributes that it must have."""
OF_CONTENT = {
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
    "gen_ai.tool.definitions",
    "gen_ai.tool.call.arguments",
    "gen_ai.tool.call.result",
}
OF_CHATS = {"gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model"}
POWERS_OF_2 = [0.01 * 2**power for power in range(14)]
METRICS: Mapping[str, tuple[str, set[str], list[float]]] = {
    "gen_ai.client.operation.duration": ("s", OF_CHATS, POWERS_OF_2),
    "gen_ai.client.operation.time_to_first_chunk": ("s", OF_CHATS, POWERS_OF_2),
    "gen_ai.client.token.usage": ("{token}", OF_CHATS | {"gen_ai.token.type"}, [4.0**power for power in range(14)]),
    "gen_ai.invoke_agent.duration": (
        "s",
        {"gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model"},
        [0.1 * 2**power for power in range(13)],
    ),
    "gen_ai.execute_tool.duration": (
        "s",
        {"gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name"},
        POWERS_OF_2,
    ),
}
"""The metrics of that history: the unit, the attributes and the bounds of each."""


@pytest.fixture(params=["bare", "content"])
def traced(request: pytest.FixtureRequest, log: str, mock: MockEnvironmentFactory, receiver: Receiver) -> str:
    """Have a history sent in which everything happens, with content or bare."""
    image = Image(id="clerk", model="claude-clerk", system_prompt="Be kind", max_tokens=500, tools=TOOLS)
    with Runtime.open(log, environment=mock, default_image=image, synchronous="OFF") as runtime:
        Tracing(runtime, endpoint=receiver.url, metrics=True, content=request.param == "content")
        runtime.ask("Find plums")
        (pending,) = runtime.ask("Write to Ann").pending
        runtime.agents.approve(pending, by="bob")
        wait_until(lambda: receiver.names().count("invoke_agent clerk") == 3)
    return str(request.param)


def test_spans_have_the_names_kinds_and_attributes_of_the_conventions(traced: str, receiver: Receiver) -> None:
    spans = receiver.spans()

    assert {span.name for span in spans} == SPANS.keys()
    for span in spans:
        kind, required = SPANS[span.name]
        found = attributes(span.attributes)
        assert span.kind == kind
        assert required - found.keys() == set(), span.name
        assert bool(found.keys() & OF_CONTENT) == (traced == "content" and span.name != "approval mail")
        assert len(span.trace_id) == 16
        assert len(span.span_id) == 8
        assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano


def test_operations_and_kinds_are_what_consumers_look_for(traced: str, receiver: Receiver) -> None:
    found = {span.name: attributes(span.attributes) for span in receiver.spans()}

    assert {name: (of.get("gen_ai.operation.name"), of["openinference.span.kind"]) for name, of in found.items()} == {
        "invoke_agent clerk": ("invoke_agent", "AGENT"),
        "chat claude-clerk": ("chat", "LLM"),
        "execute_tool find": ("execute_tool", "TOOL"),
        "execute_tool mail": ("execute_tool", "TOOL"),
        "approval mail": (None, "CHAIN"),
    }


def test_the_resource_is_the_log(traced: str, receiver: Receiver) -> None:
    resources = [attributes(one.resource.attributes) for request in receiver.traces for one in request.resource_spans]
    scopes = [
        scope.scope.name for request in receiver.traces for one in request.resource_spans for scope in one.scope_spans
    ]

    assert {str(resource["service.name"]) for resource in resources} == {"reenact"}
    assert len({resource["service.instance.id"] for resource in resources}) == 1
    assert set(scopes) == {"reenact"}


def test_metrics_have_the_names_attributes_and_bounds_of_the_conventions(traced: str, receiver: Receiver) -> None:
    metrics = receiver.last_metrics()

    assert metrics.keys() == METRICS.keys()
    for name, (unit, required, bounds) in METRICS.items():
        metric = metrics[name]
        assert metric.unit == unit
        assert metric.histogram.aggregation_temporality == AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE
        for point in metric.histogram.data_points:
            assert attributes(point.attributes).keys() == required
            assert list(point.explicit_bounds) == pytest.approx(bounds)
            assert sum(point.bucket_counts) == point.count > 0
            assert 0 < point.start_time_unix_nano < point.time_unix_nano


def test_metrics_sum_up_what_the_spans_say(traced: str, receiver: Receiver) -> None:
    chats = [attributes(span.attributes) for span in receiver.spans() if span.name.startswith("chat")]
    usage = receiver.last_metrics()["gen_ai.client.token.usage"].histogram.data_points

    sums = {str(attributes(point.attributes)["gen_ai.token.type"]): point for point in usage}

    assert {kind: (point.count, point.sum) for kind, point in sums.items()} == {
        "input": (4, 240.0 * 4),
        "output": (4, 8.0 * 4),
    }
    assert len(chats) == 4
    assert list(sums["output"].bucket_counts)[2] == 4  # from 4 to 16
