"""Keys send what xterm's send, and a program at a terminal takes it for those keys."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.keys import Keys

from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType
from reenact.terminal.screen.model import Modes
from reenact.terminal.session.emulator import TerminalEmulator
from reenact.terminal.session.keys import SpecialKey, encode, paste
from reenact.testing import wait_until
from tests.examples import examples
from tests.terminal.raising import raises
from tests.terminal.session.conftest import Start
from tests.terminal.session.programs import RAW_CAT, READY, shell

NORMAL: Final = Modes()
APPLICATION: Final = Modes(application_cursor=True, application_keypad=True)
MODES: Final = [NORMAL, APPLICATION, Modes(application_cursor=True), Modes(application_keypad=True)]
OTHER_NAMES: Final = {
    "enter": "c-m",
    "tab": "c-i",
    "shift+tab": "s-tab",
    "backspace": "c-h",
    "space": " ",
    "ctrl+space": "c-@",
    "ctrl+[": "escape",
    "page_up": "pageup",
    "page_down": "pagedown",
}
"""What prompt_toolkit calls them."""
MOVING: Final = ("up", "down", "left", "right", "home", "end")
MODIFIED: Final = (*MOVING, "delete", "page_up", "page_down")
KEYPAD: Final = {
    **{f"kp_{digit}": str(digit) for digit in range(10)},
    "kp_add": "+",
    "kp_subtract": "-",
    "kp_multiply": "*",
    "kp_divide": "/",
    "kp_decimal": ".",
    "kp_equal": "=",
    "kp_separator": ",",
    "kp_enter": "\r",
}
TAKEN_FOR: Final = [key for key in SpecialKey if key not in KEYPAD]


def understood(sent: bytes) -> list[str]:
    """Return the keys that a program takes the bytes for: an implementation that is not ours says so."""
    pressed: list[KeyPress] = []
    parser = Vt100Parser(pressed.append)
    parser.feed_and_flush(sent.decode())
    return [key.key.value if isinstance(key.key, Keys) else key.key for key in pressed]


def name_elsewhere(key: str) -> str:
    return OTHER_NAMES.get(key, key.replace("ctrl+", "c-"))


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(st.sampled_from(TAKEN_FOR), st.booleans()), min_size=1, max_size=40))
def test_property_05_special_key_encoding(keys: list[tuple[SpecialKey, bool]]) -> None:
    """Property 05: Special Key Encoding (requirements 1.6)."""
    script = r"stty raw -echo; printf 'ready\r\n'; head -c 1 >/dev/null; printf '\033[?1h'; exec cat -u"
    for is_application in (False, True):
        chosen = [key for key, in_application in keys if in_application is is_application]
        with TerminalEmulator(shell(script) if is_application else RAW_CAT) as terminal:
            terminal.wait_for(READY)
            if is_application:
                terminal.write(".")
                terminal.wait_until(lambda screen: screen.modes.application_cursor, what="the application mode")
            begin = len(terminal.get_output_bytes())

            for key in chosen:
                terminal.send_key(key)
                # A mark behind each: an escape is told from the beginning of a sequence by what follows it.
                terminal.write("#")

            wait_until(lambda: terminal.get_output_bytes().count(b"#") == len(chosen), what="all keys")  # noqa: B023 - asked now
            arrived = terminal.get_output_bytes()[begin:].split(b"#")[:-1]
            assert [understood(sent) for sent in arrived] == [[name_elsewhere(key)] for key in chosen]


@pytest.mark.parametrize("modes", MODES, ids=["normal", "application", "application cursor", "application keypad"])
def test_requirement_1_6_every_special_key_is_understood_in_every_mode(modes: Modes) -> None:
    sent = {key: encode(key, modes) for key in TAKEN_FOR}

    assert {key: understood(sequence) for key, sequence in sent.items()} == {
        key: [name_elsewhere(key)] for key in TAKEN_FOR
    }


@given(
    st.sampled_from(MODIFIED),
    st.sampled_from(MODES),
    st.sampled_from([(True, False), (False, True), (True, True)]),
)
def test_modifiers_of_keys_that_move_are_understood(key: str, modes: Modes, held: tuple[bool, bool]) -> None:
    assume(key not in {"up", "down"} or not all(held))  # these two are mixed up in its table
    shift, ctrl = held

    sent = encode(key, modes, shift=shift, ctrl=ctrl)

    prefix = {(True, False): "s-", (False, True): "c-", (True, True): "c-s-"}[held]
    assert understood(sent) == [prefix + name_elsewhere(key)]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("shift+up", b"\x1b[1;2A"),
        ("alt+up", b"\x1b[1;3A"),
        ("alt+shift+up", b"\x1b[1;4A"),
        ("ctrl+up", b"\x1b[1;5A"),
        ("ctrl+shift+up", b"\x1b[1;6A"),
        ("ctrl+alt+up", b"\x1b[1;7A"),
        ("ctrl+alt+shift+up", b"\x1b[1;8A"),
        ("shift+f1", b"\x1b[1;2P"),
        ("ctrl+f12", b"\x1b[24;5~"),
        ("alt+delete", b"\x1b[3;3~"),
        ("shift+enter", b"\r"),
        ("alt+enter", b"\x1b\r"),
        ("ctrl+backspace", b"\b"),
        ("alt+backspace", b"\x1b\x7f"),
        ("alt+shift+tab", b"\x1b\x1b[Z"),
        ("ctrl+alt+space", b"\x1b\0"),
        ("alt+escape", b"\x1b\x1b"),
        ("a", b"a"),
        ("é", "é".encode()),
        ("+", b"+"),
        ("-", b"-"),
        (" ", b" "),
        ("\n", b"\n"),
        ("shift+a", b"A"),
        ("alt+x", b"\x1bx"),
        ("alt++", b"\x1b+"),
        ("ctrl+A", b"\x01"),
        ("ctrl+/", b"\x1f"),
        ("ctrl+?", b"\x7f"),
        ("ctrl+2", b"\0"),
        ("Ctrl+Alt+X", b"\x1b\x18"),
        ("Page Up", b"\x1b[5~"),
        ("PgDn", b"\x1b[6~"),
        ("page-down", b"\x1b[6~"),
        ("Esc", b"\x1b"),
        ("Return", b"\r"),
    ],
)
def test_keys_can_be_said_as_people_say_them(key: str, expected: bytes) -> None:
    assert encode(key, NORMAL) == expected


@given(st.sampled_from(sorted(KEYPAD)), st.sampled_from(MODES))
def test_the_keypad_sends_characters_or_in_its_application_mode_sequences(key: str, modes: Modes) -> None:
    sent = encode(key, modes)

    if not modes.application_keypad:
        assert sent == KEYPAD[key].encode()
    else:
        # In the VT100's keypad mode the final character is the key's own, moved by 64; Enter and `=` are further off.
        final = {"kp_enter": b"M", "kp_equal": b"X"}.get(key) or bytes([ord(KEYPAD[key]) + 64])
        assert sent == b"\x1bO" + final


def test_no_two_keys_send_the_same_but_those_that_are_the_same_to_a_terminal() -> None:
    same = [{"enter", "ctrl+m"}, {"tab", "ctrl+i"}, {"escape", "ctrl+["}]

    for one, other in product(TAKEN_FOR, TAKEN_FOR):
        is_same = one == other or {one.value, other.value} in same
        assert (encode(one, NORMAL) == encode(other, NORMAL)) is is_same


@pytest.mark.parametrize(
    "wrong", ["", "ctrl", "ctrl+", "hyper+a", "f13", "ab", "ctrl+é", "ctrl+1", "shift+1", "shift+ß", "up+down", None, 3]
)
def test_a_key_that_there_is_not_is_refused_with_those_there_are(wrong: str) -> None:
    with raises(TerminalTestErrorType.INVALID_CONFIG, "key: "):
        encode(wrong, NORMAL)


def test_the_names_of_keys_are_listed_where_one_is_wrong() -> None:
    with pytest.raises(TerminalTestError, match="there is no key 'upp'; say a character, or one of backspace, delete"):
        encode("upp", NORMAL)


def test_a_paste_is_in_brackets_if_the_program_asked_for_them(start: Start) -> None:
    script = r"stty raw -echo; printf '\033[?2004hready\r\n'; head -c 17 | tr '\033' E; exec sleep 60"
    terminal = start(*shell(script))
    terminal.wait_for(READY)

    terminal.paste("a\r\nb\nc")

    terminal.wait_for("E[200~a\rb\rcE[201~")


def test_a_paste_without_brackets_is_as_if_it_was_typed() -> None:
    assert paste("a\nb", NORMAL) == b"a\rb"
    with raises(TerminalTestErrorType.INVALID_CONFIG, "would end the paste"):
        paste("a\x1b[201~rm", Modes(bracketed_paste=True))


def test_keys_follow_what_the_program_asks_for(start: Start) -> None:
    read = r"head -c 3 | tr '\033' E"
    terminal = start(*shell(rf"stty raw -echo; printf 'ready\r\n'; {read}; printf '\033[?1h|'; {read}; exec sleep 60"))
    terminal.wait_for(READY)

    terminal.send_key(SpecialKey.UP)
    assert terminal.wait_for("|") == "E[A|"
    terminal.send_key(SpecialKey.UP)

    terminal.wait_for("EOA")


def test_ctrl_d_ends_the_input(start: Start) -> None:
    terminal = start("/bin/cat")

    terminal.send_key(SpecialKey.CTRL_D)

    assert terminal.wait_for_exit().success
