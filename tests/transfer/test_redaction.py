"""What a policy names does not leave, wherever it stands; what leaves is still a history."""

from __future__ import annotations

import json
import tempfile
from base64 import b64encode
from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact._runtime import codec
from reenact.actors.journal.sqlite import SqliteJournal
from reenact.actors.journal.verify import verify
from reenact.audit import (
    Redaction,
    ToolRedaction,
    export_log,
    import_log,
    open_export,
    read_redaction,
    verify_log,
)
from reenact.domain import image
from reenact.domain.attachments import ImageBlock
from reenact.domain.errors import ConfigurationError, RedactionError
from reenact.domain.loop.events import HumanApproveRequired, ToolApproved
from reenact.domain.messages import OpaqueBlock, StopDetails, TextBlock, ThinkingBlock, ToolUseBlock, text_of
from reenact.domain.plain import JsonObject
from reenact.domain.session.agent import Failure, MessageAccepted, ReceivedAnswer
from reenact.domain.session.state import Session
from reenact.domain.stream.events import ToolStarted
from reenact.projections.explain.history import believe
from reenact.projections.log import InMemoryLog
from reenact.projections.verification.replay import retrace
from tests.examples import examples
from tests.projections.histories import World
from tests.transfer.logs import write

KEY = "sk-ant-api03-Zx9_Qw8-Er7Ty6Ui5Op4"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA7zq\nq8Zx9Qw8Er7==\n-----END RSA PRIVATE KEY-----"
SECRETS: dict[str, tuple[str, str, Redaction]] = {
    "key": (KEY, "Zx9_Qw8-Er7Ty6Ui5Op4", Redaction()),
    "bearer": ("Authorization: Bearer q1W2e3R4t5Y6u7I8o9", "q1W2e3R4t5Y6u7I8o9", Redaction()),
    "aws": ("AKIAZX9QW8ER7TY6UI5O", "ZX9QW8ER7TY6UI5O", Redaction()),
    "url": ("postgres://ann:zX9qW8eR7tY6@db/x", "zX9qW8eR7tY6", Redaction()),
    "pem": (PEM, "MIIEpAIBAAKCAQEA7zq", Redaction()),
    "value": ('zü"9\\qW8 eR7', 'zü"9\\qW8 eR7', Redaction(values=('zü"9\\qW8 eR7',), secrets=False)),
    "pattern": ("ACME-zx9qw8er7", "zx9qw8er7", Redaction(patterns={"number": "ACME-[a-z0-9]+"}, secrets=False)),
    "number": ("4929123412341234", "4929123412341234", Redaction(patterns={"card": "[0-9]{16}"}, secrets=False)),
}


def forms_of(secret: str) -> Iterator[str]:
    """Yield the ways in which a secret may be in a file, and pieces of it."""
    yield secret
    for ascii_only in (True, False):
        yield json.dumps(secret, ensure_ascii=ascii_only)[1:-1]
    yield quote(secret)
    yield secret.encode().hex()
    for offset in range(3):
        yield b64encode(b"\0" * offset + secret.encode()).decode().rstrip("=")[4:-2]
    for begin in range(len(secret) - 8):
        yield secret[begin : begin + 9]


def _around(secret: str) -> st.SearchStrategy[str]:
    return st.builds(
        "{}{}{}".format, st.sampled_from(["", "so ", "(", "\n"]), st.just(secret), st.sampled_from(["", " !"])
    )


PLACES = [
    "message",
    "answer",
    "thought",
    "argument",
    "name",
    "result",
    "prompt",
    "container",
    "reason",
    "opaque",
    "stop",
]


def _say(world: World, place: str, text: str, *, as_number: bool) -> None:
    """Have the text said in that place of a history."""
    anything: str | int = int(text) if as_number and text.isdigit() else text
    answer = ReceivedAnswer(message_id="m", content=(TextBlock("well"),), stop_reason="end_turn", model="small")
    match place:
        case "message":
            world.say("a", text)
            world.answer("a", answer)
        case "answer" | "thought" | "opaque":
            block = {
                "answer": TextBlock(text, ({"cited_text": text},)),
                "thought": ThinkingBlock(text, "signed"),
                "opaque": OpaqueBlock({"type": "web_search_result", "encrypted": text}),
            }[place]
            world.say("a", "hm?")
            world.answer("a", msgspec.structs.replace(answer, content=(block, TextBlock("so"))))
        case "argument" | "name" | "result":
            call: JsonObject = {text: "here"} if place == "name" else {"deep": [{"er": anything}], "q": 1}
            world.say("a", "look")
            world.ask("a", ToolUseBlock("t1", "search", {"q": 1} if place == "result" else call))
            world.report("a", result={"found": [anything, text]} if place == "result" else "nothing")
            world.answer("a", answer)
        case "stop":
            details = StopDetails(category=text, explanation=text)
            world.say("a", "hm?")
            world.answer("a", msgspec.structs.replace(answer, stop_sequence=text, stop_details=details))
        case "prompt":
            world.register_image("i", image.Definition("i", system_prompt=text))
        case "container":
            world.create_container(f"c{world.log.head()}", text)
        case _:
            world.say("a", "hm?")
            world.answer("a", ReceivedAnswer(failure=Failure("api_error", text)))


def _is_whole(path: Path, *, events: int) -> InMemoryLog:
    """Check that an export can be taken in, is whole there, and folds."""
    log = path.with_suffix(".imported.db")
    assert import_log(path, log, synchronous="OFF").events == events
    assert verify(log) == []
    held = open_export(path)
    for stream in held.streams():
        if stream.startswith("session/"):
            reduce(believe, held.read(stream), Session())
    return held


@settings(max_examples=examples(40))
@given(data=st.data(), kind=st.sampled_from(sorted(SECRETS)))
def test_a_secret_that_a_policy_finds_is_nowhere_in_the_file(data: st.DataObject, kind: str) -> None:
    written, secret, policy = SECRETS[kind]
    world = World()
    world.create("a", "x")
    world.run("a")
    for place in data.draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=5)):
        _say(
            world,
            place,
            data.draw(_around(written)) if kind != "number" else written,
            as_number=data.draw(st.booleans()),
        )
    cut = data.draw(st.lists(st.integers(0, len(written)), max_size=4).map(sorted))
    deltas = [written[begin:end] for begin, end in zip([0, *cut], [*cut, len(written)], strict=True)]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "a.jsonl")
        write(world.log, Path(directory, "a.db"), deltas=deltas)

        exported = export_log(Path(directory, "a.db"), path, redaction=policy)

        content = path.read_text("utf-8")
        assert [form for form in forms_of(secret) if form in content] == []
        assert "[redacted: " in content
        assert exported.redacted > 0
        _is_whole(path, events=exported.events)


FIELDS: dict[str, tuple[str, ...]] = {
    "message": ("message-accepted.content",),
    "answer": ("answer-recorded.content.text", "answer-recorded.content.citations"),
    "thought": ("answer-recorded.*.thinking",),
    "opaque": ("*.content",),
    "argument": ("answer-recorded.content.input.deep",),
    "name": ("answer-recorded.content.input",),
    "result": ("tool-result.result",),
    "prompt": ("image-registered.definition.system_prompt",),
    "container": ("container-created",),
    "reason": ("*.failure.message",),
    "stop": ("answer-recorded.stop_details", "turn-completed.stop_sequence"),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_field_that_a_policy_names_is_nowhere_in_the_file_nor_is_what_was_copied_of_it(
    place: str, tmp_path: Path
) -> None:
    secret = "nobody can tell that this is one"  # noqa: S105 - and it is none
    world = World()
    world.create("a", "x")
    world.run("a")
    for _ in range(2):
        _say(world, place, secret, as_number=False)
    world.say("a", "something else")
    write(world.log, tmp_path / "a.db", deltas=[secret[:9], secret[9:]])
    policy = Redaction(fields=FIELDS[place])

    exported = export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)

    content = (tmp_path / "a.jsonl").read_text("utf-8")
    assert [form for form in forms_of(secret) if form in content] == []
    assert ("something else" in content) == (place not in ("message", "opaque"))
    _is_whole(tmp_path / "a.jsonl", events=exported.events)


def _write_a_mail(world: World, session: str) -> None:
    world.say(session, "write")
    send = ToolUseBlock("t1", "send", {"to": "ann", "body": "the secret plan", "head": {"auth": "the secret word"}})
    world.ask(session, send, ToolUseBlock("t2", "search", {"body": "weather"}))
    world.report(session, "t2", result="sunny")
    world.approve(
        session, "t1", arguments={"to": "bob", "body": "the secret plan B", "head": {"auth": "the secret word"}}
    )
    world.report(session, "t1", result="sent the secret plan B")
    world.ask(
        session, ToolUseBlock("t3", "ask_user", {"prompt": "is the secret out?", "options": ["secret yes", "no"]})
    )
    world.respond(session, "secret yes")


@pytest.fixture
def mailed(tmp_path: Path) -> Path:
    """A log in which a person is asked about a mail, changes it, and approves; and in which something is searched."""
    world = World()
    world.create("a", "x")
    world.run("a")
    _write_a_mail(world, "a")
    write(world.log, tmp_path / "mailed.db", deltas=['{"body": "the sec', 'ret plan"}'])
    assert any(type(row.event).__name__ == "ToolEdited" for row in world.log.rows)
    return tmp_path / "mailed.db"


@pytest.mark.parametrize(
    ("tools", "gone", "kept"),
    [
        ([ToolRedaction(name="send")], ["plan B\\"], ["weather", "sunny", "is the secret out?"]),
        (
            [ToolRedaction(name="send", arguments=("body",))],
            ['"the secret plan'],
            ["the secret word", "weather", "ann"],
        ),
        ([ToolRedaction(name="s*d", arguments=("head.auth",))], ["secret word"], ["the secret plan", '"ann"', '"bob"']),
        ([ToolRedaction(name="send", arguments=(), result=True)], ["sent the"], ["the secret word", "sunny"]),
        (
            [ToolRedaction(name="ask_user", result=True)],
            ["secret out", "secret yes"],
            ["the secret word", "sunny", "sent the secret plan B"],
        ),
        ([ToolRedaction(name="*", result=True)], ["secret", "sunny", "weather", '"bob"'], ["send", "search", "write"]),
    ],
)
def test_what_a_policy_names_of_a_tool_is_nowhere_in_the_file(
    mailed: Path, tools: Sequence[ToolRedaction], gone: Sequence[str], kept: Sequence[str]
) -> None:
    path = mailed.with_suffix(".jsonl")

    exported = export_log(mailed, path, redaction=Redaction(tools=tuple(tools)))

    content = path.read_text("utf-8")
    assert [word for word in gone if word in content] == []
    assert [word for word in kept if word not in content] == []
    _is_whole(path, events=exported.events)


EVERY_FIELD = (
    *("*.*", "*.*.*", "*.*.*.*", "*.content", "*.reason", "*.by", "*.failure", "*.failure.type", "*.result", "*.value"),
    *("message-accepted.content", "answer-recorded.content", "answer-recorded.content.input", "tool-result.result"),
    *("results-recorded.content", "results-recorded.content.content", "human-approve-required.calls", "tool-edited"),
    *("human-approve-required.calls.arguments", "human-select-required.options", "human-responded", "tool-approved"),
    *("image-registered.*", "image-registered.definition", "container-created", "turn-failed.*"),
)
EVERY_POLICY = [
    *(Redaction(fields=(field,)) for field in EVERY_FIELD),
    *(Redaction(tools=(ToolRedaction(name=name, result=True),)) for name in ("*", "send", "ask_user")),
    Redaction(tools=(ToolRedaction(name="send", arguments=("head.auth", "body")),)),
    Redaction(values=("secret",)),
    Redaction(patterns={"word": "s[ecr]+t|unny|\\("}),
]


@pytest.fixture(scope="module")
def busy() -> Iterator[Path]:
    """A log in which much has happened, also in a branch of a session whose call waits for a person."""
    with tempfile.TemporaryDirectory() as directory:
        world = World()
        world.create("a", "x")
        world.run("a")
        _write_a_mail(world, "a")
        world.answer("a", ReceivedAnswer(message_id="m0", content=(TextBlock("a secret"),), stop_reason="end_turn"))
        for place in PLACES:
            _say(world, place, "the secret (1)", as_number=False)
        world.register_image("i", image.Definition("i", system_prompt="the secret (2)"))
        world.say("a", "once more")
        world.ask("a", ToolUseBlock("t7", "send", {"body": "a last secret"}), ToolUseBlock("t8", "search", {"q": 1}))
        world.branch("a", "b")
        world.report("a", "t8", result="secret")
        world.reject("a", "t7")
        world.run("b")
        world.approve("b", "t7", arguments={"body": "a very last secret"})
        world.report("b", "t7", result={"secret": ["secret"]})
        world.interrupt("b", ReceivedAnswer(message_id="m9", content=(TextBlock("a secret"),)))
        write(world.log, Path(directory, "busy.db"))
        yield Path(directory, "busy.db")


@pytest.mark.parametrize(
    "policy",
    [msgspec.structs.replace(policy, hash_key=[None, b"key"][place % 2]) for place, policy in enumerate(EVERY_POLICY)],
    ids=str,
)
def test_whatever_is_taken_out_what_is_left_says_the_same_everywhere(
    busy: Path, tmp_path: Path, policy: Redaction
) -> None:
    path = tmp_path / "a.jsonl"

    exported = export_log(busy, path, redaction=policy)

    held = _is_whole(path, events=exported.events)
    assert verify_log(path.with_suffix(".imported.db")).findings == ()
    assert [one for one in retrace(held) if one.divergence is not None] == []


def test_the_digests_of_calls_leave_only_with_all_of_their_arguments(busy: Path, tmp_path: Path) -> None:
    def digests(policy: Redaction | None) -> list[str]:
        export_log(busy, tmp_path / "a.jsonl", redaction=policy)
        rows = open_export(tmp_path / "a.jsonl").find(names=["human-approve-required", "tool-approved"])
        asked = [call.digest for row in rows if isinstance(row.event, HumanApproveRequired) for call in row.event.calls]
        return asked + [row.event.digest for row in rows if isinstance(row.event, ToolApproved)]

    said = digests(None)
    without = digests(Redaction(tools=(ToolRedaction(name="send", arguments=("body",)),), hash_key=b"key"))

    assert len(said) == len(without) == 4
    assert not set(said) & set(without)
    assert set(without) == {"[redacted: field]"}
    assert not [digest for digest in said if digest in (tmp_path / "a.jsonl").read_text("utf-8")]
    assert digests(Redaction(fields=("message-accepted.content",))) == said


def test_marks_of_equal_values_are_equal_with_a_key_and_say_nothing_without_it(tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    for text in ("one 4929123412341234", "two 4929123412341234", "three 4929123412345678"):
        world.say("a", text)
    write(world.log, tmp_path / "a.db")
    policy = Redaction(patterns={"card": "[0-9]{16}"})

    def marks(policy: Redaction) -> list[str]:
        export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)
        said = open_export(tmp_path / "a.jsonl").find(names=["message-accepted"])
        return [text_of(row.event.content).split(" ", 1)[1] for row in said if isinstance(row.event, MessageAccepted)]

    with_key = marks(msgspec.structs.replace(policy, hash_key=b"key"))
    assert marks(policy) == ["[redacted: card]"] * 3
    assert with_key[0] == with_key[1] != with_key[2]
    assert with_key != marks(msgspec.structs.replace(policy, hash_key=b"another"))


def test_what_says_nothing_that_a_policy_names_leaves_as_it_is(tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "hello")
    write(world.log, tmp_path / "a.db")

    exported = export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=Redaction(values=("absent",)))

    assert exported.redacted == 0
    assert '"seal"' not in (tmp_path / "a.jsonl").read_text("utf-8")


def test_what_was_redacted_can_be_exported_again_and_redacted_further(tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", f"{KEY} and the plan")
    write(world.log, tmp_path / "a.db", deltas=["the ", "plan"])
    export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=Redaction())
    import_log(tmp_path / "a.jsonl", tmp_path / "b.db")

    export_log(tmp_path / "b.db", tmp_path / "b.jsonl")
    further = export_log(tmp_path / "b.db", tmp_path / "c.jsonl", redaction=Redaction(values=("the plan",)))

    assert (tmp_path / "b.jsonl").read_bytes().splitlines()[1:-1] == (
        (tmp_path / "a.jsonl").read_bytes().splitlines()[1:-1]
    )
    assert "the plan" not in (tmp_path / "c.jsonl").read_text("utf-8")
    _is_whole(tmp_path / "c.jsonl", events=further.events)
    assert import_log(tmp_path / "c.jsonl", tmp_path / "a.db").events == 0


def test_pictures_are_taken_out_with_what_they_are_in(tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "see")
    picture = ImageBlock.from_bytes(b"a picture of the plan", "image/png")
    world.answer("a", ReceivedAnswer(message_id="m", content=(picture, TextBlock("so")), stop_reason="end_turn"))
    write(world.log, tmp_path / "a.db")

    policy = Redaction(fields=("answer-recorded.content",))
    exported = export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)

    assert b64encode(b"a picture of the plan").decode()[:20] not in (tmp_path / "a.jsonl").read_text("utf-8")
    _is_whole(tmp_path / "a.jsonl", events=exported.events)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (Redaction(fields=("message-accepted.contents",)), "no event has such a field"),
        (Redaction(fields=("message_accepted.content",)), "there is no event 'message_accepted'"),
        (Redaction(fields=("*.nothing",)), "no event has such a field"),
        (Redaction(fields=("a..b",)), "names with dots between them"),
        (Redaction(fields=("",)), "names with dots between them"),
        (Redaction(fields=("message-accepted.turn_id",)), "has to stay"),
        (Redaction(fields=("turn-completed.usage",)), "has to stay"),
        (Redaction(fields=("turn-completed.duration",)), "has to stay"),
        (Redaction(fields=("tool-result.is_error",)), "has to stay"),
        (Redaction(fields=("session-branched.origin",)), "has to stay"),
        (Redaction(fields=("agent-stopped.reason",)), "has to stay"),
        (Redaction(fields=("rules-recorded.rules.policies.deny.reason",)), "has to stay"),
        (Redaction(fields=("image-registered.definition.agents.name",)), "has to stay"),
        (Redaction(fields=("image-registered.definition.guards.message",)), "has to stay"),
        (Redaction(fields=("session-created.parent.root",)), "has to stay"),
        (Redaction(fields=("*.*_id",)), "no event has such a field"),
        (Redaction(fields=("answer-recorded.content.name",)), "has to stay"),
        (Redaction(values=("abc",)), "less than 4 characters"),
        (Redaction(hash_key=b""), "1 to 64"),
        (Redaction(hash_key=b"k" * 65), "1 to 64"),
        (Redaction(patterns={"x": "a*"}), "matches the empty text"),
        (Redaction(patterns={"x": "(a"}), "not a regular expression"),
        (Redaction(patterns={"x": "(?=a)a"}), "bounded time"),
    ],
)
def test_a_policy_that_would_keep_nothing_back_or_break_something_is_refused(
    tmp_path: Path, policy: Redaction, why: str
) -> None:
    write(World().log, tmp_path / "a.db")

    with pytest.raises(ConfigurationError, match=why):
        export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)

    assert not (tmp_path / "a.jsonl").exists()


@pytest.mark.parametrize("session_id", [KEY, "a"])
def test_what_would_have_to_be_taken_out_of_an_id_does_not_leave_at_all(tmp_path: Path, session_id: str) -> None:
    world = World()
    world.create(session_id, "x" if session_id == KEY else KEY)
    world.run(session_id)
    write(world.log, tmp_path / "a.db")

    with pytest.raises(RedactionError, match="must stay") as caught:
        export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=Redaction())

    assert not (tmp_path / "a.jsonl").exists()
    assert (KEY in str(caught.value)) == (session_id == KEY and "event" in str(caught.value))


def test_the_call_of_a_tool_that_nobody_has_seen_may_be_any(tmp_path: Path) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "write")
    world.ask("a", ToolUseBlock("t1", "send", {"body": "the plan"}))
    world.branch("a", "b")
    world.run("b")
    world.approve("b", "t1", arguments={"body": "the other plan"})
    world.report("b", "t1", result="sent the other plan")
    write(world.log, tmp_path / "a.db")
    policy = Redaction(tools=(ToolRedaction(name="send", result=True),))

    exported = export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)

    assert "plan" not in (tmp_path / "a.jsonl").read_text("utf-8")
    _is_whole(tmp_path / "a.jsonl", events=exported.events)


def test_what_is_nested_too_deeply_to_be_looked_through_does_not_leave_and_the_rest_does(tmp_path: Path) -> None:
    deep: Any = KEY
    for _ in range(900):
        deep = {"in": deep}
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "the rest")
    world.ask("a", ToolUseBlock("t1", "send", {"body": deep, "to": "ann"}))
    write(world.log, tmp_path / "log.db")

    export_log(tmp_path / "log.db", tmp_path / "whole.jsonl")
    export_log(tmp_path / "log.db", tmp_path / "clean.jsonl", redaction=Redaction())
    import_log(tmp_path / "clean.jsonl", tmp_path / "other.db")

    assert KEY in (tmp_path / "whole.jsonl").read_text()
    clean = (tmp_path / "clean.jsonl").read_text()
    assert KEY not in clean
    assert "the rest" in clean
    assert verify_log(tmp_path / "other.db").findings == ()


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    policy: dict[str, Any] = {
        "fields": ["message-accepted.content"],
        "tools": [{"name": "send", "arguments": ["body"]}],
        "patterns": {"card": "[0-9]{16}"},
        "values": ["hunter22"],
        "secrets": False,
    }
    (tmp_path / "policy.json").write_text(json.dumps(policy))

    read = read_redaction(tmp_path / "policy.json", hash_key=b"k")

    assert msgspec.to_builtins(msgspec.structs.replace(read, hash_key=None)) == {
        **policy,
        "fields": ("message-accepted.content",),
        "tools": ({"name": "send", "arguments": ("body",), "result": False},),
        "values": ("hunter22",),
        "hash_key": None,
    }
    assert read.hash_key == b"k"
    assert "hunter22" not in repr(read)


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"field": []}', b'{"fields": "a"}', b"\xff", b'{"hash_key": "aaaa"}', b"[" * 9999]
)
def test_a_file_that_is_no_policy_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "policy.json").write_bytes(content)

    with pytest.raises(ConfigurationError, match=r"policy\.json"):
        read_redaction(tmp_path / "policy.json")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_redaction(tmp_path / "missing.json")


@pytest.mark.parametrize(
    "policy",
    [
        Redaction(tools=(ToolRedaction(name="send"),)),
        Redaction(fields=("answer-recorded.content.input",)),
        Redaction(values=("okapi",)),
    ],
    ids=["tools", "fields", "values"],
)
def test_what_is_heard_of_a_call_says_no_more_than_what_is_left_of_it(tmp_path: Path, policy: Redaction) -> None:
    world = World()
    world.create("a", "x")
    world.run("a")
    world.say("a", "Send it")
    world.ask("a", ToolUseBlock("t1", "send", {"to": "okapi"}))
    world.approve("a")  # the call starts in a step of which no event says the arguments
    write(world.log, tmp_path / "a.db")

    export_log(tmp_path / "a.db", tmp_path / "a.jsonl", redaction=policy)
    import_log(tmp_path / "a.jsonl", tmp_path / "b.db", synchronous="OFF")

    assert "okapi" not in (tmp_path / "a.jsonl").read_text("utf-8")
    with SqliteJournal.open(tmp_path / "b.db", codec(), read_only=True) as journal:
        entries = [entry for row in journal.read_feed("session/a") for one in row.segments for entry in one.entries]
    (started,) = [entry.data for entry in entries if entry.type == "tool_started"]
    assert isinstance(started, ToolStarted)
    assert started.name == "send"
    assert "[redacted: " in str(started.input)
    assert verify_log(tmp_path / "b.db").is_whole
