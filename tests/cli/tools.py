"""Tools for agents on the command line, and what the model asks of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from reenact.testing import FakeMessagesAPI

Arguments: TypeAlias = dict[str, Any]
MAIL = ("send_mail", {"to": "ann@example.org", "body": "Hello"})
BOB = ("send_mail", {"to": "bob@example.org", "body": "Hi"})
WEATHER = ("get_weather", {"city": "Rome"})
TOOLS = '''
from pathlib import Path

from reenact import ask_user, tool


@tool(intervention="required")
def send_mail(to: str, body: str = "") -> str:
    """Send a mail."""
    print("a tool may print")
    with Path("sent.txt").open("a") as sent:
        sent.write(f"{to}: {body}\\n")
    return f"sent to {to}"


@tool
def get_weather(city: str) -> dict[str, str]:
    """Tell what the weather is like."""
    return {"city": city, "sky": "clear"}


@tool
def read_lines(count: int) -> str:
    """Return so many lines."""
    return "\\n".join(f"line {number}" for number in range(1, count + 1))


@tool
def fail() -> str:
    """Fail."""
    raise FileNotFoundError("no such file")
'''


GUARDS = """
from reenact import GuardInput, Guards, guard

@guard
def calm(about: GuardInput) -> str | None:
    return "do not shout" if about.text.isupper() else None

guards = Guards(message=("calm",))
"""

FRIENDS = """
class Friend:
    name = "friend"

    def provide(self):
        return self

    def send_message(self, *, on_event, **question):
        on_event({"type": "text_delta", "data": {"text": "Hello from a friend"}})
        on_event({"type": "message_stop"})

    def interrupt(self):
        pass
"""
"""A module with a provider."""


@dataclass(frozen=True)
class Office:
    """An agent that can send mail: its model, its tools, and what it has sent."""

    api: FakeMessagesAPI
    directory: Path

    @property
    def tools(self) -> tuple[str, str]:
        """The options that hand in the tools."""
        (self.directory / "tools.py").write_text(TOOLS, encoding="utf-8")
        return ("--tools", "tools.py")

    def model_asks_for(self, *calls: tuple[str, Arguments], text: str | None = None, delay: float = 0.0) -> None:
        """Let the model ask for these calls the next time."""
        content: list[Arguments] = [] if text is None else [{"type": "text", "text": text}]
        for number, (name, arguments) in enumerate(calls, start=1):
            content.append({"type": "tool_use", "id": f"toolu_fake_{number}", "name": name, "input": arguments})
        self.api.reply(content=content, stop_reason="tool_use", delay=delay)

    def model_asks_person(self, prompt: str, options: list[str] | None = None, *, multi: bool = False) -> None:
        """Let the model ask the person the next time."""
        arguments: Arguments = {"prompt": prompt}
        if options is not None:
            arguments |= {"options": options, "multi": multi}
        self.model_asks_for(("ask_user", arguments))

    @property
    def results(self) -> list[Arguments]:
        """The results that the model was last given."""
        content = self.api.requests[-1].body["messages"][-1]["content"]
        return [block for block in content if block["type"] == "tool_result"]

    @property
    def sent(self) -> str:
        """What was sent by mail."""
        path = self.directory / "sent.txt"
        return path.read_text() if path.exists() else ""
