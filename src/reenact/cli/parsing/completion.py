"""Shell completion: finds the candidates for the word at which Tab was pressed, and prints the scripts for shells.

Completion runs while somebody types: it is fast, changes nothing, and prints nothing if it fails. The first line of the
answer says whether files are candidates as well; each further line has a candidate, a tab, and a description. No
candidate has a character that is special to a shell.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TextIO, TypeAlias

import msgspec
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from reenact._location import location_of
from reenact.cli.output.console import Console
from reenact.cli.output.streams import discard_output
from reenact.cli.parsing.commands import ALWAYS, options_of
from reenact.cli.parsing.help_page import commands_of
from reenact.cli.parsing.options import CompletionOptions, preferred_database
from reenact.cli.settings.environment import database_of
from reenact.domain.legible import shortened
from reenact.domain.tools import is_array, is_object
from reenact.projections.read_model.opening import newest_sessions

_MOST = 50


def newest_with_words(database: str) -> list[tuple[str, str]]:
    """Return the ids of the newest sessions of a log, newest first, each with the first words of its first message.

    Raises:
        ReenactError: there is no such log, or it cannot be read.
        sqlite3.Error, SQLAlchemyError: the database cannot be read.
    """
    rows = newest_sessions(location_of(database).url, _MOST)
    return [(session, "" if content is None else _text(msgspec.msgpack.decode(content))) for session, content in rows]


def _text(blocks: object) -> str:
    texts: Sequence[object] = [block.get("text") for block in blocks if is_object(block)] if is_array(blocks) else []
    return " ".join(text for text in texts if isinstance(text, str))


_PLAIN = re.compile(r"[A-Za-z0-9_.=-]+")
"""Names without characters that are special to a shell; other names are not offered."""
_KINDS = re.compile(r"[A-Z]{2,}")
_SESSIONS = frozenset({"SESSION", "ID"})
_FILES = frozenset({"FILE", "PATH", "DIR"})
_BREAKS = re.compile(r"[=:@]+")
"""Characters at which bash splits a word."""
_WIDEST = 60

Choice: TypeAlias = tuple[str, str]
"""A candidate and its description."""


def print_script(options: CompletionOptions, console: Console) -> None:
    """Print the script that sets up completion in the shell."""
    program = "reenact" if shutil.which("reenact") else f"{shlex.quote(sys.executable)} -m reenact"
    console.write(_SCRIPTS[options.shell].replace("@PROGRAM@", program).lstrip("\n"))


def complete(words: Sequence[str], root: TyperGroup, environ: Mapping[str, str], out: TextIO) -> int:
    """Print the candidates for the last word, which may be empty; never fails."""
    with suppress(Exception, KeyboardInterrupt):
        lines = list(candidates(words, root, environ))
        encoding = out.encoding or "utf-8"
        out.write("".join(f"{line}\n" for line in lines).encode(encoding, "replace").decode(encoding))
        try:
            out.flush()
        except OSError:  # nobody reads it; avoid an error at exit
            discard_output(out)
    return 0


def candidates(words: Sequence[str], root: TyperGroup, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield whether files are candidates, and then each candidate with a tab and its description."""
    typed, kept = _joined(words or [""])
    place = _Cursor(root, typed[:-1])
    choices, files = place.choices(typed[-1], environ)
    yield "files" if files else "words"
    for value, about in choices:
        if value.startswith(typed[-1]) and _PLAIN.fullmatch(value):
            yield f"{value[kept:]}\t{shortened(' '.join(about.split()), _WIDEST)}"


class _Cursor:
    """The position of the cursor in the command line: in which command, and after which option."""

    _waiting: TyperOption | None = None

    _arguments = 0
    _only_arguments = False

    def __init__(self, root: TyperGroup, words: Iterable[str]) -> None:
        self._root = root
        self._command: TyperCommand | TyperGroup = root
        self._given: dict[str, str] = {}
        for word in words:
            self._advance(word)

    def choices(self, word: str, environ: Mapping[str, str]) -> tuple[list[Choice], bool]:
        """Return the candidates for the word, and whether files are candidates too."""
        if self._waiting is not None:
            return self._values(self._waiting.metavar, word, environ)
        name, is_joined, value = word.partition("=")
        if word.startswith("-") and not self._only_arguments:
            if not is_joined:
                return self._options(), False
            option = options_of(self._command).get(name)
            values, files = ([], False) if option is None else self._values(option.metavar, value, environ)
            return [(f"{name}={choice}", about) for choice, about in values], files
        if isinstance(self._command, TyperGroup) and not self._arguments:
            return list(commands_of(self._command)), False
        arguments = [parameter for parameter in self._command.params if isinstance(parameter, TyperArgument)]
        at = min(self._arguments, len(arguments) - 1)
        if at < 0 or (self._arguments > at and arguments[at].nargs == 1):
            return [], False
        return self._values(arguments[at].metavar, word, environ)

    def _advance(self, word: str) -> None:
        if self._waiting is not None:
            self._given[self._waiting.name] = word
            self._waiting = None
        elif word == "--" and not self._only_arguments:
            self._only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self._only_arguments:
            self._advance_option(word)
        elif isinstance(self._command, TyperGroup) and word in self._command.commands:
            command = self._command.commands[word]
            if isinstance(command, TyperCommand | TyperGroup):
                self._command = command
        else:
            self._arguments += 1

    def _advance_option(self, word: str) -> None:
        known = options_of(self._command)
        name, is_joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
        option = known.get(name)
        if option is None:
            return
        if option.is_flag or is_joined:
            self._given[option.name] = value
        else:
            self._waiting = option

    def _options(self) -> list[Choice]:
        known = options_of(self._command).items()
        fresh = [
            (name, option.help or "") for name, option in known if option.multiple or option.name not in self._given
        ]
        return [*fresh, *((name, "Show this.") for name in ALWAYS)]

    def _values(self, metavar: str | None, word: str, environ: Mapping[str, str]) -> tuple[list[Choice], bool]:
        """Return the candidates for the placeholder of a value, and whether files are candidates too."""
        kinds = set(_KINDS.findall(metavar or ""))
        if metavar and not kinds:
            return [(value, "") for value in metavar.split("|")], False
        found: list[Choice] = []
        if kinds & _SESSIONS:
            with suppress(Exception):
                found += self._sessions(environ)
        if "TYPE" in kinds:
            found += _types(word)
        if "COMMAND" in kinds:
            found += commands_of(self._root)
        return found, bool(kinds & _FILES)

    def _sessions(self, environ: Mapping[str, str]) -> list[Choice]:
        return newest_with_words(database_of(self._given.get("database") or preferred_database(environ), environ))


def _types(word: str) -> list[Choice]:
    """Return the event types, written like the word: the log has dashes in them, and subscribers underscores."""
    from reenact.domain.history.stored import STORED  # noqa: PLC0415 - only if requested

    return [(name.replace("-", "_") if "_" in word else name, "") for name in sorted(STORED)]


def _joined(words: Sequence[str]) -> tuple[list[str], int]:
    """Return the words as they were before bash split them, and how much of the last one bash does not replace."""
    joined: list[str] = []
    begun, kept = False, 0
    for word in words:
        is_break = _BREAKS.fullmatch(word) is not None
        if joined and (is_break or begun):
            kept = len(joined[-1]) + (len(word) if is_break else 0)
            joined[-1] += word
        else:
            kept = 0
            joined.append(word)
        begun = is_break and bool(joined)
    return joined, kept


_BASH = r"""
_reenact_completion() {
    local line value
    local -i widest=0
    local -a lines=() values=()
    COMPREPLY=()
    while IFS= read -r line; do
        lines+=("$line")
    done < <(env _REENACT_COMPLETE=bash @PROGRAM@ "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    (( ${#lines[@]} )) || return 0
    for line in "${lines[@]:1}"; do
        value=${line%%$'\t'*}
        values+=("$value")
        (( ${#value} > widest )) && widest=${#value}
    done
    if (( ${#values[@]} > 1 )) && [[ $COMP_TYPE -eq 63 || $COMP_TYPE -eq 33 ]]; then
        for line in "${lines[@]:1}"; do
            printf -v value '%-*s  %s' "$widest" "${line%%$'\t'*}" "${line#*$'\t'}"
            COMPREPLY+=("$value")
        done
        compopt -o nosort 2>/dev/null
    elif (( ${#values[@]} )); then
        COMPREPLY=("${values[@]}")
    elif [[ ${lines[0]} == files ]]; then
        compopt -o default 2>/dev/null
    fi
    return 0
}
complete -F _reenact_completion reenact
"""

_ZSH = r"""
#compdef reenact
_reenact() {
    local line tab=$'\t'
    local -a lines values shown
    lines=("${(@f)$(env _REENACT_COMPLETE=zsh @PROGRAM@ ${words[2,CURRENT-1]} "$PREFIX" 2>/dev/null)}")
    for line in ${lines[2,-1]}; do
        values+=("${line%%$tab*}")
        shown+=("${line/$tab/  }")
    done
    (( ${#values} )) && compadd -V reenact -l -d shown -a values
    if [[ ${lines[1]} == files ]]; then
        _files
    fi
}
(( ${+functions[compdef]} )) || { autoload -Uz compinit && compinit -i }
compdef _reenact reenact
"""

_FISH = r"""
function __reenact_complete
    set -l words (commandline -opc)
    set -l lines (env _REENACT_COMPLETE=fish @PROGRAM@ $words[2..-1] (commandline -ct) 2>/dev/null)
    if test (count $lines) -gt 1
        printf '%s\n' $lines[2..-1]
    end
    if test "$lines[1]" = files
        __fish_complete_path (commandline -ct)
    end
end
complete -c reenact -f -a '(__reenact_complete)'
"""

_SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
