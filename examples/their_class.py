"""Property tests of an actor whose state is a class of another library, which reveal what goes wrong with it.

The state of the actor is a `collections.Counter`. It prints:

    careless: evolve changes the state that it is given
    careful: nothing was found in 25 examples
"""

from collections import Counter

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test

from reenact import Event, EventSourcedActor
from reenact.testing import ReplayMachine


class Voted(Event, frozen=True):
    choice: str


class Careless(EventSourcedActor[Counter[str], str, Voted]):
    category = "poll"
    initial = Counter[str]()
    events = {"voted": Voted}

    @staticmethod
    def decide(votes: Counter[str], choice: str) -> list[Voted]:
        return [Voted(choice)] if votes[choice] < 3 else []

    @staticmethod
    def evolve(votes: Counter[str], event: Voted) -> Counter[str]:
        votes.update([event.choice])  # as one does with a Counter, but the state before is the one that it was
        return votes

    def reply(self, command: str, events: object) -> int:
        return self.state[command]


class Careful(Careless):
    initial = Counter[str]()  # its own: the other one has changed that of its class

    @staticmethod
    def evolve(votes: Counter[str], event: Voted) -> Counter[str]:
        return votes + Counter([event.choice])


class PollMachine(ReplayMachine):
    """Sends votes for few choices, so that they collide, and checks the replies against a simpler model."""

    actor = Careless
    commands = st.sampled_from(["tea", "coffee"])

    def answered(self, id: str, command: str, reply: int) -> None:  # noqa: A002 - its name there
        assert 1 <= reply <= 3


class CarefulMachine(PollMachine):
    actor = Careful


def tried(machine: type[ReplayMachine], examples: int) -> str:
    once = settings(max_examples=examples, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    try:
        run_state_machine_as_test(machine, settings=once)
    except AssertionError as found:
        return str(found).partition(", in")[0]
    return f"nothing was found in {examples} examples"


if __name__ == "__main__":
    print("careless:", tried(PollMachine, 25))
    print("careful:", tried(CarefulMachine, 25))
