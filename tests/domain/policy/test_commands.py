"""Which commands a text may make a shell run."""

from __future__ import annotations

import time

import pytest

from reenact.domain.errors import ConfigurationError
from reenact.domain.policy import shell
from reenact.domain.policy.matchers import command, ready
from reenact.domain.policy.patterns import Found, Match, MatchContext
from reenact.domain.policy.shell import MAX_COMMANDS, MAX_WORDS, read_script

YES, PARTLY, UNKNOWN, NO = Match.YES, Match.PARTLY, Match.UNKNOWN, Match.NO


def found(pattern: str, value: object) -> Found:
    return ready(command(pattern))(value, MatchContext())


def match(pattern: str, value: object) -> Match:
    return found(pattern, value).match


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("git status", "git status"),
        ("git status", "  git   status \n"),
        ("git status", "git 'status'"),
        ("wait", "wait"),
        ("git status", '"git" sta"tus"'),
        ("git log *", "git log"),
        ("git log *", "git log --oneline -5 HEAD^ HEAD~1 a/../b"),
        ("git commit -m *", "git commit -m 'It is; done && dusted'"),
        ("git commit -m *", "git commit -m \"a $ is 'here'\"".replace("$ ", "")),
        ("* --version", "git --version"),
        ("make {build,test}", "make test"),
        ("cat src/*.py", "cat src/a.py"),
        ("cat src/**", "cat src/a/b"),
        ("cat ?.txt", "cat a.txt"),
        (r"echo \*", "echo '*'"),
        (r"echo a\ b", "echo 'a b'"),
        ("./run", "./run"),
        ("bash x.sh", "bash x.sh"),
        ("echo 你好", "echo 你好"),
        ("git status", ["git", "status"]),
        ("git commit -m *", ("git", "commit", "-m", "a; b && $(c) `d` 'e\n")),
    ],
)
def test_one_simple_command_matches_for_sure(pattern: str, value: object) -> None:
    assert match(pattern, value) is YES


@pytest.mark.parametrize(
    ("pattern", "value"),
    [
        ("git status", "git status -s"),
        ("git status", "git"),
        ("git log *", "git"),
        ("cat src/*", "cat src/../a"),
        ("cat src/*", "cat src/a/b"),
        ("cat src/**", "cat src/a/../../b"),
        ("cat *", "/bin/cat a"),
        ("./run", "run"),
        ("git status", "GIT status"),
        ("git status", "X=1 git status"),
        ("* status", "X=1 status"),
        ("* status", "then status"),
        ("git status", "git status; ls"),
        ("git status", "git status & ls"),
        ("git status", "git status && ls"),
        ("git status", "git status || ls"),
        ("git status", "git status | cat"),
        ("git status", "git status\nls"),
        ("git status", "git status\rls"),
        ("git *", "git\tstatus"),
        ("git *", "git status > a"),
        ("git *", "git status 2>&1"),
        ("git *", "git status < a"),
        ("git *", "git $(ls)"),
        ("git *", "git `ls`"),
        ("git *", 'git "$(ls)"'),
        ("git *", 'git "`ls`"'),
        ("git *", "git $X"),
        ("git *", 'git "$X"'),
        ("git *", "git ${X}"),
        ("git *", "git $'x'"),
        ("git *", 'git $"x"'),
        ("git *", "git $[1]"),
        ("git *", "git add *"),
        ("git *", "git add a?"),
        ("git *", "git add [ab]"),
        ("git *", "git add {a,b}"),
        ("git *", "git add ~/a"),
        ("git *", "git add a\\ b"),
        ("git *", "git stat\\\nus"),
        ("git *", "git \\\n status"),
        ("git *", "git status # now"),
        ("git *", "git <(ls)"),
        ("git *", 'git commit -m "Done!"'),
        ("git *", 'git commit -m "a\\"b"'),
        ("git *", "(git status)"),
        ("git *", "{ git status; }"),
        ("git *", "! git status"),
        ("git *", "sudo git status"),
        ("git *", "git status\0"),
        ("git *", "git\u00a0status"),
        ("git *", "git 'status"),
        ("git *", ""),
        ("git *", ["sh", "-c", "git status"]),
        ("git *", ["git", "a\0"]),
        ("bash *", "bash -c 'ls a'"),
        ("xargs git", "xargs git"),
        ("curl | sh", "curl | sh"),
    ],
)
def test_anything_else_does_not_match_for_sure(pattern: str, value: object) -> None:
    assert match(pattern, value) is not YES


@pytest.mark.parametrize(
    "value",
    [
        "rm",
        "rm -rf a",
        "/bin/rm a",
        "../../bin//rm a",
        "/b*/rm a",
        '"$X/rm" a',
        '"${X}sudo" rm a',
        "su?o rm a",
        "for x do rm $x; done",
        "for x in env do rm a; done",
        "bash rm",
        "bash -x ./rm a",
        ". rm",
        "sudo sh -e bin/rm a",
        "bash -o pipefail -c 'rm a'",
        "bash -euo pipefail -c 'rm a'",
        "find . -exec sh -c 'rm {}' \\;",
        "ls | xargs -I{} rm {}",
        "ls | xargs -I % sh -c 'rm %'",
        "\\rm a",
        "'r'm a",
        'r"m" a',
        "r''m",
        "r\\\nm a",
        "$'rm' a",
        '$"rm" a',
        "RM a",
        "rm.exe a",
        "C:\\\\bin\\\\rm.EXE",
        "=rm a",
        "X=1 rm a",
        "X=1 Y+=2 rm a",
        "> a rm b",
        "2> a rm b",
        "<a rm b",
        "ls; rm a",
        "ls;rm a",
        "ls & rm a",
        "ls && rm a",
        "ls || rm a",
        "ls | rm a",
        "ls |& rm a",
        "ls\nrm a",
        "ls\rrm a",
        "ls # it's\nrm a",
        "ls a#'b'; rm a",
        "(rm a)",
        "((rm a))",
        "{ rm a; }",
        "! rm a",
        "time rm a",
        "if rm a; then ls; fi",
        "if ls; then rm a; else ls; fi",
        "if ls; then ls; elif rm a; fi",
        "while rm a; do ls; done",
        "for x in a b; do rm $x; done",
        "select x in a; do rm; done",
        "case a in a) rm b;; esac",
        "case a in (a) rm b;; esac",
        "f() { rm a; }; f",
        "f ( ) { rm a; }; f",
        "function f { rm a; }; f",
        "function f () (rm a); f",
        "x=(rm a); ${x[@]}",
        "x[$(rm a)]=1",
        "echo $(rm a)",
        'echo "a $(rm b) c"',
        "echo `rm a`",
        'echo "`rm a`"',
        "echo `echo \\`rm a\\``",
        'echo "`echo \\"$(rm a)\\"`"',
        "echo $(echo $(rm a))",
        "echo ${x:-$(rm a)}",
        "echo ${x:-`rm a`}",
        'echo "${x:-${y:-$(rm a)}}"',
        "echo $((1 + $(rm a)))",
        "cat <(rm a)",
        "cat > >(rm a)",
        "[[ $(rm a) ]]",
        "cat <<E\n$(rm a)\nE",
        "cat <<E\n`rm a`\nE",
        'cat <<E\n"a" $x \\$y $(rm a)\nE',
        "cat <<'E'\n'\nE\nrm a",
        'cat <<"E"\n`\nE\nrm a',
        "cat <<\\E\n'\nE\nrm a",
        "cat <<-E\n\t'\n\tE\nrm a",
        "cat <<E <<F\n'\nE\n\"\nF\nrm a",
        "cat <<E; rm a\n'\nE",
        "echo $(cat <<E\n'\nE\n); rm a",
        "sh <<E\nrm a\nE",
        "sh <<'E'\nrm a\nE",
        "sh <<< 'rm a'",
        "sh -c 'rm a'",
        "bash -lc 'rm a'",
        "bash -c \"bash -c 'rm a'\"",
        "sh -c 'ls; rm a'",
        'sh -c "rm $X"',
        "eval rm a",
        "eval 'r''m' a",
        'eval "r" "m"'.replace(" ", "").replace("eval", "eval "),
        "eval 'ls;' rm a",
        "exec rm a",
        "command rm a",
        "builtin command rm a",
        "env rm a",
        "env -i X=1 rm a",
        "env -S 'rm a'",
        "sudo rm a",
        "sudo -u me -- rm a",
        "doas rm a",
        "nohup nice -n 5 rm a",
        "timeout 5 rm a",
        "xargs rm",
        "ls | xargs -n1 rm",
        "xargs sh -c 'rm $1'",
        "find . -exec rm {} \\;",
        "find . -exec sh -c 'rm $1' _ {} \\;",
        "ssh host rm a",
        "ssh host 'ls && rm a'",
        "su -c 'rm a'",
        "watch 'rm a'",
        "busybox rm a",
        "trap 'rm a' EXIT",
        "alias x=rm; x a",
        "alias x='rm -rf'",
        "coproc rm a",
        "sleep 1 &> a; rm b",
        "echo 'a\n# '; rm a",
        'echo "a\n"; rm a',
        "echo $#; rm a",
        "echo ${#x}; rm a",
        "echo ${x%\\}}; rm a",
        "echo $; rm a",
        'echo "$"; rm a',
        "echo a$; rm a",
        "echo 1>&2; rm a",
        "not rm a",
        "rm $(echo a",
        "rm a 'b",
        ["rm", "a"],
        ["/bin/rm"],
        ["sh", "-c", "rm a"],
        ["sudo", "rm", "a"],
    ],
)
def test_a_command_is_found_wherever_it_may_run(value: object) -> None:
    assert match("rm", value) in ({PARTLY, YES} if value not in ("rm", ["rm"]) else {YES})


@pytest.mark.parametrize(
    "value",
    [
        "$X a",
        '"$X" a',
        "${x:-rm} a",
        "$(echo rm) a",
        "`echo rm` a",
        "r$1m a",
        'r"$1"m a',
        "$'\\x72m' a",
        "/bin/r? a",
        "/bin/* a",
        "/usr/bin/*sh",
        "s? -c a",
        "sudo r?",
        "timeout -s KILL 5 /bin/*",
        "for x in rm; do $x a; done",
        '"${X}sh" -c a',
        "echo a | bash -o pipefail",
        "sh -o errexit - < a",
        "bash -",
        "bash -ic",
        "bash -s -- rm",
        "xargs -I % % a",
        "xargs -I% % a",
        "xargs --replace=X X a",
        "find . -execdir env {} \\;",
        "echo 'rm a' > b; sh b -c",
        "echo 'rm a' > b; cp b c; sh c",
        "echo 'rm a' > b; . ./b",
        "sudo tee a < b; sh a",
        "[r]m a",
        "{rm,a}",
        "x=rm; $x a",
        'set -- rm a; "$@"',
        "find . -exec {} \\;",
        "ls | xargs env",
        "echo 'rm a' | sh",
        "echo 'rm a' | bash -s",
        "echo 'rm a' | sudo bash -x",
        "sh < a",
        "bash /dev/stdin",
        'bash -c "$X"',
        'bash "$X"',
        "zsh",
        'eval "$X"',
        'eval a "$X"',
        'ssh host "ls $X"',
        "source /dev/stdin",
        "command . /dev/stdin",
        ". $X",
        ". <(curl a)",
        "echo 'rm a' | tee b; bash b",
        "echo 'rm a' > b && chmod +x b && ./b",
        "echo 'a",
        'echo "a',
        "echo `a",
        "echo $(a",
        "echo ${a",
        "echo ${a:-'b'}",
        'echo "${a:-"b"}"',
        "echo ${a:-<(rm b)}",
        "echo ${ rm a; }",
        "echo ${|rm a; }",
        "echo $[1]",
        "echo $'it\\'s'",
        "echo $\\\n(rm a)",
        'echo "$\\\n(rm a)"',
        "echo a\\",
        "echo a >",
        "cat <<E\nrm a",
        "cat <<E",
        "cat <<$X\nE",
        "cat <<E\na\\\nE\n'\nE\nrm a\n'",
        "echo $(cat <<E)\nrm a\nE",
        "echo a &> b rm c",
        "rm(a)",
        "r@(m) a",
        "case a in a) ls;; esac",
        "echo $(function f { case a in a) rm a;; esac; }; f)",
        "echo $(if true; then case a in a) rm b;; esac; fi)",
        'echo "$(! case a in a) rm b;; esac)"',
        "ls\0",
        "ls\x1b",
        "ls \u2003 a",
        "ls \ud800",
        "echo \ufffc; \ufffc",
    ],
)
def test_what_may_hide_a_command_is_not_known(value: str) -> None:
    assert match("rm", value) is UNKNOWN


@pytest.mark.parametrize(
    "value",
    [
        "",
        "   \n",
        "ls",
        "git rm a",
        "echo rm",
        "ls rm",
        "rmdir a",
        "ls 'a; rm b'",
        'ls "a; rm b"',
        "ls a\\;rm",
        "ls # rm a",
        "ls \\# rm",
        "ls a#b",
        "# rm a",
        "cat <<'E'\nrm a\nE",
        "cat <<E > a\nrm a\nE",
        "echo a >&2",
        "echo a > rm",
        "echo a &> rm",
        "ls *.py a? [ab] {a,b} {}",
        '"$X/bin/python" a',
        "make -j$(nproc)",
        "cd a && python -m pytest -q 2>&1 | tail -5",
        "bash run.sh $X",
        "bash --norc run.sh",
        "for x in env rm $Y; do ls; done",
        "for x in " + "a " * 200 + "; do ls; done",
        "function",
        "bash run.sh rm",
        "bash -e -o pipefail run.sh > log 2>&1",
        "bash run.sh > /dev/null; ls > a",
        "for x in *.py $(ls) a; do python $x; done",
        "select x in rm; do ls; done",
        "function rm { ls; }",
        "function f () { ls; }",
        "find . -name '*.py' -exec grep a {} \\;",
        "ls | xargs -I{} echo {}",
        "ls | xargs grep a",
        "env X='a b' ls",
        "sudo ls 'a; rm b'",
        "timeout 5 ls *.py",
        "echo a > test.txt; cat test.txt",
        "find . -name a > b",
        "sudo cp a .",
        "time . a",
        "bash -c 'make > log'",
        'git commit -m "$(cat <<\'E\'\nIt\'s done: "rm" is gone\nE\n)"',
        "x=(a b)",
        "rm() { ls; }",
        "x=$(date)",
        "echo $((1 + 2)) $? $$ $! $- $_",
        "make & wait",
        "printf",
        ["test"],
        ["ls", "; rm a"],
        ["ls", "rm"],
        [""],
    ],
)
def test_what_is_no_command_is_not_found(value: object) -> None:
    assert match("rm", value) is NO


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("git push", "git push", YES),
        ("git push", "git -C /a push origin", PARTLY),
        ("git push", "git pull; push", NO),
        ("git push", "git $X", UNKNOWN),
        ("git push", 'git "$X"', UNKNOWN),
        ("git push", 'git "a$X"', NO),
        ("git push", 'git "pu$X"', UNKNOWN),
        ("git push", "git add *.py", NO),
        ("git push", "git p*", UNKNOWN),
        ("git push", "git {push,a}", UNKNOWN),
        ("git push", "echo push | xargs git", UNKNOWN),
        ("git push *", "git push", YES),
        ("git * push", "git a push b", PARTLY),
        ("git * push", "git push", PARTLY),
        ("git * push", "git", NO),
        ("git --force", "git push --force=true", PARTLY),
        ("git --force", "git push --for", PARTLY),
        ("git --force", "git push --f", NO),
        ("git --force", "git push --forceful", NO),
        ("git --force", "git push -f", NO),
        ("rm -r", "rm -fr a", PARTLY),
        ("rm -rf", "rm -f a -r", PARTLY),
        ("rm -rf", "rm -v -f a", NO),
        ("rm -rf", "rm --rf a", NO),
        ("rm {-r,--recursive} /", "rm --recursive /", YES),
        ("rm {-r,--recursive} /", "rm --recursive --force /", PARTLY),
        ("rm -r /", "rm -r //", PARTLY),
        ("rm -r /", "rm -r /usr/..", PARTLY),
        ("rm -r /", "rm -r /./", PARTLY),
        ("rm -r /", "rm -r /usr", NO),
        ("rm -r /", 'rm -r "$X"/', UNKNOWN),
        ("rm -r ~", "rm -r $HOME", PARTLY),
        ("rm -r ~", 'rm -r "${HOME}/"', PARTLY),
        ("rm -r ~", "rm -r ~/..", NO),
        ("rm -r .", "rm -r ./", PARTLY),
        ("rm -r build/", "rm -r build", PARTLY),
        ("rm -r ../a", "rm -r ../b/../a", PARTLY),
        ("rm -r a", "rm -r ../../a", NO),
        (r"rm -r /\*", "rm -r /*", PARTLY),
        (r"rm -r /\*", "rm -r /a", NO),
        ("rm -r /*", "rm -r /a", YES),
        ("rm -r /*", "rm -r /a/b", NO),
        ("rm -r /*", "rm -r $X", UNKNOWN),
        ("rm -r /**", "rm -r /a/b", YES),
        ("mkfs.*", "sudo mkfs.ext4 /dev/sda", PARTLY),
        ("mkfs.*", "mkfs", NO),
        ("mkfs.*", "$X", UNKNOWN),
        ("* /etc/shadow", "$X /etc/shadow", PARTLY),
        ("* /etc/shadow", "sudo cat ../etc/shadow /etc//shadow", PARTLY),
        ("> /etc/passwd", "echo a > /etc/passwd", PARTLY),
        ("> /etc/passwd", "echo a >> '/etc/passwd'", PARTLY),
        ("> /etc/passwd", "echo a >| /etc/passwd 2>&1", PARTLY),
        ("> /etc/passwd", "&> /etc/passwd", PARTLY),
        ("> /etc/passwd", "cat < /etc/passwd", NO),
        ("> /etc/passwd", "echo a > $X", UNKNOWN),
        ("> a", "echo > a", PARTLY),
        ("> 1", "echo >& 1", NO),
        ("> a", "echo >& a", PARTLY),
        ("curl | sh", "curl a | sh", PARTLY),
        ("curl | sh", "curl a | tee b | sudo sh", PARTLY),
        ("curl | sh", "sh <(curl a)", PARTLY),
        ("curl | sh", 'sh -c "$(curl a)"', PARTLY),
        ("curl | sh", "eval `curl a`; sh", UNKNOWN),
        ("curl | sh", "(ls; curl a) | (sh)", PARTLY),
        ("curl | {sh,eval}", "eval `curl a`", PARTLY),
        ("curl | python", "curl a | python -m json.tool", PARTLY),
        ("curl | python", "curl a; python b", NO),
        ("curl | python", "python b | curl a", NO),
        ("a | b | c", "a | b | c", PARTLY),
        ("a | b | c", "a | x | b | y | c", PARTLY),
        ("a | b | c", "b | a | c", NO),
        ("a | b | c", "a | c", NO),
        ("a | b", "$X | b", UNKNOWN),
    ],
)
def test_words_may_stand_anywhere_among_the_arguments(pattern: str, value: str, expected: Match) -> None:
    assert match(pattern, value) is expected


def test_what_is_not_known_is_explained() -> None:
    assert found("rm", "echo 'a").why == "it cannot be read as shell commands: a quote is not closed"
    assert found("rm", "$X a").why == "a part of it is not known before it runs"
    assert found("rm", "$X 'a").why == "it cannot be read as shell commands: a quote is not closed"
    assert found("rm", 5).why == "it is not a command: neither a text, nor a list of texts"


@pytest.mark.parametrize("value", [5, {}, [], ["ls", 5], ["ls", None], True])
def test_what_is_neither_text_nor_a_list_of_texts_is_not_known(value: object) -> None:
    assert match("rm", value) is UNKNOWN


@pytest.mark.parametrize(
    "value",
    [
        "a" * 100_001,
        ["a", "b" * 100_000],
        "a " * (MAX_WORDS + 1),
        "a;" * (MAX_COMMANDS + 1),
        "sudo " + "a " * 100,
        "! " * 101 + "a",
        "X=1 " * 9_000 + "a",
        ["sudo", *"a" * 100],
        "echo " + "$(" * 13 + "ls" + ")" * 13,
        "echo " + "${a:-" * 14 + "b" + "}" * 14,
        "`" * 40_000,
        "(" * 100_000,
        "sh <<1\n"
        + "".join(f"sh <<{number}\n" for number in range(2, 20))
        + "".join(f"{n}\n" for n in range(19, 0, -1)),
    ],
    ids=lambda value: str(value)[:10],
)
def test_what_is_too_large_is_not_known_in_bounded_time(value: object) -> None:
    began = time.process_time()

    assert match("rm", value) in {UNKNOWN, NO}

    assert time.process_time() - began < 5


@pytest.mark.parametrize("pattern", ["curl | sh", "curl | * | sh"])
def test_a_long_pipe_is_judged_in_bounded_time(pattern: str) -> None:
    third = MAX_COMMANDS // 3
    began = time.process_time()

    assert match(pattern, "curl a |" * third + "cat |" * third + "sh a |" * third + "cat") is PARTLY
    assert match(pattern, "sh a |" * third + "cat |" * third + "curl a |" * third + "cat") is NO

    assert time.process_time() - began < 4


def test_a_shell_within_a_shell_is_read_to_a_depth() -> None:
    nested = "ls"
    for _ in range(14):
        nested = "sh -c " + "'" + nested.replace("'", "'\"'\"'") + "'"
        if len(nested) > 90_000:
            break

    assert match("rm", nested) in {UNKNOWN, NO}
    assert match("ls", "sh -c \"sh -c 'sh -c ls'\"") is PARTLY


@pytest.mark.parametrize("pattern", ["", "  ", "| sh", "curl |", "curl | | sh", "a | b | c | d", r"a\b c", "a" * 2_001])
def test_what_is_no_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConfigurationError, match="is not a command pattern: give a program and its words"):
        ready(command(pattern))


def test_a_text_is_plain_only_if_a_shell_would_change_nothing() -> None:
    assert read_script("git status").is_plain
    assert not read_script("git status; ls").is_plain
    assert not read_script("git $X").is_plain


def test_plain_words_are_not_read_sign_by_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "_Reader", None)

    assert [word.text for word in shell.read_script("git log -n 1 a/b.py").commands[0].words] == [
        "git",
        "log",
        "-n",
        "1",
        "a/b.py",
    ]
