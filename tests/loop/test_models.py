"""Models are called in any way they can be called, and what they say adds up."""

# What agents are made of is anybody's, and here it is lambdas mostly.
# pyright: reportUnknownLambdaType=none, reportUnknownArgumentType=none, reportUnknownVariableType=none
# pyright: reportUnknownMemberType=none

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from reenact.loop import CallLLM, Price
from tests.loop.support import Play, Scripted, a_call, streaming

CHUNKS = [{"content": "Hel"}, {"content": "lo"}]


async def yields_later(payload: Any) -> AsyncIterator[Any]:  # noqa: ANN401
    for chunk in CHUNKS:
        yield chunk


def yields(payload: Any) -> Iterator[Any]:  # noqa: ANN401
    yield from CHUNKS


def returns_a_stream(payload: Any) -> Any:  # noqa: ANN401
    return yields_later(payload)


async def returns_a_stream_later(payload: Any) -> Any:  # noqa: ANN401
    return yields_later(payload)


def returns_a_list(payload: Any) -> Any:  # noqa: ANN401
    return CHUNKS


class Stream:
    """Iterates asynchronously, and cannot be closed."""

    def __init__(self) -> None:
        self._chunks = iter(CHUNKS)

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> dict[str, str]:
        try:
            return next(self._chunks)
        except StopIteration:
            raise StopAsyncIteration from None


@pytest.mark.parametrize(
    "model",
    [yields_later, yields, returns_a_stream, returns_a_stream_later, returns_a_list, lambda payload: Stream()],
)
def test_a_model_may_answer_in_any_way(model: Any) -> None:  # noqa: ANN401
    play = Play(Scripted([CallLLM()]), {"model_runtime": model})

    play.step()

    assert play.kinds == ["llm_start", "llm_stream", "llm_stream", "llm_result"]
    assert play.events[-1].result == {"content": "Hello", "tool_calls": []}


def test_a_model_may_answer_at_once() -> None:
    play = Play(Scripted([CallLLM()]), {"model_runtime": lambda payload: {"content": "Hello"}})

    play.step()

    assert play.kinds == ["llm_start", "llm_stream", "llm_result"]


def test_the_model_is_given_the_payload_itself() -> None:
    given: list[object] = []
    payload = {"messages": [], "client": object()}

    def model(payload: object) -> list[object]:
        given.append(payload)
        return []

    play = Play(Scripted([CallLLM(payload)]), {"model_runtime": model})
    play.step()

    assert given[0] is payload
    assert play.event.payload == {"messages": [], "client": "<builtins.object>"}


def test_the_agents_model_comes_before_the_configurations() -> None:
    agent = Scripted([CallLLM()], model_runtime=streaming({"content": "mine"}))
    play = Play(agent, {"model_runtime": streaming({"content": "yours"})})

    play.step()

    assert play.events[-1].result["content"] == "mine"


def test_a_model_that_fails_keeps_its_message_and_its_exception() -> None:
    failure = ConnectionError("the line is dead")
    play = Play(Scripted([CallLLM()]), {"model_runtime": streaming({"content": "Hel"}, failure)})

    play.step()

    assert play.kinds == ["error"]
    assert play.error == "ConnectionError: the line is dead"
    assert play.event.error.exception is failure
    assert play.state.error == play.event.error


def test_what_a_failed_model_used_is_paid_for() -> None:
    chunks = [{"content": "Hel", "usage": {"input_tokens": 500_000}}, ConnectionError("dead")]
    play = Play(
        Scripted([CallLLM({"model": "m"})]), {"model_runtime": streaming(*chunks), "prices": {"m": Price(2, 1)}}
    )

    play.step()

    assert (play.kinds, play.error) == (["error"], "ConnectionError: dead")
    assert (play.state.cost, play.state.usage) == (1.0, {"input_tokens": 500_000})


@pytest.mark.parametrize("chunk", [5, None, "Hello", {"content": 5}, {"tool_calls": 5}, {"usage": 5}, {"x": object()}])
def test_what_is_no_chunk_is_an_error(chunk: object) -> None:
    play = Play(Scripted([CallLLM()]), {"model_runtime": streaming(chunk)})

    play.step()

    assert play.kinds == ["error"]
    assert play.error.startswith("InvalidChunkError: ")


def test_an_answer_becomes_a_message_if_that_is_wanted() -> None:
    model = streaming({"content": "Look"}, {"tool_calls": [a_call()]})
    play = Play(Scripted([CallLLM()]), {"model_runtime": model, "append_assistant_message": True})

    play.step()

    assert play.state.messages == [{"role": "assistant", "content": "Look", "tool_calls": [a_call()]}]


def test_an_answer_becomes_no_message_by_itself() -> None:
    play = Play(Scripted([CallLLM()]), {"model_runtime": streaming({"content": "Look"})})

    play.step()

    assert play.state.messages == []


def test_usage_and_cost_are_kept_by_model_and_by_tool() -> None:
    class Priced:
        cost = 0.5

        def __call__(self, arguments: object) -> None:
            """Do nothing, at a price."""

    usage = {"input_tokens": 1_000_000, "output_tokens": 100_000}
    agent = Scripted(
        [
            CallLLM({"model": "m"}),
            CallLLM({"model": "free"}),
            {"type": "call_tools_batch", "tool_calls": [a_call("a", "priced"), a_call("b", "plain")]},
        ],
        tools={"priced": Priced(), "plain": lambda _: None},
    )
    play = Play(agent, {"model_runtime": streaming({"usage": usage}), "prices": {"m": Price(3, 15)}})

    for _ in range(3):
        play.step()

    spent = play.state.ledger
    assert play.state.usage == {"input_tokens": 2_000_000, "output_tokens": 200_000}
    assert play.state.cost == 5.0
    assert (spent.models["m"].cost, spent.models["m"].unpriced, spent.models["m"].usage) == (4.5, 0, usage)
    assert (spent.models["free"].cost, spent.models["free"].unpriced) == (0.0, 1)
    assert (spent.tools["priced"].cost, spent.tools["plain"].unpriced) == (0.5, 1)


def test_a_model_that_names_itself_is_believed() -> None:
    model = streaming({"model": "m-1", "usage": {"input_tokens": 5}})
    play = Play(Scripted([CallLLM({"model": "m"})]), {"model_runtime": model})

    play.step()

    assert set(play.state.ledger.models) == {"m-1"}
