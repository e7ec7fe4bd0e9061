"""Whatever an environment said, its recording says again: the same events in the same order, but for ids and times."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from reenact.testing import MockEvent, RecordedEnvironment
from tests.environment.recorded.stage import Step, Turn, call, entries_of, mock_of, play, text
from tests.examples import examples

WORDS = st.sampled_from(("Yes", " no", "你好", "\n", "a\u2028b", '"'))
"""Few, so that the same is said in several places; some that JSON writes in a way of its own."""


def thought(words: str, signature: str | None) -> tuple[MockEvent, ...]:
    end = MockEvent("thinking_end", data={"signature": signature})
    return (MockEvent("thinking_start"), MockEvent("thinking_delta", data={"text": words}), end)


def said(words: str) -> tuple[MockEvent, ...]:
    return (text(words),)


def used(tokens: int) -> tuple[MockEvent, ...]:
    return (MockEvent("message_delta", data={"usage": {"output_tokens": tokens}}),)


def asking(before: Sequence[MockEvent], calls: Sequence[MockEvent]) -> Step:
    return Step((*before, *calls), "tool_use")


def steps(before: Sequence[Step], last: Step) -> tuple[Step, ...]:
    return (*before, last)


PIECES = st.one_of(
    WORDS.map(said),
    st.builds(thought, WORDS, st.sampled_from((None, "sealed"))),
    st.integers(0, 9).map(used),
    st.just((MockEvent("message_start", data={"model": "mock-1", "message_id": "msg_same"}),)),
    st.just((MockEvent("tool_result", data={"result": [1, None, 2.5]}),)),
)
SAID = st.lists(PIECES, max_size=4).map(lambda pieces: tuple(one for piece in pieces for one in piece))
CALLS = st.lists(st.builds(call, st.sampled_from(("echo", "fail", "nowhere")), text=WORDS), min_size=1, max_size=3)
ASKING = st.builds(asking, SAID, CALLS)
LAST = st.builds(
    Step,
    SAID,
    st.sampled_from(("end_turn", "end_turn", "max_tokens", "refusal", "pause_turn", "error", "hold", "hang")),
)
TURNS = st.lists(
    st.builds(
        Turn,
        st.integers(0, 1),
        st.sampled_from(("Hello", "And now?")),
        st.builds(steps, st.lists(ASKING, max_size=2), LAST),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=TURNS)
def test_a_replay_is_heard_as_what_was_recorded_and_recorded_the_same_again(turns: list[Turn]) -> None:
    for ending in {turn.ending for turn in turns}:
        event(ending)
    with tempfile.TemporaryDirectory() as directory:
        first, second = Path(directory, "first.json"), Path(directory, "second.json")

        recorded = play(RecordedEnvironment.record(first, mock_of(turns)), turns)
        replay = RecordedEnvironment.replay(first)
        replayed = play(RecordedEnvironment.record(second, replay), turns)

        assert replayed == recorded
        assert entries_of(second) == entries_of(first)
        assert replay.remaining == 0


@settings(max_examples=examples(20), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(turns=TURNS)
def test_recording_changes_nothing_that_is_heard(turns: list[Turn]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        alone = play(mock_of(turns), turns)

        recorded = play(RecordedEnvironment.record(Path(directory, "it.json"), mock_of(turns)), turns)

        assert [sorted(map(repr, one)) for one in recorded] == [sorted(map(repr, one)) for one in alone]
