"""What was typed in earlier chats, and all that may be wrong with the file in which it is."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reenact.cli.editor.history import MOST_BYTES, MOST_ENTRIES, FileHistory, NoHistoryError
from tests.examples import examples

TEXTS = st.lists(st.text(min_size=1, max_size=40).filter(str.strip), max_size=8)


def ignored(what: str) -> None:
    """Take a warning that no test asks about."""
    del what


def entries_in(path: Path) -> list[str]:
    """Return what a chat that begins now would find, oldest first."""
    return [*FileHistory(path, ignored).load_history_strings()][::-1]


def remember(path: Path, *texts: str) -> FileHistory:
    """Type these in a chat."""
    typed = FileHistory(path, ignored)
    for text in texts:
        typed.append_string(text)
    typed.write()
    return typed


def without_repetitions(texts: list[str]) -> list[str]:
    """Return the texts as they can be written, without those that are the same as the one before."""
    written = [text.encode("utf-8", "replace").decode() for text in texts]
    return [text for at, text in enumerate(written) if at == 0 or text != written[at - 1]]


@settings(max_examples=examples(30))
@given(TEXTS, TEXTS)
def test_what_was_typed_comes_back_whole_in_two_chats(
    tmp_path_factory: pytest.TempPathFactory, first: list[str], second: list[str]
) -> None:
    path = tmp_path_factory.mktemp("state") / "history"

    remember(path, *first)
    remember(path, *second)

    assert entries_in(path) == without_repetitions(first + second)


def test_two_chats_at_once_do_not_lose_what_the_other_one_says(tmp_path: Path) -> None:
    path = tmp_path / "history"
    one, other = FileHistory(path, ignored), FileHistory(path, ignored)

    for number in range(3):
        one.append_string(f"one {number}\nand more")
        one.write()
        other.append_string(f"other {number}")
        other.write()

    assert entries_in(path) == [
        f"{who} {n}{more}" for n in range(3) for who, more in (("one", "\nand more"), ("other", ""))
    ]


def test_what_one_chat_trims_the_other_goes_on_with(tmp_path: Path) -> None:
    path = tmp_path / "history"
    remember(path, *map(str, range(MOST_ENTRIES)))
    one = FileHistory(path, ignored)

    remember(path, "too many")
    FileHistory(path, ignored)
    one.append_string("from the first")
    one.write()

    assert entries_in(path) == [*map(str, range(2, MOST_ENTRIES)), "too many", "from the first"]


def test_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "state" / "history"
    remember(path, "a secret")
    path.chmod(0o644)

    remember(path, "another")

    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_large_file_is_trimmed_to_its_newest_entries(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with path.open("wb") as file:
        file.truncate(100 * MOST_BYTES)  # as good as read: it has a beginning, and the newest are at its end
        file.write(b"\n# long ago\n+old\n")
        file.seek(0, os.SEEK_END)
        for number in range(2 * MOST_ENTRIES):
            file.write(b"\n# now\n+entry %d\n+of two lines\n" % number)

    found = entries_in(path)

    assert found == [f"entry {number}\nof two lines" for number in range(MOST_ENTRIES, 2 * MOST_ENTRIES)]
    assert path.stat().st_size < MOST_BYTES
    assert path.stat().st_mode & 0o777 == 0o600
    assert [*tmp_path.iterdir()] == [path]


def test_an_entry_whose_beginning_is_cut_off_is_no_entry(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_bytes(b"\n# one\n" + b"+a line\n" * (MOST_BYTES // 8) + b"\n# two\n+whole\n")

    assert entries_in(path) == ["whole"]


def test_a_huge_entry_is_remembered_by_its_chat_alone(tmp_path: Path) -> None:
    path = tmp_path / "history"

    typed = remember(path, "small", "x" * MOST_BYTES, "small again")

    assert entries_in(path) == ["small", "small again"]
    assert len(typed.get_strings()) == 3


def binary(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x00\xff\n+no entry\n")


def directory(path: Path) -> None:
    path.mkdir()


def pipe(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/full")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [binary, directory, pipe, device, loop])
def test_what_is_no_history_is_left_alone(tmp_path: Path, make: object) -> None:
    path = tmp_path / "history"
    assert callable(make)
    make(path)
    before = path.read_bytes() if make is binary else b""

    with pytest.raises(NoHistoryError, match="history"):
        FileHistory(path, ignored)

    assert (path.read_bytes() if make is binary else b"") == before


def test_a_disk_that_is_full_loses_an_entry_and_nothing_else_and_tells_it_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "history"
    remember(path, "before")
    told: list[str] = []
    typed = FileHistory(path, told.append)

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        for text in ("lost", "lost as well"):
            typed.append_string(text)
            typed.write()
    typed.append_string("after")
    typed.write()

    assert entries_in(path) == ["before", "after"]
    assert len(told) == 1
    assert "No space left on device" in told[0]


def test_a_history_that_cannot_be_trimmed_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    remember(path, *map(str, range(MOST_ENTRIES)))
    remember(path, "the newest")

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", refuse)

    assert entries_in(path)[-1] == "the newest"


def test_a_link_to_a_history_stays_one(tmp_path: Path) -> None:
    real, link = tmp_path / "kept", tmp_path / "history"
    link.symlink_to(real)

    remember(link, *map(str, range(MOST_ENTRIES + 1)))
    found = entries_in(link)

    assert link.is_symlink()
    assert found == entries_in(real) == [*map(str, range(1, MOST_ENTRIES + 1))]
