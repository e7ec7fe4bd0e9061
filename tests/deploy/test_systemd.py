"""The unit for systemd says of `reenact serve` what is so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.deployed import FOLDER, seconds_to_end, unit, unit_command

ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd-analyze here")
def test_systemd_understands_every_line_of_it(tmp_path: Path) -> None:
    program, *_ = unit_command()
    instance = tmp_path / "reenact@8001.service"
    text = (FOLDER / "reenact@.service").read_text(encoding="utf-8")
    instance.write_text(text.replace(program, sys.executable))
    assert ANALYZE is not None

    checked = subprocess.run(
        [ANALYZE, "verify", "--man=no", str(instance)], capture_output=True, text=True, check=False
    )

    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_it_is_given_more_time_to_end_than_it_takes() -> None:
    (timeout,) = unit()["TimeoutStopSec"]

    assert int(timeout) > 2 * seconds_to_end()


def test_it_is_started_again_whatever_has_ended_it() -> None:
    assert unit()["Restart"] == ["always"]
    assert unit()["StartLimitIntervalSec"] == ["0"]


def test_programs_of_tools_are_not_ended_while_turns_come_to_their_ends() -> None:
    assert unit()["KillMode"] == ["mixed"]


def test_each_instance_has_a_port_and_a_home_of_its_own() -> None:
    command = unit_command()

    assert command[command.index("--port") + 1] == "%i"
    assert unit()["StateDirectory"] == ["reenact/%i"]
    assert unit()["Environment"] == ["HOME=%S/reenact/%i"]


def test_the_tokens_are_a_credential() -> None:
    command = unit_command()

    assert command[command.index("--token-file") + 1] == "%d/tokens"
    assert unit()["LoadCredential"] == ["tokens:/etc/reenact/tokens"]
