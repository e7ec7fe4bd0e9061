"""What holds for every run of the command: its output, its exit code, its sessions, and how it is in a build."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reenact import Runtime
from reenact.testing import FakeMessagesAPI, MockEnvironmentFactory
from tests.cli.conftest import KEY, Outcome, Run
from tests.cli.requirements.strictly import Json, lines_of_json
from tests.cli.requirements.trouble import MISLEADING, Trouble, answers, questions, troubles
from tests.examples import examples

FORMATS = ("text", "json", "stream-json")
BUILDS = ("GITHUB_ACTIONS", "GITLAB_CI", "JENKINS_URL", "CI")
YES = ("true", "1", "TRUE", "yes", "https://jenkins.example/", "no")
NO = ("", "0", "false", "False", " ", " FALSE ")
some = settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])


@contextmanager
def model() -> Generator[tuple[FakeMessagesAPI, dict[str, str]]]:
    """Yield a Messages API that nobody has asked yet, and the variables with which it answers."""
    with FakeMessagesAPI(api_key=KEY) as api:
        yield api, {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": api.url}


@contextmanager
def new_log(directory: Path) -> Generator[str]:
    """Yield the path of a log that is not there yet, in a directory that is gone afterwards."""
    with tempfile.TemporaryDirectory(dir=directory) as own:
        yield str(Path(own, "log.db"))


def said(session: list[Json]) -> list[tuple[str, str]]:
    """Return who has said what in the messages of a request."""
    return [(one["role"], "".join(block["text"] for block in one["content"])) for one in session]


@some
@given(question=questions, answer=answers, trouble=troubles, message=st.sampled_from(MISLEADING))
def test_property_07_json_output_validity(
    *, run: Run, no_backoff: None, tmp_path: Path, question: str, answer: str, trouble: Trouble, message: str
) -> None:
    """Property 07: JSON Output Validity (requirements 3.2)."""
    with model() as (api, claude), new_log(tmp_path) as log:
        api.reply(text=answer)
        answered = run(f"-p{question}", "--output-format", "json", "--db", log, **claude)
        trouble.prepare(api, message)
        arguments = (f"-p{question}", "--output-format", "json", "--db", log, *trouble.arguments)
        done = run(*arguments, **{**claude, **trouble.variables})

    (result,) = lines_of_json(answered.out)
    assert result["result"] == answer
    (result,) = lines_of_json(done.out)
    assert result["type"] == "result"
    assert result["success"] == (result["error"] is None) == (trouble.code == 0)


@some
@given(question=questions, answer=answers, trouble=troubles, message=st.sampled_from(MISLEADING))
def test_property_08_stream_json_line_validity(
    *, run: Run, no_backoff: None, tmp_path: Path, question: str, answer: str, trouble: Trouble, message: str
) -> None:
    """Property 08: Stream-JSON Line Validity (requirements 3.3)."""
    with model() as (api, claude), new_log(tmp_path) as log:
        api.reply(text=answer)
        answered = run(f"-p{question}", "--output-format", "stream-json", "--db", log, **claude)
        trouble.prepare(api, message)
        arguments = (f"-p{question}", "--output-format", "stream-json", "--db", log, *trouble.arguments)
        done = run(*arguments, **{**claude, **trouble.variables})

    assert answered.out.endswith("\n")
    *events, result = lines_of_json(answered.out)
    deltas = [event["data"]["text"] for event in events if event["type"] == "text_delta"]
    assert "".join(deltas) == result["result"] == answer
    *events, result = lines_of_json(done.out)
    assert "result" not in {event["type"] for event in events}
    assert result["type"] == "result"
    assert result["success"] == (trouble.code == 0)


@settings(some, max_examples=examples(20))
@given(
    trouble=troubles,
    message=st.sampled_from(MISLEADING),
    form=st.sampled_from(FORMATS),
    by_input=st.booleans(),
    build=st.booleans(),
)
def test_property_09_exit_code_correctness(
    *,
    run: Run,
    no_backoff: None,
    tmp_path: Path,
    trouble: Trouble,
    message: str,
    form: str,
    by_input: bool,
    build: bool,
) -> None:
    """Property 09: Exit Code Correctness (requirements 3.5, 3.6, 8.1, 8.2, 8.3, 8.4, 8.5)."""
    with model() as (api, claude), new_log(tmp_path) as log:
        trouble.prepare(api, message)
        done = run(
            *(() if by_input else ("-p", "Hello")),
            "--db",
            log,
            "--output-format",
            form,
            *trouble.arguments,
            stdin=b"Hello\n" if by_input else b"",
            **{**claude, **trouble.variables, "CI": str(build)},
        )

    assert done.code == trouble.code
    assert "Traceback" not in done.err.replace(message, "")
    if form != "text":
        error = lines_of_json(done.out)[-1]["error"]
        assert (0 if error is None else error["code"]) == trouble.code


UNEXPECTED = (ZeroDivisionError, TimeoutError, ConnectionError, PermissionError, ValueError, KeyError, RecursionError)


@some
@given(kind=st.sampled_from(UNEXPECTED), message=st.sampled_from(MISLEADING), form=st.sampled_from(FORMATS))
def test_property_09_exit_code_correctness_of_what_nobody_expected(
    *, run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: type[Exception], message: str, form: str
) -> None:
    """Property 09: Exit Code Correctness (requirements 3.6, 8.5)."""

    def fail(*_: object, **__: object) -> None:
        raise kind(message)

    with monkeypatch.context() as patch, new_log(tmp_path) as log:
        patch.setattr("reenact.cli.chat.conversation.Conversation.ask", fail)
        done = run("-p", "Hello", "--db", log, "--output-format", form)

    assert done.code == 1
    assert kind.__name__ in done.err


@some
@given(
    asked=st.lists(st.tuples(questions, answers, st.booleans()), min_size=1, max_size=3),
)
def test_property_15_session_persistence_round_trip(
    run: Run, no_backoff: None, tmp_path: Path, asked: list[tuple[str, str, bool]]
) -> None:
    """Property 15: Session Persistence Round-Trip (requirements 6.1, 6.3, 6.4)."""
    history: list[tuple[str, str]] = []
    going_on: list[str] = []
    with model() as (api, claude), new_log(tmp_path) as log:
        session = ""
        for question, answer, by_id in asked:
            api.reply(text=answer)
            if session:
                going_on = ["--resume", session] if by_id else ["--continue"]
            done = run(f"-p{question}", "--db", log, "--output-format", "json", *going_on, **claude)

            (result,) = lines_of_json(done.out)
            session = result["session_id"]
            assert said(api.requests[-1].body["messages"]) == [*history, ("user", question)]
            history += [("user", question), ("assistant", answer)]
            assert Path(log).is_file()

        with Runtime.open(log, environment=MockEnvironmentFactory()) as runtime:
            loaded = [(message.role, message.text) for message in runtime.sessions.messages(session)]
        listed = lines_of_json(run("sessions", "--db", log, "--output-format", "json").out)
    assert loaded == history
    assert [one["id"] for one in listed] == [session]


ids = st.one_of(
    st.from_regex(r"ses_[0-9a-z]{26}", fullmatch=True),
    st.from_regex(r"[a-zA-Z0-9_./ -]{1,30}", fullmatch=True).filter(lambda one: one.strip() != ""),
    questions.filter(lambda text: len(text) < 100),
).filter(lambda one: not one.removeprefix("ses_").startswith("0") and not "ses_".startswith(one))
"""No beginnings of ids, which all begin with `ses_0` for the next centuries: a unique one is enough."""


@some
@given(missing=ids, form=st.sampled_from(FORMATS), others=st.booleans())
def test_property_16_non_existent_session_error(
    *,
    run: Run,
    no_backoff: None,
    tmp_path: Path,
    missing: str,
    form: str,
    others: bool,
) -> None:
    """Property 16: Non-Existent Session Error (requirements 6.5)."""
    with model() as (api, claude), new_log(tmp_path) as log:
        if others:
            run("-p", "Another one", "--db", log, **claude)
        asked = len(api.requests)

        done = run("-p", "Hello", f"--resume={missing}", "--db", log, "--output-format", form, **claude)

        listed = run("sessions", "--db", log, "--output-format", "json").objects
    assert done.code == 2
    assert "session" in done.err
    if form == "text":
        assert done.out == ""
    else:
        (result,) = lines_of_json(done.out)
        assert (result["success"], result["error"]["type"]) == (False, "session_not_found")
    assert len(api.requests) == asked, "the model is not asked"
    assert len(listed) == others, "no session is made"


@settings(some, max_examples=12)
@given(variables=st.dictionaries(st.sampled_from(BUILDS), st.sampled_from((*YES, *NO)), max_size=3))
def test_property_19_ci_mode_detection(run: Run, tmp_path: Path, variables: dict[str, str]) -> None:
    """Property 19: CI Mode Detection (requirements 9.1, 9.2, 9.3)."""
    detected = any(value in YES for value in variables.values())
    with new_log(tmp_path) as log:
        nobody: Outcome = run("--db", log, **variables)
        failed: Outcome = run("-p", "Hello", "--db", log, MOCK_SCENARIO="error", **variables)

    assert nobody.code == (2 if detected else 0), "nothing is waited for in a build, and silence is not success"
    assert failed.code == 4
    logged = [_level(line) for line in failed.err.splitlines()]
    assert logged == (["info", "error"] if detected else [None] * 3), "words: two messages, and what may help"


def _level(line: str) -> str | None:
    """Return the level of a line of a structured log; None for one that is words."""
    if not line.startswith("{"):
        return None
    (entry,) = lines_of_json(line)
    assert {"time", "level", "logger", "message"} <= set(entry)
    level: str = entry["level"]
    return level
