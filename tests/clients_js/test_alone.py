"""The client against a server that each test plays: its tests in JavaScript, each file in Node."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients_js.hosts import HERE, run_node


@pytest.mark.parametrize("tests", sorted(HERE.glob("*.test.mjs")), ids=lambda path: path.name)
def test_its_tests_in_javascript_pass(tests: Path) -> None:
    done = run_node("--test", "--test-timeout=20000", "--test-reporter=spec", tests)

    assert done.returncode == 0, done.stdout + done.stderr
