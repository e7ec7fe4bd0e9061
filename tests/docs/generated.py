"""What stands in the documentation but is made from the code. `python -m tests.docs.generated` writes it anew."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from reenact.events import CATALOGUE, REQUESTS, RESPONSES, EventData, json_schema
from reenact.projections.transfer.lines import schema as lines_schema
from reenact.server.answers import frames_schema
from reenact.testing import CrashPoint
from tests.docs import names, requirements, typescript
from tests.docs.failures import with_failures

ROOT = Path(__file__).resolve().parent.parent.parent
CATALOGUE_PAGE = ROOT / "docs" / "events.md"
RECOVERY_PAGE = ROOT / "docs" / "recovery.md"
FAILURES_PAGE = ROOT / "docs" / "exit-codes.md"
SCHEMA_FILE = ROOT / "docs" / "schema" / "events.json"
FRAMES_FILE = ROOT / "docs" / "schema" / "frames.json"
EXPORT_FILE = ROOT / "docs" / "schema" / "export.json"
BEGIN, END = "<!-- catalogue -->\n", "<!-- /catalogue -->\n"


def main() -> None:
    """Write the tables into their pages, the schemas into their files, and what the client has of them into its."""
    CATALOGUE_PAGE.write_text(with_catalogue(CATALOGUE_PAGE.read_text()))
    RECOVERY_PAGE.write_text(with_crash_points(RECOVERY_PAGE.read_text()))
    FAILURES_PAGE.write_text(with_failures(FAILURES_PAGE.read_text()))
    SCHEMA_FILE.write_text(schema())
    FRAMES_FILE.write_text(frames())
    EXPORT_FILE.write_text(export())
    requirements.PAGE.write_text(requirements.page())
    names.PAGE.write_text(names.page())
    typescript.write()


def schema() -> str:
    """Return the JSON Schema of all events, as a file holds it."""
    return json.dumps(json_schema(), indent=1, sort_keys=True) + "\n"


def frames() -> str:
    """Return the JSON Schema of all frames of the protocol, as a file holds it."""
    return json.dumps(frames_schema(), indent=1, sort_keys=True) + "\n"


def export() -> str:
    """Return the JSON Schema of the lines of an export, as a file holds it."""
    return json.dumps(lines_schema(), indent=1, sort_keys=True) + "\n"


def with_catalogue(page: str) -> str:
    """Return the page with the tables as they ought to be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{catalogue()}{END}{after}"


def catalogue() -> str:
    """Return the tables of all types: those that notify, then the requests."""
    commands = {*REQUESTS.values(), *RESPONSES.values()}
    notifications = ((name, kind) for name, kind in CATALOGUE.items() if kind not in commands)
    return (
        "\n"
        + _table(("type", "category", "data", "says"), (_notification(*one) for one in notifications))
        + "\nEvery request may bring a `request_id` of its own, and has a response: `session_run_request` has\n"
        "`session_run_response`, with `request_id`, `result?` and `error?`.\n\n"
        + _table(("request", "data", "asks to"), (_request(*one) for one in REQUESTS.items()))
        + "\n"
    )


def with_crash_points(page: str) -> str:
    """Return the page with the table of the points at which a process may be killed."""
    begin, end = "<!-- points -->\n", "<!-- /points -->\n"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    rows = ((f"`{point.name}`", point.ends, point.durable, point.promised) for point in CrashPoint)
    table = _table(("point", "", "durable then", "promised"), rows)
    return f"{before}{begin}\n{table}\n{end}{after}"


def _notification(name: str, kind: type[EventData]) -> tuple[str, ...]:
    return f"`{name}`", kind.category, _fields(kind), _promise(kind)


def _request(name: str, kind: type[EventData]) -> tuple[str, ...]:
    promise = _promise(kind)
    return f"`{name}`", _fields(kind), promise[0].lower() + promise[1:].rstrip(".")


def _fields(kind: type[EventData]) -> str:
    fields = (field for field in msgspec.structs.fields(kind) if field.encode_name != "request_id")
    return ", ".join(f"`{field.encode_name}{'' if field.required else '?'}`" for field in fields)


def _promise(kind: type[EventData]) -> str:
    return inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0].replace("\n", " ")


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    main()
