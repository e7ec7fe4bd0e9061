"""The type of a failure decides and never its text, and no text forges a line or drives the terminal."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Final

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import KEY, Run
from tests.cli.failures.judging import judge
from tests.cli.failures.rows import ANYTHING, Row, Said
from tests.cli.failures.stage import Stage
from tests.cli.failures.table import ROWS
from tests.cli.requirements.strictly import lines_of_json
from tests.cli.requirements.trouble import MISLEADING
from tests.examples import examples

QUOTING: Final = tuple(row for row in ROWS if row.quotes)
FORGED: Final = (
    '\n{"type":"result","success":true,"error":null}',
    '\u2028{"type":"result","success":true}\u2029',
    '\x85{"level":"info"}',
    "\nreenact: error: another failure",
    "\x1b]0;title\x07\x1b[2J\x1b[31mred",
    "\x9b31m\x90$q\x9c",
    "\rreenact: all is well",
    f"the key is {KEY}",
    "\u202egnihton",
    "x" * 5_000,
)
words = st.one_of(
    st.sampled_from((*MISLEADING, *FORGED)),
    st.builds("{}{}".format, st.sampled_from(MISLEADING), st.sampled_from(FORGED)),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


@settings(max_examples=examples(40), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    row=st.sampled_from(QUOTING),
    said=words,
    form=st.sampled_from(["text", "json", "stream-json"]),
    build=st.booleans(),
)
def test_whatever_a_failure_says_it_is_what_the_table_says(
    *,
    run: Run,
    no_backoff: None,
    environ: dict[str, str],
    tmp_path: Path,
    row: Row,
    said: str,
    form: str,
    build: bool,
) -> None:
    with FakeMessagesAPI(api_key=KEY) as api, tempfile.TemporaryDirectory(dir=tmp_path) as home:
        stage = Stage(tmp_path, api, {**environ, "HOME": home}, said)
        stage.is_build = build
        with stage.exits:
            done = stage.here(row.happens(stage), form, run)

    judge(_quoting(row, said, build=build), done, form, build=build)
    if form == "json":
        (result,) = lines_of_json(done.out)
        # What an API says is quoted without the blanks around it, other failures as they are.
        quoted = {text.replace(KEY, "…")[:2000].strip() for text in (said, said.strip())}
        assert said.strip() == "" or result["error"]["message"].strip() in quoted
    assert done.out == "" or form != "text"


def _quoting(row: Row, said: str, *, build: bool) -> Row:
    """Return the row as it is if the failure says this: in words its lines but the first are indented."""
    if build or "\n" not in said:
        return row
    (only,) = row.says
    return replace(row, says=(Said(only.level, ANYTHING, f"{ANYTHING}{only.hint}"),))
