"""The histograms of the conventions, summed up over the spans of a log from its beginning."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import msgspec

from reenact.tracing.spans import Span

_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TURN_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6)
_TOKENS: Final = tuple(float(4**power) for power in range(14))


class Instrument(msgspec.Struct, frozen=True):
    """An instrument of the conventions: its unit, its description, and the upper bounds of its buckets."""

    unit: str
    description: str
    bounds: tuple[float, ...]


DURATION: Final = "gen_ai.client.operation.duration"
TOKENS: Final = "gen_ai.client.token.usage"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.client.operation.time_to_first_chunk"
INVOKE_AGENT_DURATION: Final = "gen_ai.invoke_agent.duration"
EXECUTE_TOOL_DURATION: Final = "gen_ai.execute_tool.duration"
INSTRUMENTS: Final[Mapping[str, Instrument]] = {
    DURATION: Instrument("s", "GenAI operation duration.", _SECONDS),
    TOKENS: Instrument("{token}", "Number of input and output tokens used.", _TOKENS),
    TIME_TO_FIRST_CHUNK: Instrument("s", "Time to receive the first chunk.", _SECONDS),
    INVOKE_AGENT_DURATION: Instrument("s", "The end-to-end duration of a single agent invocation.", _TURN_SECONDS),
    EXECUTE_TOOL_DURATION: Instrument("s", "The duration of a single tool execution.", _SECONDS),
}

MOST_SERIES = 2000
"""The most series that are kept; further ones are counted in one with the attribute `otel.metric.overflow`."""

_OF_CHATS = (
    "gen_ai.operation.name",
    "gen_ai.provider.name",
    "gen_ai.request.model",
    "gen_ai.response.model",
)
_OF_TURNS = ("gen_ai.operation.name", "gen_ai.agent.name", "gen_ai.request.model")
_OF_CALLS = ("gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.type", "gen_ai.agent.name")

Labels: TypeAlias = tuple[tuple[str, str], ...]
Series: TypeAlias = tuple[str, Labels]
Measured: TypeAlias = tuple[Series, float]
_OVERFLOW: Final[Labels] = (("otel.metric.overflow", "true"),)


class Distribution(msgspec.Struct, frozen=True):
    """A histogram: the number of values and their sum, the count of each bucket, the least and the greatest value."""

    count: int
    sum: float
    buckets: tuple[int, ...]
    least: float
    most: float


Sums: TypeAlias = Mapping[Series, Distribution]
_DECODE = msgspec.json.Decoder(list[tuple[Series, Distribution]])


def added(sums: Sums, spans: Iterable[Span]) -> Sums:
    """Return the sums with the values of the spans added."""
    new = dict(sums)
    for (name, labels), value in (measured for span in spans for measured in _measured(span)):
        known = (name, labels) in new or len(new) < MOST_SERIES
        series = name, labels if known else _OVERFLOW
        new[series] = _with(new.get(series), value, INSTRUMENTS[name].bounds)
    return new


def as_text(sums: Sums) -> str:
    """Return the sums as text."""
    return msgspec.json.encode(list(sums.items())).decode()


def from_text(text: str) -> Sums:
    """Return the sums from their stored text."""
    return {series: found for series, found in _DECODE.decode(text) if series[0] in INSTRUMENTS}


def _with(found: Distribution | None, value: float, bounds: Sequence[float]) -> Distribution:
    place = bisect_left(bounds, value)  # a bound belongs to the bucket below it
    if found is None:
        found = Distribution(0, 0.0, (0,) * (len(bounds) + 1), value, value)
    buckets = (*found.buckets[:place], found.buckets[place] + 1, *found.buckets[place + 1 :])
    return Distribution(found.count + 1, found.sum + value, buckets, min(found.least, value), max(found.most, value))


def _measured(span: Span) -> Iterator[Measured]:
    match span.kind:
        case "invoke_agent":
            yield (INVOKE_AGENT_DURATION, _labels(span, _OF_TURNS)), span.seconds
        case "execute_tool" if span.attributes.get("reenact.tool.ran"):
            yield (EXECUTE_TOOL_DURATION, _labels(span, _OF_CALLS)), span.seconds
        case "chat":
            labels = _labels(span, _OF_CHATS)
            yield (DURATION, labels), span.seconds
            counted = tuple(label for label in labels if label[0] != "error.type")
            first = span.attributes.get("gen_ai.response.time_to_first_chunk")
            if isinstance(first, float):
                yield (TIME_TO_FIRST_CHUNK, counted), first
            for kind, name in (("input", "gen_ai.usage.input_tokens"), ("output", "gen_ai.usage.output_tokens")):
                tokens = span.attributes.get(name)
                if isinstance(tokens, int):
                    yield (TOKENS, (*counted, ("gen_ai.token.type", kind))), float(tokens)
        case _:
            pass


def _labels(span: Span, of: Sequence[str]) -> Labels:
    found = [(name, str(span.attributes[name])) for name in of if name in span.attributes]
    return (*found, *(() if span.error is None else (("error.type", span.error),)))
