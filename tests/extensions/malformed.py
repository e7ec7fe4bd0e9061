"""Everything that is wrong with an extension: in its front matter, in its text, in its hooks, and with its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Malformed(NamedTuple):
    """What is wrong, the text that has it, the line on which it is, and words that say so."""

    kind: str
    content: bytes
    line: int | None
    why: str


def front_matter(kind: str, header: str, line: int, why: str) -> Malformed:
    return Malformed(kind, f"---\n{header}\n---\nbody".encode(), line, why)


FORBIDDEN = [
    front_matter("a tab before a key", "\tdescription: d", 2, "'\\t'"),
    front_matter("a tab in a mapping", "description: d\nmetadata:\n\ta: b", 4, "'\\t'"),
    front_matter("a tab behind a dash", "description: d\ntools:\n-\t- a", 4, "'\\t'"),
    front_matter("a line that is a tab", "description: d\n\t\nname: x", 3, "'\\t'"),
    front_matter("a key twice", "description: a\ndescription: b", 3, "comes twice"),
    front_matter("a key twice, with quotes", 'description: a\n"description": b', 3, "comes twice"),
    front_matter("a key twice, farther in", "description: d\nmetadata:\n  a: 1\n  a: 2", 5, "comes twice"),
    front_matter("a key twice in braces", "description: d\nmetadata: {a: 1, a: 2}", 3, "comes twice"),
    front_matter("a colon in text", "description: Use when: asked", 2, "quotes"),
    front_matter("a key without a value", "description: d\nfoo", 3, "could not find expected ':'"),
    front_matter("no blank behind a colon", "description:d", 2, "key: value"),
    front_matter("an open list", "description: d\ntools: [a", 3, "expected ',' or ']'"),
    front_matter("an open list before a key", "description: d\ntools: [a\nname: x", 4, "expected ',' or ']'"),
    front_matter("an open mapping", "description: d\nmetadata: {a: b", 3, "expected ',' or '}'"),
    front_matter("no comma in a mapping", "description: d\nmetadata: {a: 1 b: 2}", 3, "expected ',' or '}'"),
    front_matter("an open quotation", 'description: "a', 2, "unexpected end of stream"),
    front_matter("an open single quotation", "description: 'a", 2, "unexpected end of stream"),
    front_matter("an open quotation before keys", 'name: x\ndescription: "a\ntools: b', 4, "unexpected end"),
    front_matter("text behind a list", "description: d\nargument-hint: [a] [b]", 3, "quotes"),
    front_matter("a key that is indented", "description: d\n  name: x", 3, "not allowed here"),
    front_matter("a key that is indented less", "metadata:\n    a: 1\n  b: 2\ndescription: d", 4, "block end"),
    front_matter("an item that is indented less", "tools:\n  - a\n - b\ndescription: d", 4, "block end"),
    front_matter("an indentation that cannot be", "description: |9\n a", 3, "block end"),
    front_matter("a block of no kind", "description: |x\n a", 2, "indentation indicators"),
    front_matter("an anchor", "description: &a b", 2, "anchor"),
    front_matter("an anchor of a mapping", "description: d\nmetadata: &m {a: b}", 3, "anchor"),
    front_matter("an anchor without a name", "description: & x", 2, "expected alphabetic"),
    front_matter("an alias", "description: *a", 2, "alias"),
    front_matter("aliases of aliases", "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\ndescription: d", 2, "anchor"),
    front_matter("a merge key", "description: d\n<<: {name: x}", 3, "`<<` merges nothing"),
    front_matter("a merge key with an alias", "description: d\n<<: *base", 3, "alias"),
    front_matter("a tag", "description: !foo d", 2, "the tag !foo"),
    front_matter("a tag of a text", "description: !!str d", 2, "the tag tag:yaml.org,2002:str"),
    front_matter("a tag of a key", "!!str description: d", 2, "without an anchor or a tag"),
    front_matter("a tag without a name", "description: ! d", 2, "the tag !"),
    front_matter("a tag of Python", "description: !!python/object/apply:os.system ['true']", 2, "python"),
    front_matter("a second document", "description: a\n--- b", 3, ""),
    front_matter("a document behind an end", "description: d\n...\nname: x", 4, "another document"),
    front_matter("a version of YAML", "%YAML 1.2", 2, "begin with `%` are not read"),
    front_matter("a version that there is not", "\n%YAML 1.21", 3, "begin with `%` are not read"),
    front_matter("a version behind a key", "description: d\n%YAML 1.2", 3, ""),
    front_matter("an indicator, @", "description: @foo", 2, "cannot start any token"),
    front_matter("an indicator, `", "description: `foo`", 2, "cannot start any token"),
    front_matter("an indicator, %", "description: %foo", 2, "cannot start any token"),
    front_matter("a control character", "description: a\x07b", 2, "U+0007"),
    front_matter("an escape of a terminal", "description: a\x1b[2Jb", 2, "U+001B"),
    front_matter("a deletion", "description: d\nname: a\x7fb", 3, "U+007F"),
    front_matter("a control character of eight bits", "description: a\x9bb", 2, "U+009B"),
    front_matter("no character", "description: a\ufffeb", 2, "U+FFFE"),
    front_matter("a byte order mark before a key", "\ufeffdescription: d", 2, "byte order mark"),
    front_matter("a byte order mark in a text", "name: x\ndescription: a\ufeffb", 3, "byte order mark"),
    front_matter("an escape that there is not", 'description: "a\\qb"', 2, "unknown escape character 'q'"),
    front_matter("an escape of no number", 'description: "\\xZZ"', 2, "expected escape sequence"),
    front_matter("an escape of half a character", 'description: "\\uD800"', 2, "surrogate"),
    front_matter(
        "an escape of no character", 'name: x\ndescription: "\\U00110000"', 3, "\\U00110000 is not a character"
    ),
    front_matter("a list", "- a\n- b", 2, "key: value"),
    front_matter("a list and a key", "- a\ndescription: d", 3, "block end"),
    front_matter("text", "just text", 2, "key: value"),
    front_matter("keys that are not text", "1: a", 2, "key: value"),
    front_matter("a key that is a list", "description: d\n? [a, b]\n: c", 3, "a key must be"),
    front_matter("a key that is nothing", "description: d\n~: a", 2, "key: value"),
    front_matter("too much of it", f"description: {'a' * 8_000}", 1, "read at most"),
    front_matter("lists in lists", f"description: {'[' * 200}", 2, "deep"),
    front_matter("mappings in mappings", f"description: d\nx: {'{a: ' * 150}1{'}' * 150}", 3, "deep"),
    front_matter(
        "lines in lines", "description: d\nx:\n" + "\n".join(f"{' ' * n}a:" for n in range(1, 115)), 104, "deep"
    ),
    front_matter("a number that Python does not read", f"x: {'9' * 6_000}", 2, "6,000 digits; 1,000 are read at most"),
    front_matter("a number that is too large", "description: d\nx: 1e999", 3, "too large"),
    front_matter("a number", "name: ok\ndescription: 3", 3, "text, not a number; put it in quotes"),
    front_matter("no number", "description: .nan", 2, "text, not a number"),
    front_matter("a list of texts", "description: [a, b]", 2, "text, not a list"),
    front_matter("a mapping", "description: {a: b}", 2, "text, not a mapping"),
    front_matter("a truth", "description: true", 2, "text, not true or false"),
    front_matter("blank", "description: '  '", 2, "is blank"),
    front_matter("too long", f"description: {'a' * 1_025}", 2, "1,024 are used at most"),
    front_matter("a name with blanks", "description: d\nname: my thing", 3, "is not a name"),
    front_matter("a name of another folder", "description: d\nname: ../../etc/passwd", 3, "is not a name"),
    front_matter("a name that is a number", "description: d\nname: 7", 3, "text, not a number"),
    front_matter("a name that is a list", "description: d\nname: [a]", 3, "text, not a list"),
    front_matter("a name that is too long", f"description: d\nname: {'a' * 65}", 3, "is not a name"),
]
"""What is wrong with front matter, of skills, commands and agents alike."""

TEXTS = [
    Malformed("nothing behind front matter", b"---\ndescription: d\n---\n  \n", None, "no text behind"),
    Malformed("front matter without an end", b"---\ndescription: d\nbody", 1, "has no end"),
    Malformed("front matter that is a fence", b"---", 1, "has no end"),
    Malformed("a byte that is none of UTF-8", b"---\ndescription: d\n---\nb\xff\n", 4, "not UTF-8: see byte 24"),
    Malformed("a letter of Latin-1", "---\ndescription: é\n---\nb".encode("latin-1"), 2, "not UTF-8: see byte 17"),
    Malformed("half a character at the end", b"---\ndescription: d\n---\nb\xe2\x82", 4, "not UTF-8: see byte 24"),
    Malformed("a slash in two bytes", b"---\ndescription: \xc0\xaf\n---\nb", 2, "not UTF-8: see byte 17"),
    Malformed("half of a surrogate pair", b"---\ndescription: d\n---\n\xed\xa0\x80", 4, "not UTF-8: see byte 23"),
    Malformed("UTF-16", "---\ndescription: d\n---\nb".encode("utf-16"), 1, "not UTF-8: see byte 0"),
    Malformed("UTF-16 without a mark", "---\ndescription: d\n---\nb".encode("utf-16-le"), 1, "NUL"),
    Malformed("UTF-32", "---\ndescription: d\n---\nb".encode("utf-32"), 1, "not UTF-8: see byte 0"),
    Malformed("two byte order marks", b"\xef\xbb\xbf" * 2 + b"---\ndescription: d\n---\nb", 1, "two byte order marks"),
    Malformed("a NUL", b"---\ndescription: d\n---\nb\0\n", 4, "NUL"),
    Malformed("a NUL in front matter", b"---\ndescription: a\0b\n---\nb", 2, "NUL"),
    Malformed("a program", b"\x7fELF\x02\x01\x01" + b"\0" * 9, 1, "NUL"),
    Malformed("a picture", b"\x89PNG\r\n\x1a\n", 1, "not UTF-8"),
    Malformed("an archive", b"PK\x03\x04\x14\x00\x00\x00", 1, "NUL"),
    Malformed("a page", b"%PDF-1.7\n%\xe2\xe3", 2, "not UTF-8"),
    Malformed("more than is read", b"a" * 1_000_001, None, "1,000,001 bytes; 1,000,000 are read at most"),
]
"""What is wrong with a text, of skills, commands and agents alike."""


def hook(fields: str) -> bytes:
    """Return a file with a hook that has these fields besides its command line, which stands on the second line."""
    return b'{"PreToolUse": [{"hooks": [\n{"command": "x", %s}]}]}' % fields.encode()


def group(fields: str) -> bytes:
    return b'{"PreToolUse": [{%s, "hooks": [\n{"command": "x"}]}]}' % fields.encode()


HOOKS = [
    Malformed("nothing", b"", 1, "not valid JSON"),
    Malformed("words", b"hello", 1, "not valid JSON"),
    Malformed("an array without an end", b'{\n "Stop": [\n}', 3, "not valid JSON"),
    Malformed("a comment on a line", b'{\n// x\n"Stop": []}', 2, "not valid JSON"),
    Malformed("a comment", b'{"Stop": [] /* x */}', 1, "not valid JSON"),
    Malformed("a comma at the end of an object", b'{\n"Stop": [],}', 2, "not valid JSON"),
    Malformed("a comma at the end of an array", b'{"Stop":\n[1,]}', 2, "not valid JSON"),
    Malformed("single quotes", b"{'Stop': []}", 1, "not valid JSON"),
    Malformed("a key without quotes", b"{Stop: []}", 1, "not valid JSON"),
    Malformed("a key that is a number", b"{3: []}", 1, "not valid JSON"),
    Malformed("two values", b"{}\n{}", 2, "not valid JSON: Extra data"),
    Malformed("an escape that there is not", b'{"Stop":\n"\\q"}', 2, "not valid JSON"),
    Malformed("a tab in a text", b'{"Stop":\n"a\tb"}', 2, "not valid JSON"),
    Malformed("a byte order mark inside", b'{\n\xef\xbb\xbf"Stop": []}', 2, "not valid JSON"),
    Malformed("two byte order marks", b"\xef\xbb\xbf\xef\xbb\xbf{}", 1, "two byte order marks"),
    Malformed("no number", b'{"Stop":\nNaN}', 2, "NaN is not a JSON value"),
    Malformed("infinity", b'{"Stop":\n[-Infinity]}', 2, "-Infinity is not a JSON value"),
    Malformed("a number of too many digits", b'{"Stop": %s}' % (b"9" * 6_000), 1, "6,000 digits; 1,000 are read"),
    Malformed("a key twice", b'{"Stop": [],\n\n"Stop": []}', 3, "the key 'Stop' comes twice"),
    Malformed("a key twice, with an escape", b'{"Stop": [],\n"St\\u006fp": []}', 2, "the key 'Stop' comes twice"),
    Malformed("a key twice, farther in", hook('"timeout": 1,\n"timeout": 2'), 3, "the key 'timeout' comes twice"),
    Malformed("arrays in arrays", b"[" * 100_000, 1, "nested more than 100 deep"),
    Malformed("objects in objects", b'{"Stop":\n' * 150 + b"1" + b"}" * 150, 101, "nested more than 100 deep"),
    Malformed("no UTF-8", b'{"Stop":\n"\xff"}', 2, "UTF-8"),
    Malformed("UTF-16", '{"Stop": []}'.encode("utf-16"), 1, "UTF-8"),
    Malformed("a NUL", b'{"Stop":\n"\0"}', 2, "NUL"),
    Malformed("an array", b"[]", 1, "object"),
    Malformed("a number", b"3", 1, "object"),
    Malformed("a text", b'"Stop"', 1, "object"),
    Malformed("null", b"null", 1, "object"),
    Malformed("more than is read", b'{"Stop": [%s]}' % (b" " * 1_000_000), None, "1,000,012 bytes"),
    Malformed("an event beside the others", b'{"hooks": {"Stop": []},\n"PreToolUse": []}', 2, "beside `hooks`"),
    Malformed("a key twice in a matcher's group", group('"matcher": "a",\n"matcher": "b"'), 2, "comes twice"),
]
"""What is wrong with a whole `hooks.json`."""

WRONG_HOOKS = [
    Malformed("events that are a text", b'{"hooks": "x"}', 1, "no hooks for 'hooks'"),
    Malformed("events that are a list", b'{"hooks": []}', 1, "no hooks for 'hooks'"),
    Malformed("an event that there is not", b'{\n"Foo\\ud800": []}', 2, "no hooks for 'Foo\\ud800'"),
    Malformed("an event in small letters", b'{\n"stop": []}', 2, "no hooks for 'stop'"),
    Malformed("an event of Claude Code", b'{\n\n"SubagentStop": []}', 3, "no hooks for 'SubagentStop'"),
    Malformed("groups that are a number", b'{\n"Stop": 3}', 2, "Stop: it must be a list"),
    Malformed("groups that are nothing", b'{\n"Stop": null}', 2, "Stop: it must be a list"),
    Malformed("groups that are an object", b'{\n"Stop": {}}', 2, "Stop: it must be a list"),
    Malformed("a group that is a number", b'{\n"Stop": [\n3]}', 3, "Stop[0]: it must be a list"),
    Malformed("a group that is nothing", b'{"Stop": [\nnull]}', 2, "Stop[0]: it must be a list"),
    Malformed("a group without hooks", b'{"Stop": [\n{}]}', 2, "Stop[0]: it must be a list"),
    Malformed("hooks that are an object", b'{"Stop": [{"hooks": {}}]}', 1, "Stop[0]: it must be a list"),
    Malformed("a hook that is nothing", b'{"Stop": [{"hooks": [\nnull]}]}', 2, "Stop[0].hooks[0]: it must be"),
    Malformed("a hook that is a text", b'{"Stop": [{"hooks": [\n"true"]}]}', 2, "Stop[0].hooks[0]: it must be {"),
    Malformed("a hook that is a list", b'{"Stop": [{"hooks": [\n[]]}]}', 2, "Stop[0].hooks[0]: it must be {"),
    Malformed("no command", b'{"hooks": {"Stop": [{"hooks": [\n{}]}]}}', 2, "`command` must be a command line"),
    Malformed("a blank command", b'{"Stop": [{"hooks": [{"command": " "}]}]}', 1, "`command` must be"),
    Malformed("a command with a NUL", b'{"Stop": [{"hooks": [{"command": "a\\u0000b"}]}]}', 1, "`command` must be"),
    Malformed("half a character", b'{"Stop": [{"hooks": [{"command": "\\ud800"}]}]}', 1, "`command` must be"),
    Malformed("a command that is a list", b'{"Stop": [{"hooks": [{"command": ["true"]}]}]}', 1, "`command` must be"),
    Malformed("a command that is a number", b'{"Stop": [{"hooks": [{"command": 1}]}]}', 1, "`command` must be"),
    Malformed("a hook of another type", hook('"type": "prompt"'), 2, "only `command` is run"),
    Malformed("a type that is a number", hook('"type": 3'), 2, "only `command` is run"),
    Malformed("a type that is nothing", hook('"type": null'), 2, "only `command` is run"),
    Malformed("a condition", hook('"if": "Bash(rm *)"'), 2, "not known here"),
    Malformed("no time", hook('"timeout": 0'), 2, "`timeout` must be"),
    Malformed("a time that is a text", hook('"timeout": "5"'), 2, "`timeout` must be"),
    Malformed("a time that is a truth", hook('"timeout": true'), 2, "`timeout` must be"),
    Malformed("a time that is a list", hook('"timeout": []'), 2, "`timeout` must be"),
    Malformed("a time before the beginning", hook('"timeout": -1'), 2, "`timeout` must be"),
    Malformed("a time without an end", hook('"timeout": 1e999'), 2, "`timeout` must be"),
    Malformed("a matcher that is a number", group('"matcher": 3'), 2, "`matcher` must be text"),
    Malformed("a matcher that is a list", group('"matcher": ["a"]'), 2, "`matcher` must be text"),
    Malformed("a matcher where none matters", group('"matcher": {}').replace(b"PreToolUse", b"Stop"), 2, "`matcher`"),
    Malformed("a matcher that is none", group('"matcher": "("'), 2, "not a valid regular expression"),
    Malformed("a matcher that is too long", group(f'"matcher": "{"a" * 501}"'), 2, "501 characters"),
    Malformed("a condition of a group", group('"if": "Bash(rm *)"'), 2, "beside it could change when it runs"),
]
"""What is wrong with something in a `hooks.json`, of which other hooks are none the worse."""

PLACES = {
    "skills/bad/SKILL.md": "skills/good/SKILL.md",
    "commands/bad.md": "commands/good.md",
    "agents/bad.md": "agents/good.md",
    "hooks.json": "hooks.json",
}
"""Where the file of an extension stands, of each kind, and where another one of the kind does."""


def ten_megabytes(path: Path) -> None:
    path.touch()
    os.truncate(path, 10_000_000)


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_in_a_circle(path: Path) -> None:
    other = path.with_name(f".{path.name}")
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def a_link_out_of_the_project(path: Path) -> None:
    path.symlink_to("/etc/hostname")


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


FILES: list[tuple[Callable[[Path], None], str]] = [
    (ten_megabytes, "it has 10,000,000 bytes; 1,000,000 are read at most"),
    (Path.mkdir, "it is a folder, and must be a file"),
    (os.mkfifo, "it is not a regular file"),
    (a_link_to_nowhere, "it is a link that leads nowhere"),
    (a_link_to_itself, "it is a link in a cycle of links"),
    (a_link_in_a_circle, "it is a link in a cycle of links"),
    (a_link_out_of_the_project, "it is a link that leads out of the project, and is not followed"),
    (a_link_to_a_device, "it is a link that leads out of the project, and is not followed"),
]
"""What is not a file that is read, and what is said of it."""
