"""Sequences taken out of text, or made into tokens."""

from __future__ import annotations

from reenact.terminal.ansi.plain import extracted
from reenact.terminal.ansi.stripper import ANSIStripper
from reenact.terminal.ansi.tokenizer import ANSITokenizer
from reenact.terminal.ansi.tokens import ANSIToken
from reenact.terminal.errors import TerminalTestError, TerminalTestErrorType


class ANSIParser:
    """Reads what a program wrote to its terminal: text, and the sequences of ECMA-48 and xterm in it.

    `reenact.terminal.ansi.grammar` says what a sequence is. All methods take any text, in time that grows with its
    length, and raise `TerminalTestError` (`INVALID_CONFIG`) for what is no text.
    """

    def strip(self, text: str) -> str:
        """Return the text without sequences; all else is as it was.

        Control characters outside sequences stay: tab, newline, backspace, bell, even CAN. A sequence goes whole, with
        the control characters in it, and with CAN or SUB if they end it; so does one that does not end. Of the
        characters U+0080 to U+009F none stays. Nothing is carried out: a backspace deletes nothing.
        """
        return ANSIStripper().feed(_checked(text))

    def parse(self, text: str) -> list[ANSIToken]:
        """Return the tokens, of which no two neighbours are texts; each has the style that all before it add up to.

        The contents, joined, are the text. A sequence that does not end is the last token, and not `complete`.
        """
        tokenizer = ANSITokenizer()
        tokens = tokenizer.feed(_checked(text))
        return [*tokens, *tokenizer.close()]

    def extract_text(self, text: str) -> str:
        r"""Return the lines that a reader would be left with, where `strip` returns what was written.

        As `strip`, and then: newline, vertical tab, form feed and NEL end a line, CR before them or not, and each is
        `"\n"` in the result. CR goes back to the beginning of the line and backspace one character to the left, and
        what is written there replaces what stood there. Erasing in a line (EL) is done: behind the cursor (`CSI K`), or
        the whole line (`CSI 2 K`). Tabs stay; other control characters go. Movements between lines and to columns are
        not done, and a character counts as one column: for more, ask the screen of an emulator.
        """
        return extracted(_checked(text))


def _checked(text: object) -> str:
    if not isinstance(text, str):
        problem = f"text is {type(text).__name__}, and must be str; decode bytes first"
        raise TerminalTestError(TerminalTestErrorType.INVALID_CONFIG, problem)
    return text
