"""A command line, tested at a terminal: a game with prompts and colours that can be interrupted.

`python at_a_terminal.py play` plays it. It prints:

    it asks, hints and is found: exit code 0
    what it hints is yellow, that it was found is green
    on 30 columns no line is longer: True
    Ctrl+C: it says goodbye, exit code 130
    without a terminal: exit code 2
"""

import subprocess
import sys

from reenact.terminal import SpecialKey, TerminalEmulator

SECRET = 42
YELLOW, GREEN, PLAIN = "\x1b[33m", "\x1b[32m", "\x1b[0m"


def play() -> int:
    """Ask for the number until it is found."""
    if not sys.stdin.isatty():
        print("I play with people: start me at a terminal", file=sys.stderr)
        return 2
    while True:
        try:
            guess = int(input("Which number? "))
        except KeyboardInterrupt:
            print("\nGoodbye.")
            return 130
        except ValueError:
            print("In digits, please.")
            continue
        if guess == SECRET:
            print(f"{GREEN}Found!{PLAIN}")
            return 0
        print(f"{YELLOW}{'Higher' if guess < SECRET else 'Lower'}.{PLAIN}")


def game(cols: int = 80) -> TerminalEmulator:
    return TerminalEmulator(sys.executable, [__file__, "play"], cols=cols)


def test_the_number_is_found() -> None:
    with game() as program:
        for guess, hint in (("50", "Lower"), ("many", "digits"), ("40", "Higher")):
            program.wait_for("Which number?")
            program.send_line(guess)
            program.wait_for(hint)
        program.get_by_text("Higher").expect_style(foreground="yellow")
        program.send_line(str(SECRET))
        program.get_by_text("Found!").expect_style(foreground="green")
        print("it asks, hints and is found:", program.wait_for_exit())
        print("what it hints is yellow, that it was found is green")


def test_it_fits_into_a_narrow_window() -> None:
    with game(cols=30) as program:
        program.wait_for("Which number?")
        print("on 30 columns no line is longer:", all(len(line) <= 30 for line in program.screen.lines))


def test_it_can_be_interrupted() -> None:
    with game() as program:
        program.wait_for("Which number?")
        program.wait_idle(0.5)  # it has asked, and is about to listen
        program.send_key(SpecialKey.CTRL_C)
        program.wait_for("Goodbye.")
        print("Ctrl+C: it says goodbye,", program.wait_for_exit())


def test_without_a_terminal_it_says_what_to_do() -> None:
    ran = subprocess.run([sys.executable, __file__, "play"], input="1\n", capture_output=True, text=True, check=False)
    assert "start me at a terminal" in ran.stderr
    print("without a terminal: exit code", ran.returncode)


if __name__ == "__main__":
    if sys.argv[1:] == ["play"]:
        sys.exit(play())
    test_the_number_is_found()
    test_it_fits_into_a_narrow_window()
    test_it_can_be_interrupted()
    test_without_a_terminal_it_says_what_to_do()
