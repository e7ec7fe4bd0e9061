"""Scripts out of YAML, JSON and plain data, and what is said of those that are none."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reenact.terminal.cases.plain import Format
from reenact.terminal.cases.steps import (
    InteractionScript,
    InteractionStep,
    Subject,
    load_script,
    read_script,
    script_of,
)
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.matching.options import AssertionOptions, AssertionType, Expression, Scope
from tests.terminal.raising import raises

Json: TypeAlias = Any

texts = st.text(st.characters(exclude_categories=["Cs"]))
names = texts.filter(bool)
seconds = st.floats(min_value=0.001, max_value=86_400) | st.integers(min_value=1, max_value=86_400)
patterns = st.sampled_from([r"\d+ files", "^a|b$", "(?i)ready", "[^]]", "é{2,}", "(?P<n>x)(?P=n)"])
scopes: st.SearchStrategy[Scope] = st.sampled_from(["new", "all", "screen"])
subjects: st.SearchStrategy[Subject] = st.sampled_from(["output", "screen"])
kinds: st.SearchStrategy[AssertionType] = st.sampled_from(["exact", "contains", "regex", "json", "jsonSchema"])
data: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
Pair: TypeAlias = tuple[Json, InteractionStep]


@st.composite
def sending(draw: st.DrawFn) -> Pair:
    text = draw(texts)
    return draw(
        st.sampled_from(
            [
                ({"send": text}, InteractionStep.send(text)),
                ({"type": "send", "value": text}, InteractionStep.send(text)),
                ({"sendLine": text}, InteractionStep.send(f"{text}\r")),
                ({"type": "sendLine", "value": text}, InteractionStep.send(f"{text}\r")),
            ]
        )
    )


@st.composite
def waiting(draw: st.DrawFn) -> Pair:
    timeout, scope = draw(st.none() | seconds), draw(scopes)
    options: dict[str, Json] = {} if timeout is None else {"timeout": timeout}
    if scope != "new" or draw(st.booleans()):
        options["scope"] = scope
    pattern: Json
    if draw(st.booleans()):
        value = pattern = draw(names)
        short: dict[str, Json] = {"value": value}
        expected: str | Expression = value
    else:
        source = draw(patterns)
        short, pattern, expected = {"regex": source}, {"regex": source}, Expression(source)
    forms: list[Json] = [
        {"wait": {**short, **options}},
        {"wait": short, **options},
        {"wait": pattern, **options},
        {"type": "wait", "value": pattern, **options},
        {"type": "wait", **short, **options},
    ]
    step = InteractionStep(type="wait", value=expected, timeout=timeout, scope=scope)
    return draw(st.sampled_from(forms)), step


@st.composite
def ending(draw: st.DrawFn) -> Pair:
    timeout = draw(st.none() | seconds)
    forms: list[Json] = [{"type": "waitForExit", "timeout": timeout}, {"waitForExit": {"timeout": timeout}}]
    if timeout is None:
        forms = ["waitForExit", {"waitForExit": None}, {"waitForExit": {}}, {"type": "waitForExit"}]
    else:
        forms.append({"waitForExit": timeout})
    return draw(st.sampled_from(forms)), InteractionStep.wait_for_exit(timeout)


@st.composite
def asserting(draw: st.DrawFn) -> Pair:
    kind = draw(kinds)
    wanted: Json = draw({"regex": patterns, "json": data, "jsonSchema": st.just({"type": "array"})}.get(kind, texts))
    chosen = draw(st.dictionaries(st.sampled_from(["stripAnsi", "ignoreCase", "ignoreWhitespace"]), st.booleans()))
    flags: dict[str, Json] = dict(chosen)
    subject = draw(subjects)
    forms: list[Json] = [
        {"assert": {kind: wanted, **flags, "subject": subject}},
        {"assert": {kind: wanted, **flags}, "subject": subject},
        {"assert": {"type": kind, "expected": wanted, **flags}, "subject": subject},
        {"type": "assert", "assertion": {"type": kind, "expected": wanted, **flags}, "subject": subject},
        {"type": "assert", "assertion": {kind: wanted, **flags}, "subject": subject},
    ]
    options = AssertionOptions(
        type=kind,
        expected=wanted,
        strip_ansi=chosen.get("stripAnsi", False),
        ignore_case=chosen.get("ignoreCase", False),
        ignore_whitespace=chosen.get("ignoreWhitespace", False),
    )
    return draw(st.sampled_from(forms)), InteractionStep.expect(options, subject=subject)


@st.composite
def pressing(draw: st.DrawFn) -> Pair:
    key = draw(st.sampled_from(["enter", "ctrl+c", "up", "f1", "alt+x", "é"]))
    return draw(st.sampled_from([{"sendKey": key}, {"type": "sendKey", "value": key}])), InteractionStep.send_key(key)


@st.composite
def pausing(draw: st.DrawFn) -> Pair:
    time = draw(seconds | st.just(0))
    return draw(st.sampled_from([{"delay": time}, {"type": "delay", "value": time}])), InteractionStep.delay(time)


steps = sending() | pressing() | waiting() | ending() | asserting() | pausing()


def snake(value: Json) -> Json:
    """Return the names of a step in snake case; what it is made of is not touched."""
    if not hasattr(value, "items"):
        return value
    return {
        re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", name): snake(inner)
        if name in ("assert", "assertion", "wait", "waitForExit")
        else inner
        for name, inner in value.items()
    }


def camel(value: Json) -> Json:
    """Return the names of a step as they are, in camel case."""
    return value


@given(st.lists(steps), names, st.none() | texts, st.sampled_from([snake, camel]))
def test_a_script_is_the_same_in_every_form(
    pairs: list[Pair], name: str, description: str | None, case: Callable[[Json], Json]
) -> None:
    written: list[Json] = [case(form) for form, _ in pairs]
    plain: dict[str, Json] = {"name": name, "steps": written}
    if description is not None:
        plain["description"] = description
    script = InteractionScript(name=name, description=description, steps=tuple(step for _, step in pairs))

    assert script_of(plain) == script
    assert script_of(written, name=name).steps == script.steps
    assert read_script(json.dumps(plain), format="json") == script
    assert read_script(json.dumps(plain, indent=2)) == script


def test_a_script_stands_in_a_file_as_people_write_it(tmp_path: Path) -> None:
    file = tmp_path / "greeting.yaml"
    file.write_text(
        """
        # A talk.
        - wait: "name?"
        - sendLine: Ada
        - wait: {regex: "Hello,? Ada", timeout: 5, scope: screen}
        - assert: {contains: Ada, stripAnsi: true}
        - sendKey: ctrl+d
        - delay: 0.1
        - waitForExit
        """
    )

    script = load_script(file)

    assert script == InteractionScript(
        name="greeting",
        steps=(
            InteractionStep.wait("name?"),
            InteractionStep.send("Ada\r"),
            InteractionStep.wait(Expression("Hello,? Ada"), 5, scope="screen"),
            InteractionStep.expect(AssertionOptions(type="contains", expected="Ada", strip_ansi=True)),
            InteractionStep.send_key("ctrl+d"),
            InteractionStep.delay(0.1),
            InteractionStep.wait_for_exit(),
        ),
    )


def test_patterns_and_bytes_may_be_those_of_python() -> None:
    pattern = re.compile("ready", re.IGNORECASE)

    script = script_of([{"wait": pattern}, {"assert": {"regex": pattern}}, {"wait": {"regex": pattern}}])

    assert [step.value for step in script.steps] == [pattern, None, pattern]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        ("{}", "a step must be one of assert, delay, send, sendKey, sendLine, wait, waitForExit, not nothing"),
        ("{snd: x}", "a step must be one of assert, delay, send, sendKey, sendLine, wait, waitForExit, not snd"),
        ("{send: x, wait: y}", "not send and wait"),
        ("send", "a step must be a mapping, or the word waitForExit, not 'send'"),
        ("5", "expected a mapping, got the number 5"),
        ("{type: type, value: x}", "type: expected one of assert, delay, send,"),
        ("{send: 5}", "send: expected text, got the number 5; in quotes it is text"),
        ("{send: }", "send: expected text, got null; in quotes it is text"),
        ("{send: [a]}", "send: expected text, got a list"),
        ("{type: send, text: x}", "text: unknown field text; expected one of value"),
        ("{type: send}", "a step send: value must be the text or the bytes to send, not None"),
        ("{send: x, timeout: 5}", "timeout: unknown field timeout; expected one of value"),
        ("{sendKey: ''}", "sendKey: key: there is no key ''; say a character, or one of"),
        ("{sendKey: hyper+x}", "sendKey: key: there is no key 'hyper+x'; say a character, or one of"),
        ("{sendKey: ctrl+é}", "sendKey: key: Ctrl and 'é' send nothing of their own"),
        ("{wait: ''}", "a step wait: value must be a text or a pattern for text, not ''"),
        ("{wait: {regex: '('}}", "wait.regex: the pattern '(' is not a regular expression: missing ), unterminated"),
        ("{wait: {regex: x, value: y}}", "a wait has a value, which is the text to wait for, or a regex"),
        ("{wait: {timeout: 5}}", "a wait has a value, which is the text to wait for, or a regex"),
        ("{wait: {regexp: x}}", "wait.regexp: unknown field regexp; expected one of regex, scope, timeout, value"),
        ("{type: wait, value: {pattern: x}}", "value.pattern: unknown field pattern; expected one of regex"),
        ("{wait: x, timeout: -1}", "a step wait: timeout must be a number of seconds, 86,400 (a day) at most, not -1"),
        (
            "{wait: x, timeout: .inf}",
            "a step wait: timeout must be a number of seconds, 86,400 (a day) at most, not inf",
        ),
        (
            "{wait: x, timeout: '5'}",
            "a step wait: timeout must be a number of seconds, 86,400 (a day) at most, not '5'",
        ),
        (
            "{wait: x, timeout: true}",
            "a step wait: timeout must be a number of seconds, 86,400 (a day) at most, not True",
        ),
        ("{wait: {value: x, timeout: 5}, timeout: 6}", "timeout: the field timeout comes twice"),
        ("{wait: x, scope: everywhere}", "scope: expected one of all, new, screen, got 'everywhere'"),
        (
            "{waitForExit: soon}",
            "a step waitForExit: timeout must be a number of seconds, 86,400 (a day) at most, not 's",
        ),
        (
            "{waitForExit: -1}",
            "a step waitForExit: timeout must be a number of seconds, 86,400 (a day) at most, not -1",
        ),
        ("{type: waitForExit, value: 0}", "value: unknown field value; expected one of timeout"),
        ("{delay: -0.5}", "a step delay: value must be a number of seconds, 86,400 (a day) at most, not -0.5"),
        ("{delay: .nan}", "a step delay: value must be a number of seconds, 86,400 (a day) at most, not nan"),
        ("{delay: short}", "a step delay: value must be a number of seconds, 86,400 (a day) at most, not 'short'"),
        ("{assert: x}", "assert: expected a mapping, as {contains: …}, got 'x'"),
        ("{assert: {}}", "assert: an assertion has one of exact, contains, regex, json, jsonSchema, or a type"),
        ("{assert: {exact: x, contains: y}}", "assert: an assertion has one of exact,"),
        ("{assert: {contains: x, expected: y}}", "assert: an assertion has one of exact,"),
        ("{assert: {type: exact}}", "assert: the field expected is missing"),
        ("{assert: {type: equal, expected: x}}", "assert.type: expected one of contains, exact, json,"),
        ("{assert: {equals: x}}", "assert.equals: unknown field equals; expected one of contains, exact,"),
        ("{assert: {exact: 5}}", "assert.exact: expected text, got the number 5; in quotes it is text"),
        ("{assert: {regex: '*'}}", "assert.regex: the pattern '*' is not a regular expression: nothing to repeat"),
        ("{assert: {json: .nan}}", "assert.json: $: the number nan has no form in JSON"),
        ("{assert: {json: {1: x}}}", "assert.json: $: a name in an object is of type int, and must be str"),
        (
            "{assert: {jsonSchema: 5}}",
            "assert.jsonSchema: a schema must be a mapping, true, false, or JSON text, not the",
        ),
        ("{assert: {exact: x, stripAnsi: 1}}", "assert.stripAnsi: expected true or false, got the number 1"),
        ("{assert: {exact: x, stripAnsi: true, strip_ansi: true}}", "comes twice, as strip_ansi and as stripAnsi"),
        ("{assert: {exact: x}, subject: title}", "subject: expected one of output, screen, got 'title'"),
        ("{type: assert}", "a step assert: the assertion is missing"),
        ("{1: x}", "a name must be text, not the number 1"),
    ],
)
def test_what_is_no_step_is_refused_with_its_place(tmp_path: Path, steps: str, problem: str) -> None:
    file = tmp_path / "script.yaml"
    file.write_text(f"name: x\nsteps:\n  - waitForExit\n  - {steps}\n")

    with raises(TerminalTestErrorType.INVALID_CONFIG) as refused:
        load_script(file)

    assert str(refused.value).startswith(f"{file}: line 4: steps[1]")
    assert problem in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.yaml", "name: x", "the field steps is missing"),
        ("a.yaml", "steps: [\n\n  &a {}]", ": line 3, column 3: an anchor is not read here"),
        ("a.yaml", "x", "expected a list, got 'x'"),
        ("a.yaml", "", "expected a list, got null"),
        ("a.yaml", b"\xff", "this is not text in UTF-8: invalid start byte at byte 0"),
        ("a.yaml", "steps: []\nstep: []", "line 2: step: unknown field step; expected one of description, name"),
        ("a.json", "[1,\n2", ": line 2, column 2: Expecting ',' delimiter"),
        ("a.json", '{"steps": [], "steps": []}', 'an object has the name "steps" twice'),
        ("a.json", '{"steps": NaN}', "NaN is not JSON"),
        ("a.json", '{"steps": -1e999}', "the number '-1E+999' is too large"),
        ("a.json", "[" * 100_000, "it is nested too deep"),
        ("a.json", "x" * 1_000_001, "it has more than 1,000,000 characters; so many are read at most"),
        ("a.json", '[\n{"send": 5}]', "line 2: [0].send: expected text, got the number 5"),
        ("a.toml", "", "the name of the file is to end with .yaml, .yml, .json"),
    ],
)
def test_a_file_without_a_script_is_refused(tmp_path: Path, name: str, content: str | bytes, problem: str) -> None:
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)

    with raises(TerminalTestErrorType.INVALID_CONFIG, re.escape(problem)) as refused:
        load_script(file)

    assert str(refused.value).startswith(f"{file}: ")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(TerminalTestError, match=r"nowhere\.yaml: No such file or directory"):
        load_script(tmp_path / "nowhere.yaml")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(TerminalTestError, match="not a regular file"):
        load_script(tmp_path / "folder.yaml")


def test_a_place_that_cannot_be_found_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "tabs.json"
    file.write_text('[\n\t{\n\t\t"send":\t5\n\t}\n]')

    with pytest.raises(TerminalTestError, match=r"tabs\.json: (line 3: )?\[0\]\.send: expected text, got the number 5"):
        load_script(file)


@pytest.mark.parametrize(
    ("value", "words"), [(b"x", "a bytes"), ((), "a list"), ({}, "a mapping"), (True, "true"), (1.5, "the number 1.5")]
)
def test_what_is_no_text_is_called_by_its_kind(value: object, words: str) -> None:
    with pytest.raises(TerminalTestError, match=f"expected text, got {words}"):
        script_of([{"send": value}])


def test_what_json_does_not_have_is_not_expected_of_it() -> None:
    with pytest.raises(TerminalTestError, match=r"assert\.json: \$\[0\]: a value of type bytes has no form"):
        script_of([{"assert": {"json": [b"x"]}}])


def test_data_from_no_file_is_refused_without_one() -> None:
    with pytest.raises(TerminalTestError) as refused:
        script_of({"steps": [{"send": None}]})

    assert str(refused.value) == "steps[0].send: expected text, got null; in quotes it is text"


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"type": "send", "value": 5}, "a step send: value must be the text or the bytes to send, not 5"),
        ({"type": "wait", "value": re.compile(b"x")}, "value must be a text or a pattern for text"),
        (
            {"type": "wait", "value": "x", "timeout": float("nan")},
            "timeout must be a number of seconds, 86,400 .*, not nan",
        ),
        ({"type": "delay", "value": 10**5000}, "not a number with very many digits"),
        ({"type": "waitForExit", "value": 0}, "it takes a timeout and no value, not 0"),
        ({"type": "assert"}, "the assertion is missing"),
        ({"type": "click"}, "there is no such step; there are send, sendKey, wait, waitForExit, assert, delay"),
    ],
)
def test_a_step_made_in_python_is_looked_at_likewise(fields: Json, problem: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, problem):
        InteractionStep(**fields)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        (InteractionStep.send_line("ls"), r"send 'ls\r'"),
        (InteractionStep.send("x" * 100), f"send '{'x' * 79}…"),
        (InteractionStep.wait(re.compile("a+")), "wait 'a+'"),
        (InteractionStep.wait(Expression("a+")), "wait 'a+'"),
        (InteractionStep.wait_for_exit(3), "waitForExit"),
        (InteractionStep.expect(AssertionOptions(type="contains", expected="a")), "assert contains 'a'"),
        (InteractionStep.delay(0.5), "delay 0.5"),
    ],
)
def test_a_step_says_in_short_what_it_does(step: InteractionStep, words: str) -> None:
    assert str(step) == words


HUGE = ["1e300", "1e10", "86401", "9" * 400]


@pytest.mark.parametrize("step", ["delay: {}", "waitForExit: {}", "wait: {{value: x, timeout: {}}}"])
@pytest.mark.parametrize("number", HUGE)
def test_no_step_takes_longer_than_a_day(step: str, number: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, r"line 2: \[1\]: .* 86,400 \(a day\) at most"):
        read_script(f"- waitForExit: 86400\n- {step.format(number)}")


@pytest.mark.parametrize("number", ["9" * 5000, "-" + "9" * 5000, "1e400"])
def test_a_number_that_is_too_large_is_refused_where_it_stands(number: str) -> None:
    text = f'[{{"send": "{number}"}},\n {{"delay": {number}}}]'

    for format_ in FORMATS:
        with pytest.raises(
            TerminalTestError,
            match=r"^(line 2, column 12|\[1\]\.delay): the number .*(is too large|are read at most)",
        ) as refused:
            read_script(text, format=format_)

        assert refused.value.type is TerminalTestErrorType.INVALID_CONFIG
        assert len(str(refused.value)) < 300


FORMATS: list[Format] = ["yaml", "json"]
HOSTILE = "\x1b]0;x\x07\x9b31m\r\n\u202e"


@pytest.mark.parametrize(
    "data",
    [
        [{HOSTILE: 1}],
        [{"wait": "a", HOSTILE: 1}],
        [{"sendKey": HOSTILE}],
        [HOSTILE],
        [{"type": HOSTILE}],
        [{"wait": {"regex": f"({HOSTILE}"}}],
        [{"assert": {HOSTILE: 1}}],
        {"steps": [], HOSTILE: 1},
    ],
)
def test_what_is_said_of_a_file_shows_what_is_not_seen_in_it(data: Json) -> None:
    for text, format_ in zip((json.dumps(data), json.dumps(data)), FORMATS, strict=True):
        with pytest.raises(TerminalTestError) as refused:
            read_script(text, format=format_)

        assert str(refused.value).isprintable()
        assert r"\x1b]0;x\x07\x9b31m" in str(refused.value)


@pytest.mark.parametrize(
    "text", [f"!{HOSTILE[:4]} a", f'"{HOSTILE[:3]}": 1', '{"\\e]0;x\\a": 1, "\\e]0;x\\a": 2}', "%TAG ! \x85"]
)
def test_what_is_said_of_text_that_is_no_yaml_shows_it_too(text: str) -> None:
    with pytest.raises(TerminalTestError) as refused:
        read_script(text)

    assert str(refused.value).isprintable()


def test_the_name_of_a_file_is_shown_likewise(tmp_path: Path) -> None:
    with pytest.raises(TerminalTestError, match="No such file") as refused:
        load_script(tmp_path / f"{HOSTILE}.yaml")

    assert str(refused.value).isprintable()


@pytest.mark.parametrize("kind", ["fifo", "device", "directory", "NUL"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "script.yaml"
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "device":
            file.symlink_to("/dev/zero")
        case "directory":
            file.mkdir()
        case _:
            file = tmp_path / "\0.yaml"

    with raises(TerminalTestErrorType.INVALID_CONFIG, r"regular file|directory|null (byte|character)"):
        load_script(file)


def test_of_a_file_that_is_too_large_no_more_is_read_than_that_shows(tmp_path: Path) -> None:
    file = tmp_path / "script.yaml"
    with file.open("wb") as opened:
        opened.truncate(2**40)

    with pytest.raises(TerminalTestError, match="it has more than 1,000,000 characters"):
        load_script(file)
