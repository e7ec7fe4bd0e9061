"""Type checkers know what users' programs are given. Here mypy checks them as strictly as a user would.

The programs say by `assert_type` what is known, and by an ignore what is a mistake: one that is not found is an ignore
too many. `make check` has pyright check them as well.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args, get_overloads, get_type_hints

from reenact.actors.feed.observable import Observable
from reenact.domain.operations.table import (
    CATALOGUE,
    REQUESTS,
    RESPONSES,
    EventType,
    RequestType,
    ResponseType,
    RuntimeEvent,
)
from reenact.domain.stream.events import NOTIFICATIONS

HERE = Path(__file__).resolve().parent
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
# What no program has anything of is most of what there is to read: three times as long. `make check` has it read.
STRICT = """
[mypy]
strict = True
[mypy-anthropic.*,cryptography.*,hypothesis.*,mcp.*]
follow_imports = skip
"""
DATA = {kind.event_type: kind for kind in NOTIFICATIONS}


def test_strict_mypy_finds_in_the_programs_the_types_that_they_say_and_the_mistakes_that_they_mark(
    tmp_path: Path,
) -> None:
    cache = HERE.parent.parent / ".mypy_cache" / "programs"
    config = tmp_path / "mypy.ini"
    config.write_text(STRICT)
    mypy = [sys.executable, "-m", "mypy", f"--config-file={config}", f"--cache-dir={cache}", *map(str, PROGRAMS)]

    done = subprocess.run(mypy, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert f"no issues found in {len(PROGRAMS)} source files" in done.stdout


def test_the_types_name_every_event_with_its_data() -> None:
    members = [get_args(one) for one in get_args(RuntimeEvent)]

    told = {get_args(names)[0]: data for data, names in members if len(get_args(names)) == 1}

    assert told == DATA
    assert set(get_args(RequestType)) == set(REQUESTS)
    assert set(get_args(ResponseType)) == {kind.event_type for kind in RESPONSES.values()}
    assert {name for names in get_args(EventType) for name in get_args(names)} == set(CATALOGUE)


def test_a_handler_of_each_event_is_given_its_data() -> None:
    told: dict[str, type] = {}

    for overload in get_overloads(Observable.on):  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        hints = get_type_hints(overload)
        names, (parameters, _) = get_args(hints["type"]), get_args(hints["handler"])
        if len(names) == 1:
            told[names[0]] = get_args(parameters[0])[0]

    assert told == DATA
