"""The picture of the chat in the README: a chat as it looks. `python -m tests.docs.picture` draws it anew."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

import msgspec

import reenact
from reenact.terminal import Cell, Screen, TerminalEmulator
from reenact.terminal.screen.drawing import svg
from reenact.testing import FakeMessagesAPI, FakeReply
from tests.started.programs import Programs, starting_programs

PICTURE: Final = Path(__file__).resolve().parent.parent.parent / "docs" / "chat.svg"
COLUMNS: Final = 92
ROWS: Final = 36
_PATIENCE: Final = 60.0
_ID: Final = re.compile(r"(?<=ses_)[0-9a-z]{26}")
_AN_ID: Final = "01k6r0t3e8vd5mzq4xw2yh9n7c"
_QUESTION: Final = "Run it? [y]es, [n]o, [a]lways, [e]dit, [q]uit the turn:"
_TOOLS: Final = '''
from reenact import tool


@tool
def look_at(bed: str) -> dict[str, str]:
    """Look at what is in a bed."""
    return {"moisture": "18 %", "sun since": "9 hours"}


@tool(intervention="required")
def water(bed: str, liters: int) -> str:
    """Water a bed."""
    return f"{liters} liters in 4 minutes"
'''
_ANSWER: Final = """\
## The tomatoes were thirsty

Their soil had **18 %** of water left, and the sun was on them for nine hours. Now:

- 12 liters are in the ground, which is enough until *Thursday*
- the hose is off, and `water` asks you before it runs again

```python
@tool(intervention="required")
def water(bed: str, liters: int) -> str:
    ...
```
"""


def picture(programs: Programs, directory: Path) -> str:
    """Return the picture of a chat that takes place in this directory: always the same."""
    return svg(_the_same(_last_screen(programs, directory)))


def _last_screen(programs: Programs, directory: Path) -> Screen:
    (directory / "garden.py").write_text(_TOOLS, encoding="utf-8")
    arguments = ["--tools", "garden.py", "--model", "claude-sonnet-5"]
    with FakeMessagesAPI() as api:
        api.script(
            [
                FakeReply(text=None, tools=[("look_at", {"bed": "tomatoes"})], stop_reason="tool_use"),
                _call("toolu_2", "water", {"bed": "tomatoes", "liters": 12}),
                FakeReply(text=_ANSWER),
            ]
        )
        environ = {
            "ANTHROPIC_API_KEY": "sk-ant-of-nobody",
            "ANTHROPIC_BASE_URL": api.url,
            "HOME": str(directory),
            "PYTHONPATH": str(Path(reenact.__file__).parent.parent),
        }
        with TerminalEmulator(
            "reenact",
            arguments,
            env=environ,
            cwd=directory,
            cols=COLUMNS,
            rows=ROWS,
            timeout=_PATIENCE,
            spawner=programs.at_terminal,
        ) as terminal:
            _talk(terminal)
            return terminal.screen


def _talk(terminal: TerminalEmulator) -> None:
    _wait_for(terminal, ">")
    terminal.send_line("Do the tomatoes need water? Then give them some.")
    terminal.wait_for("Run it?")
    _wait_for(terminal, _QUESTION)
    terminal.send_line("y")
    terminal.wait_for("...")
    _wait_for(terminal, ">")
    terminal.write("/")
    terminal.wait_for("/branch")
    _wait_for(terminal, "> /")


def _wait_for(terminal: TerminalEmulator, typed: str) -> None:
    """Wait until this, and nothing else, stands in the row of the cursor, which is behind it."""

    def stands_there(screen: Screen) -> bool:
        row, column = screen.cursor.row, screen.cursor.column
        return screen.lines[row] == typed and column in {len(typed), len(typed) + 1}

    terminal.wait_until(stands_there, what=repr(typed))


def _call(call_id: str, name: str, arguments: dict[str, object]) -> FakeReply:
    block = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    return FakeReply(content=[block], stop_reason="tool_use")


def _the_same(screen: Screen) -> Screen:
    """Return the screen with a title, and with an id that is the same each time."""
    cells = tuple(map(_with_an_id, screen.cells))
    return msgspec.structs.replace(screen, cells=cells, title="A chat with an agent that looks after a garden")


def _with_an_id(row: tuple[Cell, ...]) -> tuple[Cell, ...]:
    found = _ID.search("".join(cell.text for cell in row))
    if found is None:
        return row
    letters = iter(_AN_ID)
    there = range(*found.span())
    return tuple(
        msgspec.structs.replace(cell, text=next(letters)) if place in there else cell for place, cell in enumerate(row)
    )


def main() -> None:
    """Draw the picture anew."""
    with starting_programs() as programs, tempfile.TemporaryDirectory() as directory:
        PICTURE.write_text(picture(programs, Path(directory)), encoding="utf-8")


if __name__ == "__main__":
    main()
