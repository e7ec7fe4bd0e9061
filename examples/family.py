"""An agent with children and a budget: an editor asks two researchers, one of which never finishes.

It prints:

    the editor says: They eat leaves. | The agent was ended by a limit (budget_exceeded) after 3 steps
    What do okapis eat? The model was asked 2 times
    What do unicorns eat? The model was asked 3 times
    the editor's own was asked 2 times
"""

from collections.abc import Iterator, Sequence

from reenact import Budget, Image, Runtime, Said, agent_tool, tool
from reenact.testing import MockEnvironmentFactory, MockEvent

BOOKS = {"okapis": "leaves"}


@tool
def read(animal: str) -> str:
    """Return what an animal eats, according to the books."""
    return BOOKS.get(animal, "nothing found, look again")


def call(name: str, **arguments: str) -> MockEvent:
    return MockEvent("tool_call", data={"name": name, "input": arguments})


def model(conversation: Sequence[Said]) -> Iterator[MockEvent]:
    """Play the editor and the researchers, in the place of a model."""
    question = next(said.text for said in reversed(conversation) if said.text)
    results = conversation[-1].tool_results
    if question.startswith("Write"):
        if not results:
            yield call("researcher", prompt="What do okapis eat?")
            yield call("researcher", prompt="What do unicorns eat?")
        else:
            yield MockEvent("text_delta", data={"text": " | ".join(str(result.content) for result in results)})
            yield MockEvent("message_stop")
            return
    elif results and "nothing" not in str(results[0].content):
        yield MockEvent("text_delta", data={"text": f"They eat {results[0].content}."})
        yield MockEvent("message_stop")
        return
    else:
        yield call("read", animal=question.split()[2])
    yield MockEvent("message_stop", data={"stop_reason": "tool_use"})


def asked(runtime: Runtime, session_id: str) -> int:
    return sum(spent.calls for spent in runtime.sessions.usage(session_id).models.values())


if __name__ == "__main__":
    mock = MockEnvironmentFactory(delays=False)
    mock.define_scenario("desk", model)
    mock.set_scenario("desk")
    with Runtime.open("family.db", environment=mock, tools=[read]) as runtime:
        runtime.images.register(Image(id="researcher", system_prompt="You find out.", tools=(read,)))
        finds_out = agent_tool("researcher", description="Finds out what is asked.", budget=Budget(steps=3))
        answer = runtime.ask("Write about what animals eat.", image=Image(id="editor", tools=(finds_out,)))
        questions: dict[str, int] = {}
        print("the editor says:", answer.text.partition(";")[0])
        for child in runtime.sessions.list(parent=answer.session_id):
            questions[next(iter(runtime.sessions.messages(child.id))).text] = asked(runtime, child.id)
        for question, times in sorted(questions.items()):
            print(question, "The model was asked", times, "times")
        print("the editor's own was asked", asked(runtime, answer.session_id), "times")
