"""The package: its types and its table are those of the schemas, and TypeScript takes what it says of itself."""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path

import pytest

from reenact.events import REQUESTS
from tests.docs import typescript
from tests.docs.test_generated import HOW
from tests.docs.typescript import CLIENT, COMPILER, SOURCE, TYPES, compiled
from tests.house.test_operations import method

DECLARATIONS = CLIENT / "reenact.d.ts"
USE = """
import { connect, ReenactError, type Notification, type SessionInfo } from "@reenact/client";

const client = await connect("http://127.0.0.1:8000", { token: "secret", clientId: "ada" });
const session: SessionInfo = await client.sessions.create({ container_id: "c", image_id: "i" }, { timeout: 1000 });
const none: null | SessionInfo = await client.request("session_get_request", { session_id: session.id });
for await (const event of client.subscribe(session.id, { after: 0 })) {
  if (event.type === "text_delta") event.data.text.toUpperCase();
}
for await (const event of client.listen({ types: ["turn_completed"] })) tell(event);
function tell(event: Notification): void {
  if (client.failure instanceof ReenactError && client.failure.code === "unreachable") console.log(event.context, none);
}
"""
MISUSES = {
    'await client.sessions.create({ container_id: "c" });': "image_id",
    'await client.request("session_fly_request", {});': "session_fly_request",
    'for await (const event of client.subscribe("s")) event.data.text;': "text",
    'client.listen({ types: ["turn_finished"] });': "turn_finished",
    "const text: string = await client.containers.list();": "string",
}

needs_compiler = pytest.mark.skipif(
    not COMPILER.exists(), reason="there is no TypeScript: `make typescript` installs it"
)


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A directory in which a program can import the package."""
    (tmp_path / "node_modules" / "@reenact").mkdir(parents=True)
    (tmp_path / "node_modules" / "@reenact" / "client").symlink_to(CLIENT)
    return tmp_path


def test_its_types_are_those_of_the_schemas() -> None:
    assert TYPES.read_text(encoding="utf-8") == typescript.types(), HOW


def test_its_table_is_that_of_the_operations() -> None:
    source = SOURCE.read_text(encoding="utf-8")

    assert source == typescript.with_operations(source), HOW


@pytest.mark.parametrize("name", REQUESTS)
def test_its_methods_have_the_names_that_they_have_in_python(name: str) -> None:
    facade, _, called = method(name)
    group, own = typescript.operation(name)

    assert (group, own.lower()) == (facade.__name__.lower(), called.replace("_", ""))


def test_it_is_not_published_and_has_the_version_of_the_server_and_no_dependencies() -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))

    assert package["private"] is True
    assert package["version"] == version("reenact")
    assert not any("ependencies" in key for key in package)
    assert {*package["files"]} <= {path.name for path in CLIENT.iterdir()}


@needs_compiler
def test_the_client_is_what_its_declarations_say() -> None:
    assert compiled(CLIENT) == ""


@needs_compiler
def test_a_client_that_is_not_what_its_declarations_say_is_refused(tmp_path: Path) -> None:
    for path in (SOURCE, DECLARATIONS, TYPES):
        (tmp_path / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    other = SOURCE.read_text(encoding="utf-8")
    for name in ("listen", "ack"):
        other = other.replace(f"  {name}(", f"  {name}Other(")
    (tmp_path / SOURCE.name).write_text(other, encoding="utf-8")

    told = compiled(tmp_path, tmp_path / SOURCE.name)

    assert "Property 'listen' is missing in type 'Client'" in told
    assert "Property 'ack' is missing in type 'Subscription'" in told


@needs_compiler
def test_a_program_that_uses_it_is_strict_typescript_and_misuses_are_found(installed: Path) -> None:
    begin = USE[: USE.index("const session")]
    (installed / "use.mts").write_text(USE)
    for number, line in enumerate(MISUSES):
        (installed / f"misuse_{number}.mts").write_text(begin + line)

    told = compiled(installed, *installed.glob("*.mts")).splitlines()

    assert [line for line in told if "misuse" not in line and not line.startswith(" ")] == []
    for number, expected in enumerate(MISUSES.values()):
        assert any(f"misuse_{number}.mts" in line and expected in line for line in told), (expected, told)
