"""What a shell evaluates besides commands: subscripts, arithmetic, names of variables, prompts.

The table `evaluated.txt` says what bash runs; that it is right, bash itself is asked where there is one.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from reenact.domain.policy.judge import Policies, judge
from reenact.domain.policy.matchers import command
from reenact.domain.policy.rules import Policy, Rule

RUN, OTHERS = (
    [line.replace("\\n", "\n") for line in part.splitlines() if line[:1] != "#"]
    for part in Path(__file__).with_name("evaluated.txt").read_text(encoding="utf-8").split("\n\n")
)
DENIED: Final = Policies(tools={"bash": Policy("never", (Rule({"command": command("touch")}, "deny"),))}, deny=())
ASKED: Final = Policies(
    tools={
        "bash": Policy(
            "required",
            tuple(Rule({"command": command(f"{one} *")}, "never") for one in ("test", "printf", "let", "read")),
        )
    },
    deny=(),
)
ALL_RUN: Final = Policies(
    tools={"bash": Policy("never", (Rule({"command": command("touch")}, "deny"), Rule({}, "never")))}, deny=()
)
EACH_IN_ITS_FOLDER = (
    'for script; do mkdir d && (cd d && eval "$script") <&- >&- 2>&-; [ -e d/x ] && echo 1 || echo 0; rm -r d; done'
)
BASH: Final = shutil.which("bash") or ""
ORDINARY = [
    "git commit -m 'Use `x` and $(y)'",
    "[ -f x ] && echo 'a `b` and $(c)'",
    "printf '%s' '$(x)' | grep -v '`'",
    "awk '{print $1}' a | sed 's/`//' > b",
    "for i in 1 2; do echo $((i + 1)) ${i%.py} ${i:-z}; done",
    'f() { local x="$1"; declare -i n=$2; (( n += 1 )); }',
    "while read -r line; do [ $line -eq 1 ]; done < a",
    "test -v HOME; unset x; printf -v y %s z; mapfile -t lines < a; wait -n",
    "bash -c 'x=$(date); [ $x -eq 1 ]'",
    "ENV=production npm start",
    "x=(a b); echo ${#x[@]} ${x[0]}",
]


@pytest.mark.parametrize("script", RUN)
def test_what_bash_runs_when_it_evaluates_a_text_is_denied(script: str) -> None:
    assert judge(ALL_RUN, "bash", {"command": script}).decision == "deny"
    assert judge(ASKED, "bash", {"command": script}).decision == "ask"


@pytest.mark.parametrize("script", ORDINARY)
def test_ordinary_scripts_are_judged_as_before(script: str) -> None:
    assert judge(ALL_RUN, "bash", {"command": script}).decision == "run"


@pytest.mark.skipif(not BASH, reason="there is no bash to ask")
def test_the_table_says_what_bash_does(tmp_path: Path) -> None:
    scripts = [*RUN, *OTHERS]
    done = subprocess.run(
        [BASH, "--norc", "-c", EACH_IN_ITS_FOLDER, "bash", *scripts],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    ran = [script for script, told in zip(scripts, done.stdout.split(), strict=True) if told == "1"]
    assert len(ran) > len(RUN) / 2
    assert [script for script in ran if judge(ALL_RUN, "bash", {"command": script}).decision == "run"] == []
