"""The scenarios that the users confirmed are run, all of them, under the names they confirmed."""

from __future__ import annotations

from types import ModuleType

from tests.features import test_agent, test_container, test_events, test_session

CONFIRMED = {
    test_container: [
        "Create container without name",
        "Create container with name",
        "Get existing container",
        "Get non-existing container",
        "List containers when empty",
        "List multiple containers",
    ],
    test_session: [
        "Create session in container",
        "Create session in non-existing container",
        "Create session with non-existing image",
        "Get existing session",
        "Get non-existing session",
        "List sessions in empty container",
        "List sessions in container with sessions",
        "List sessions only returns sessions from specified container",
        "Delete existing session",
        "Delete non-existing session",
        "Run agent from session",
        "Run non-existing session",
    ],
    test_agent: [
        "Get running agent info",
        "Get non-running agent",
        "List agents when none running",
        "List multiple running agents",
        "Send message to running agent",
        "Send message to non-existing agent",
        "Interrupt running agent",
        "Interrupt non-existing agent",
        "Destroy running agent",
        "Destroy non-existing agent",
    ],
    test_events: [
        "Subscribe to specific event type",
        "Subscribe to multiple event types",
        "Subscribe to all events",
        "Unsubscribe stops receiving events",
        "Multiple subscribers receive same events",
    ],
}


def test_the_thirty_three_confirmed_scenarios_are_collected_under_their_names() -> None:
    collected = {module: _scenarios_of(module) for module in CONFIRMED}

    assert collected == CONFIRMED
    assert sum(len(names) for names in collected.values()) == 33


def _scenarios_of(module: ModuleType) -> list[str]:
    """Return the names of the module's scenarios; each is a test function whose docstring says `FILE: NAME`."""
    tests = [value for name, value in vars(module).items() if name.startswith("test_")]
    return [str(test.__doc__).rpartition(": ")[2] for test in tests]
