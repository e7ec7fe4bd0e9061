"""The conversation about the weather, from the question to the answer, with a person and a restart in between."""

from __future__ import annotations

from tests.cli.conftest import Chat, Run, ask, leave, logged
from tests.cli.tools import Office

QUESTION = "Run it?"
POLICY = '{"tools": {"get_weather": {"mode": "required"}}}'


def test_the_weather_is_asked_for_approved_after_a_restart_and_told(chat: Chat, office: Office, run: Run) -> None:
    office.model_asks_for(("get_weather", {"city": "Beijing"}), text="I need to look at the weather.")
    (office.directory / "policy.json").write_text(POLICY)
    first = chat(*office.tools, "--policy", "policy.json")
    first.send_line("What's the weather in Beijing?")
    first.wait_for(QUESTION)
    first.kill()
    first.wait_for_exit()
    office.api.reply(text="It is 25°C and sunny in Beijing.")

    again = chat("--continue", *office.tools, until=QUESTION)
    ask(again, "y", "25°C and sunny")
    leave(again)

    assert 'city: "Beijing"' in again.get_stripped_output()
    (result,) = office.results
    assert (result["content"], result["is_error"]) == ('{"city":"Beijing","sky":"clear"}', False)
    turns = [event["data"]["outcome"] for event in logged(run, "turn_completed")]
    assert turns == ["waiting", "completed"]
    assert len(office.api.requests) == 2
