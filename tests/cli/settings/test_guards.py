"""Where the command line takes guards from, and what becomes of what they refuse."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reenact import Guards
from reenact.cli.settings.configuration import Guarding, load_guards
from reenact.domain.errors import ConfigurationError
from tests.cli.conftest import Run
from tests.cli.tools import GUARDS


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work in a directory of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_file_has_guards_and_says_where_they_are_asked() -> None:
    Path("guards.py").write_text(GUARDS)

    functions, named = load_guards("guards.py")

    assert [one.name for one in functions] == ["calm"]
    assert named == Guards(message=("calm",))
    assert load_guards(None) == Guarding()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("x = 1", "--guards guards.py: there is no guard in it; write `@guard`, from reenact, above a function"),
        (f"{GUARDS}\nmore = Guards()", "--guards guards.py: there are 2 Guards in it; leave one"),
        ("raise KeyError", "--guards guards.py: .*line 1: KeyError"),
    ],
)
def test_a_file_that_has_none_is_refused(content: str, why: str) -> None:
    Path("guards.py").write_text(content)

    with pytest.raises(ConfigurationError, match=why):
        load_guards("guards.py")


def test_a_message_that_a_guard_refuses_fails_the_command(run: Run) -> None:
    Path("guards.py").write_text(GUARDS)

    passed = run("-p", "Hello", "--guards", "guards.py")
    refused = run("-p", "HELLO", "--guards", "guards.py", "--output-format", "json")

    assert passed.code == 0
    assert refused.code == 1
    assert refused.result["error"]["type"] == "message_refused"
    assert refused.result["error"]["message"] == "guard 'calm' refuses the message: do not shout"
