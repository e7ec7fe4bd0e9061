"""Tools for agents on the command line, and what the model asks of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

from reenact.testing import FakeMessagesAPI

Arguments: TypeAlias = dict[str, Any]
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


def write_tools(directory: Path) -> str:
    """Write a file of tools, and return its name."""
    (directory / "tools.py").write_text(TOOLS, encoding="utf-8")
    return "tools.py"


def asks_for(api: FakeMessagesAPI, *calls: tuple[str, Arguments], text: str | None = None, delay: float = 0.0) -> None:
    """Let the model ask for these calls the next time."""
    content: list[Arguments] = [] if text is None else [{"type": "text", "text": text}]
    for number, (name, arguments) in enumerate(calls, start=1):
        content.append({"type": "tool_use", "id": f"toolu_fake_{number}", "name": name, "input": arguments})
    api.reply(content=content, stop_reason="tool_use", delay=delay)


def asks_person(api: FakeMessagesAPI, prompt: str, options: list[str] | None = None, *, multi: bool = False) -> None:
    """Let the model ask the person the next time."""
    arguments: Arguments = {"prompt": prompt}
    if options is not None:
        arguments |= {"options": options, "multi": multi}
    asks_for(api, ("ask_user", arguments))


def results(api: FakeMessagesAPI) -> list[Arguments]:
    """Return the results that the model was last given."""
    content = api.requests[-1].body["messages"][-1]["content"]
    return [block for block in content if block["type"] == "tool_result"]


def sent(directory: Path) -> str:
    """Return what was sent by mail."""
    path = directory / "sent.txt"
    return path.read_text() if path.exists() else ""
