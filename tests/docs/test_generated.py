"""What the documentation says of the catalogue is what the code has, and what is heard fits the published schema."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator, FormatChecker, ValidationError

from reenact import Image, Runtime, SessionNotFoundError
from reenact.audit import export_log
from reenact.events import CATALOGUE, Envelope
from reenact.testing import MockEnvironmentFactory
from tests.cli.failures.table import ROWS
from tests.docs import names, requirements
from tests.docs.failures import types, with_failures
from tests.docs.generated import (
    CATALOGUE_PAGE,
    EXPORT_FILE,
    FAILURES_PAGE,
    FRAMES_FILE,
    RECOVERY_PAGE,
    SCHEMA_FILE,
    export,
    frames,
    schema,
    with_catalogue,
    with_crash_points,
)
from tests.docs.pages import PAGES
from tests.jsons import at
from tests.logs import log_at

HOW = "make it anew: .venv/bin/python -m tests.docs.generated"


@pytest.fixture(scope="module")
def check() -> Callable[[object], None]:
    """What raises `ValidationError` for what the published schema does not describe."""
    document: dict[str, Any] = json.loads(SCHEMA_FILE.read_text())
    Draft202012Validator.check_schema(document)
    validator = Draft202012Validator(document, format_checker=FormatChecker())

    def validate(event: object) -> None:
        validator.validate(event)  # pyright: ignore[reportUnknownMemberType] - its stubs leave a parameter open

    return validate


def test_the_schema_in_the_documentation_is_that_of_the_code() -> None:
    assert SCHEMA_FILE.read_text() == schema(), HOW


def test_the_schema_of_frames_in_the_documentation_is_that_of_the_code() -> None:
    assert FRAMES_FILE.read_text() == frames(), HOW


def test_the_schema_of_exports_in_the_documentation_is_that_of_the_code() -> None:
    assert EXPORT_FILE.read_text() == export(), HOW


def test_every_line_of_an_export_fits_the_schema_in_the_documentation(tmp_path: Path) -> None:
    document: dict[str, Any] = json.loads(EXPORT_FILE.read_text())
    Draft202012Validator.check_schema(document)
    validator = Draft202012Validator(document, format_checker=FormatChecker())
    with Runtime.open(log_at(tmp_path / "log.db"), environment=MockEnvironmentFactory(delays=False)) as runtime:
        runtime.images.register(Image(id="chat"))
        runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
    export_log(tmp_path / "log.db", tmp_path / "log.jsonl")

    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]

    assert {line["type"] for line in lines} == {"header", "row", "end"}
    for line in lines:
        validator.validate(line)  # pyright: ignore[reportUnknownMemberType] - as above
        with pytest.raises(ValidationError):
            validator.validate({**line, "more": 1})  # pyright: ignore[reportUnknownMemberType] - as above


def test_the_catalogue_in_the_documentation_is_that_of_the_code() -> None:
    page = CATALOGUE_PAGE.read_text()

    assert page == with_catalogue(page), HOW


def test_the_catalogue_in_the_documentation_names_every_type() -> None:
    page = CATALOGUE_PAGE.read_text()

    unnamed = [name for name in CATALOGUE if f"| `{name}` |" not in page and not name.endswith("_response")]

    assert unnamed == []


def test_the_crash_points_in_the_documentation_are_those_of_the_kit() -> None:
    page = RECOVERY_PAGE.read_text()

    assert page == with_crash_points(page), HOW


def test_the_failures_in_the_documentation_are_those_that_tests_show() -> None:
    page = FAILURES_PAGE.read_text()

    assert page == with_failures(page), HOW


def test_the_documentation_names_the_type_of_every_failure_that_is_shown() -> None:
    shown = {row.type for row in ROWS} - {None}

    assert shown - types() == {"something_new"}


def test_the_tests_that_the_documentation_names_are_those_that_there_are() -> None:
    assert requirements.PAGE.read_text() == requirements.page(), HOW


def test_the_names_that_the_documentation_lists_are_those_that_there_are() -> None:
    assert names.PAGE.read_text() == names.page(), HOW


@pytest.mark.parametrize("module", names.MODULES)
def test_every_public_name_stands_on_a_page(module: str) -> None:
    written = set(re.findall(r"\w+", "".join(page.read_text() for page in PAGES)))

    unnamed = [name for name, _ in names.public(importlib.import_module(module)) if name not in written]

    assert unnamed == [], HOW


def test_every_requirement_has_a_test_and_every_property_too() -> None:
    proven = requirements.proofs()
    shown = {requirement for proof in proven for requirement in proof.requirements}
    known = {number for number, _ in requirements.requirements()}

    assert known - shown == set()
    assert shown - known == set(), "no test proves what is not required"
    assert {proof.number for proof in proven} - {None} == {f"{number:02}" for number in range(1, 23)}


def test_what_is_heard_fits_the_schema_in_the_documentation(check: Callable[[object], None]) -> None:
    heard: list[Envelope] = []
    mock = MockEnvironmentFactory("with-thinking", delays=False)

    with Runtime.in_memory(environment=mock) as runtime:
        runtime.events.on_all(heard.append)
        runtime.images.register(Image(id="chat"))
        sent = runtime.request("message_send_request", {"image_id": "chat", "content": "Hello"})
        mock.set_scenario("error")
        runtime.request("message_send_request", {"image_id": "chat", "content": "Hello again"})
        runtime.request("session_delete_request", {"session_id": at(str, sent.data.result, "session_id")})
        with pytest.raises(SessionNotFoundError):
            runtime.request("session_run_request", {"session_id": at(str, sent.data.result, "session_id")})

    assert {"turn_completed", "session_deleted", "session_run_response"} <= {envelope.type for envelope in heard}
    for envelope in heard:
        check(json.loads(msgspec.json.encode(envelope)))


def test_the_schema_in_the_documentation_refuses_what_is_no_event(check: Callable[[object], None]) -> None:
    with pytest.raises(ValidationError):
        check({"type": "text_delta", "data": {"text": "Hello"}})
