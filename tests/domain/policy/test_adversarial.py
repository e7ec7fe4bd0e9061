"""However a denied command or path is written, it is denied, and no rule for something else allows it."""

from __future__ import annotations

import os
import re
import shlex

from hypothesis import assume, given
from hypothesis import strategies as st

from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import command, path
from reenact.domain.policy.rules import Entry, Policy, Rule

RM_IS_DENIED = Policies(
    tools={"bash": Policy("never", (Rule({"command": command("rm")}, "deny"), Rule({}, "never")))}, deny=()
)
RM_IS_LISTED = Policies(deny=(Entry("*", {"command": command("rm")}),))
OTHERS_ARE_ALLOWED = Policies(
    tools={
        "bash": Policy(
            rules=tuple(
                Rule({"command": command(pattern)}, "allow")
                for pattern in ("echo *", "ls", "git status", "git log *", "true *", "cat src/**", "* --version")
            )
        )
    },
    allow=(Entry("bash", {"command": command("make *")}),),
    deny=(),
)
SECRETS_ARE_DENIED = Policies(
    tools={"write": Policy("never", (Rule({"path": path("/srv/secret/**")}, "deny"), Rule({}, "never")))}, deny=()
)
OPEN_IS_ALLOWED = Policies(
    tools={"write": Policy(rules=(Rule({"path": path("/srv/open/**")}, "allow"),))},
    allow=(Entry("write", {"path": path("notes/**", cwd="/srv")}),),
    deny=(),
)


def quoted(letter: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [letter, f"\\{letter}", f"'{letter}'", f'"{letter}"', f"''{letter}", f'{letter}""', f"\\\n{letter}"]
    )


def spelled(word: str) -> st.SearchStrategy[str]:
    return st.tuples(*(quoted(letter) for letter in word)).map("".join)


programs = st.one_of(
    spelled("rm"),
    st.tuples(st.sampled_from(["/bin/", "./", "../bin//", "~/x/", "$HOME/", '"$X"/', "/usr/*/"]), spelled("rm")).map(
        "".join
    ),
    st.sampled_from(
        [
            "$X",
            '"$X"',
            "${X:-rm}",
            "$(echo rm)",
            "`echo rm`",
            "r?",
            "[r]m",
            "{rm,a}",
            "$'\\x72m'",
            'r"$1"m',
            "RM",
            "rm.exe",
        ]
    ),
)
blanks = st.sampled_from([" ", "  ", "\t", " \\\n"])
simple = st.tuples(programs, blanks, st.sampled_from(["", "-rf /", "a", "'a b'", "$X", "> a", "2>&1", "*"])).map(
    "".join
)
others = st.sampled_from(
    [
        "ls",
        "echo 'it'",
        'echo "a b"',
        "echo a\\'b",
        "echo a#b",
        "echo $# ${#x}",
        "echo ${x%\\}}",
        "git status",
        "true",
        "X=1",
        'echo "$(ls)"',
        "echo `ls`",
        "cat <<E\n'\nE\n",
        "cat <<'E'\n`\nE\n",
        'cat <<-E\n\t"\n\tE\n',
        "ls # it's\n",
        "f() { ls; }",
        "[[ a == b ]]",
        "echo >&2",
        "x=(a b)",
    ]
)


def quoted_script(text: str) -> st.SearchStrategy[str]:
    escaped = "".join(f"\\{letter}" if letter in '\\"$`' else letter for letter in text)
    return st.sampled_from([shlex.quote(text), f'"{escaped}"'])


def wrapped(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """Return ways to have a shell run what runs in the inner one."""
    forms = st.sampled_from(
        [
            "({})",
            "{{ {}; }}",
            "{{ {}\n}}",
            "! {}",
            "echo $({})",
            'echo "a $({}) b"',
            "X=$({}) ls",
            "echo ${{x:-$({})}}",
            "echo $((1 + $({})))",
            "cat <({})",
            "cat > >({})",
            "if {}; then ls; fi",
            "if ls; then {}; fi",
            "while {}; do break; done",
            "for x in a; do {}; done",
            "f() {{ {}; }}; f",
            "function f {{ {}; }}; f",
            "X=1 {}",
            "> a {}",
            "sudo {}",
            "env -i {}",
            "command {}",
            "nohup {}",
            "timeout 5 {}",
            "ls | xargs {}",
            "sh <<E\n{}\nE",
            "cat <<E\n$({})\nE",
            "coproc {}",
        ]
    )
    scripts = st.sampled_from(
        ["sh -c {}", "bash -lc {}", "eval {}", "trap {} EXIT", "ssh host {}", "bash <<< {}", "echo {} | sh"]
    )
    joints = st.sampled_from([";", " ; ", "\n", "\r\n", " && ", "||", " | ", " |& ", " & "])
    return st.one_of(
        st.tuples(forms, inner).map(lambda two: two[0].format(two[1])),
        st.tuples(scripts, inner.flatmap(quoted_script)).map(lambda two: two[0].format(two[1])),
        st.tuples(others, joints, inner).map("".join),
        st.tuples(inner, joints, others).map("".join),
    )


running_rm = st.recursive(simple, wrapped, max_leaves=4)


@given(running_rm)
def test_a_denied_command_is_denied_however_it_is_written(text: str) -> None:
    assert judge(RM_IS_DENIED, "bash", {"command": text}).decision == "deny", text
    assert judge(RM_IS_LISTED, "bash", {"command": text}).decision == "deny", text


@given(running_rm)
def test_a_command_is_not_allowed_by_what_stands_around_it(text: str) -> None:
    assert judge(OTHERS_ARE_ALLOWED, "bash", {"command": text}).decision != "run", text


@given(running_rm, st.integers(0, 60), st.sampled_from("'\"\\$`(){}<>|&;\n #!*?[]~=\0\r\té"), st.booleans())
def test_no_slip_of_the_pen_makes_a_command_allowed(text: str, place: int, letter: str, inserts: bool) -> None:  # noqa: FBT001 - drawn
    place %= len(text)
    changed = f"{text[:place]}{letter}{text[place + (0 if inserts else 1) :]}"
    assume(not changed.lstrip().startswith(("'", '"')))

    verdict = judge(OTHERS_ARE_ALLOWED, "bash", {"command": changed})

    assert verdict.decision != "run" or shlex.split(changed)[0] in {"echo", "ls", "git", "true", "cat", "make"}, changed


@given(st.text("ab'\"\\ $`;|&()<>\n#*?[]{}~!=", max_size=12))
def test_what_is_allowed_is_one_command_that_a_shell_leaves_as_it_is(text: str) -> None:
    verdict = judge(OTHERS_ARE_ALLOWED, "bash", {"command": f"echo {text}"})

    outside = re.sub(r"'[^']*'|\"[^\"$`\\!]*\"", "q", text.rstrip(" \n"))
    assert (verdict.decision == "run") == (re.fullmatch(r"[abq ~=\]}#]*", outside) is not None and not special(outside))


def special(text: str) -> bool:
    """Return whether a `~` or a `#` begins a word."""
    return re.search(r"(?:^| )[~#]", text) is not None


steps = st.sampled_from(["/", "//", "/./", "/x/../", "/./././", "/x/y/../../"])


def written(*names: str) -> st.SearchStrategy[str]:
    return st.tuples(*(st.tuples(steps, st.just(name)).map("".join) for name in names)).map("".join)


secret_paths = st.one_of(
    written("srv", "secret", "key"),
    written("srv", "open", "..", "secret", "key"),
    written("srv", "SECRET", "Key"),
    st.tuples(st.sampled_from([".", " .", "open/..", "../srv", "x/../."]), written("secret", "key")).map("".join),
    st.tuples(st.sampled_from(["/..", "/../.."]), written("srv", "secret")).map("".join),
    st.sampled_from(["secret", "secret/", "./secret/key ", " /srv/secret/key", "~/../srv/secret/key"]),
)
with_backslashes = secret_paths.map(lambda one: one.replace("/", "\\"))


@given(st.one_of(secret_paths, with_backslashes))
def test_a_denied_path_is_denied_however_it_is_written(text: str) -> None:
    assert judge(SECRETS_ARE_DENIED, "write", {"path": text}, cwd="/srv").decision == "deny", text
    assert judge(OPEN_IS_ALLOWED, "write", {"path": text}, cwd="/srv").decision == "ask", text


names = st.lists(
    st.sampled_from(["srv", "open", "secret", "notes", "..", ".", "", "a", "~", "C:", "\\", "..\\", " "]), max_size=7
)


@given(st.sampled_from(["", "/", "/srv/", "/srv/open/", "notes/", "~", "~/", "\\", " "]), names)
def test_what_is_allowed_lies_where_the_rule_says(start: str, names: list[str]) -> None:
    text = start + "/".join(names)

    verdict = judge(OPEN_IS_ALLOWED, "write", {"path": text}, cwd="/srv", home="/home/me")

    if verdict.decision == "run":
        for reading in (text, text.strip(), text.replace("\\", "/")):
            leads = os.path.normpath(os.path.join("/srv", reading)).replace("//", "/")  # noqa: PTH118 - as the system reads it
            assert leads in {"/srv/open", "/srv/notes"} or leads.startswith(("/srv/open/", "/srv/notes/")), text
