"""What goes to the model beside what is typed: files that a message names, and the output of shell commands."""

from __future__ import annotations

import os
from base64 import b64decode
from pathlib import Path

import pytest

from reenact.cli.attachments import MOST, MOST_OF_TEXT, attached, paths
from reenact.domain.attachments import Base64Source, DocumentBlock, ImageBlock
from reenact.domain.errors import InvalidInputError
from reenact.domain.messages import TextBlock
from reenact.terminal import SpecialKey
from reenact.testing import FakeMessagesAPI
from tests.cli.conftest import PROMPT, Chat, ask

PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PDF = b"%PDF-1.7\n\xff\xfe"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current directory, in which there are files of all kinds."""
    for name, content in {
        "notes.txt": b"remember the milk\n",
        "my notes.txt": b"and the bread\n",
        "photo.jpeg": PNG,
        "paper.pdf": PDF,
        "noise.bin": b"\xff\xfe\0",
        "sub/deep.md": b"deep",
        "critic": b"a file of that name",
        ".hidden": b"x",
        "large.txt": b"x" * (MOST_OF_TEXT + 1),
        "larger.png": PNG + b"\0" * MOST,
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "sub"))
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("text", "files", "said"),
    [
        ("no file here", [], []),
        ("mail ada@notes.txt", [], []),
        ("@notes.txt", ["notes.txt"], ["Attached: notes.txt (18 bytes)"]),
        ("see (no) @notes.txt, please", ["notes.txt"], ["Attached: notes.txt (18 bytes)"]),
        ('@"my notes.txt" and\n@sub/deep.md.', ["my notes.txt", "sub/deep.md"], None),
        ("@~/deep.md", ["deep.md"], None),
        ("@critic what of @critic", ["critic"], None),
        ("what of @critic", ["critic"], None),
        ("@tool @~nobody-of-this-name", [], []),
        ("@missing.txt", [], ["There is no file missing.txt: nothing is attached for it."]),
        ("@sub", [], ["sub is a folder: nothing is attached for it."]),
        ("@" + "x" * 5000 + "/a", [], None),
    ],
)
def test_a_message_has_the_files_that_it_names(text: str, files: list[str], said: list[str] | None) -> None:
    told: list[str] = []

    blocks = attached(text, {"@critic"}, told.append)

    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    assert len(texts) == len(blocks) == len(files)
    assert all(name in one.partition(":")[0] for name, one in zip(files, texts, strict=True))
    assert said is None or told == said


@pytest.mark.usefixtures("folder")
def test_images_and_pdf_files_are_attached_as_what_they_are_whatever_they_are_called() -> None:
    image, paper = attached("@photo.jpeg @paper.pdf", (), lambda _: None)

    assert isinstance(image, ImageBlock)
    assert isinstance(image.source, Base64Source)
    assert (image.source.media_type, b64decode(image.source.data)) == ("image/png", PNG)
    assert isinstance(paper, DocumentBlock)
    assert isinstance(paper.source, Base64Source)
    assert (paper.title, paper.source.media_type, b64decode(paper.source.data)) == ("paper.pdf", "application/pdf", PDF)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("noise.bin", "neither UTF-8 text nor an image nor a PDF"),
        ("large.txt", "more than 262,144 bytes of text"),
        ("larger.png", "more than 5,242,880 bytes"),
        ("pipe", "not a regular file"),
        ("/dev/zero", "not a regular file"),
    ],
)
def test_what_cannot_be_attached_is_refused(name: str, why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        attached(f"see @{name}", (), lambda _: None)


def test_a_file_without_content_for_now_as_in_proc_is_not_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reenact.cli.attachments.Path.is_file", Path.exists)  # as for /proc/kmsg
    writer = os.open(folder / "pipe", os.O_RDWR)
    told: list[str] = []

    attached("@pipe", (), told.append)
    os.write(writer, b"<6>up")
    attached("@pipe", (), told.append)
    os.close(writer)

    assert told == ["Attached: pipe (0 bytes)", "Attached: pipe (5 bytes)"]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("begun", "found"),
    [
        ("no", ["noise.bin", "notes.txt"]),
        ("su", ["sub/"]),
        ("sub/", ["sub/deep.md"]),
        ("./sub/d", ["./sub/deep.md"]),
        ("~/", ["~/deep.md"]),
        (".h", [".hidden"]),
        ("nowhere/", []),
        ("~nobody-of-this-name/", []),
        ("a\0/", []),
        ("notes.txt/", []),
    ],
)
def test_paths_are_completed(begun: str, found: list[str]) -> None:
    assert [*paths(begun)] == found


def test_a_file_is_completed_and_goes_to_the_model_with_the_message(
    chat: Chat, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk\n")
    terminal = chat()

    terminal.write("Explain @not")
    terminal.wait_for("notes.txt")
    terminal.send_key(SpecialKey.TAB)
    terminal.wait_until(lambda screen: "> Explain @notes.txt" in screen.lines, what="the whole name")
    terminal.send_key(SpecialKey.ENTER)
    terminal.wait_for("Attached: notes.txt (18 bytes)")
    terminal.wait_for("Hello from the fake API!")
    terminal.wait_for(PROMPT)
    terminal.send_line("@missing.txt ?")
    terminal.wait_for("There is no file missing.txt")
    terminal.wait_for("Hello from the fake API!")

    question, file = claude.requests[0].body["messages"][-1]["content"]
    assert question["text"] == "Explain @notes.txt"
    assert (file["type"], file["text"]) == ("text", "\n\nThe file notes.txt:\n\nremember the milk\n")
    assert [block["text"] for block in claude.requests[1].body["messages"][-1]["content"]] == ["@missing.txt ?"]


def test_a_shell_command_runs_after_asking_and_the_next_message_has_what_it_printed(
    chat: Chat, claude: FakeMessagesAPI, tmp_path: Path
) -> None:
    terminal = chat(SHELL="/bin/sh")

    terminal.send_line("!echo one; echo $ANTHROPIC_API_KEY two >&2; exit 3")
    terminal.wait_for("Run it? [y]es, [n]o, [a]lways in this chat:")
    nothing_yet = not (tmp_path / "done").exists()
    terminal.send_line("y")
    terminal.wait_for("It ended with exit code 3.")
    printed = terminal.wait_for(PROMPT)
    terminal.send_line("!touch done")
    terminal.wait_for("Run it?")
    ask(terminal, "n", "It was not run.")
    ask(terminal, "Why?", "Hello from the fake API!")
    terminal.send_line("And now?")
    terminal.wait_for("Hello from the fake API!")

    told, question = claude.requests[0].body["messages"][-1]["content"]
    assert printed
    assert nothing_yet
    assert not (tmp_path / "done").exists()
    assert told["text"].endswith("It ended with exit code 3. It printed:\n\none\ntwo\n\n")
    assert "echo one" in told["text"]
    assert question["text"] == "Why?"
    assert [block["text"] for block in claude.requests[1].body["messages"][-1]["content"]] == ["And now?"]


def test_a_shell_command_that_is_allowed_for_the_chat_is_not_asked_about_and_ctrl_c_ends_it(
    chat: Chat, tmp_path: Path
) -> None:
    terminal = chat(SHELL="/bin/sh")

    terminal.send_line("!echo first")
    terminal.wait_for("Run it?")
    ask(terminal, "a", "The model is told")
    terminal.send_line("!touch begun; sleep 100")
    terminal.wait_until(lambda _: (tmp_path / "begun").exists(), what="the command")
    terminal.send_key(SpecialKey.CTRL_C)
    terminal.wait_for("It was interrupted.")
    terminal.wait_for(PROMPT)
    terminal.send_line("exit")

    assert terminal.wait_for_exit().code == 0
    assert "begun; sleep 100" not in terminal.get_stripped_output().partition("Run it?")[0]


def test_what_was_typed_ahead_does_not_let_a_shell_command_run(chat: Chat, tmp_path: Path) -> None:
    terminal = chat(SHELL="/bin/sh")

    terminal.write("!touch done\ry\r")
    terminal.wait_for("Run it?")
    terminal.send_line("no")
    terminal.wait_for("It was not run.")

    assert not (tmp_path / "done").exists()
