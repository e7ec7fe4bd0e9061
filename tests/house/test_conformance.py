"""What `make conformance` makes of what it finds; here it has no package index."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.examples import takes_long

if TYPE_CHECKING:
    from scripts import conformance
    from scripts.conformance import Outcome
else:  # scripts are run, and cannot be imported by name
    _path = Path(__file__).resolve().parent.parent.parent / "scripts" / "conformance.py"
    _spec = importlib.util.spec_from_file_location("conformance", _path)
    conformance = sys.modules["conformance"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(conformance)
    Outcome = conformance.Outcome

KNOWN = {"tests/test_a.py::test_threads": "there is no thread"}
DIFFERS = {"tests/test_a.py::test_threads": Outcome("failed")}
GOOD = {"tests/test_a.py::test_good": Outcome("passed")}


def test_a_run_is_as_expected_if_all_pass_but_the_known_differences() -> None:
    findings = conformance.unexpected(GOOD | DIFFERS, KNOWN)

    assert findings == []
    assert conformance.summary("1.0", GOOD | DIFFERS, KNOWN, findings).splitlines() == [
        "conformance: 2 tests of pykka 1.0: 1 passed, 1 did not, of which 1 are known differences",
        "",
        "known: there is no thread",
        "  tests/test_a.py::test_threads",
    ]


@pytest.mark.parametrize("result", ["failed", "error", "skipped"])
def test_a_test_that_does_not_pass_is_unexpected_unless_it_is_known(result: str) -> None:
    bad = {"tests/test_a.py::test_bad": Outcome(result, "assert 1 == 2")}

    findings = conformance.unexpected(GOOD | DIFFERS | bad, KNOWN)

    assert findings == [f"tests/test_a.py::test_bad: {result}\nassert 1 == 2"]
    assert f"UNEXPECTED: {findings[0]}" in conformance.summary("1.0", GOOD | bad, KNOWN, findings)


def test_a_known_difference_that_passes_is_unexpected() -> None:
    fixed = {"tests/test_a.py::test_threads": Outcome("passed")}

    (finding,) = conformance.unexpected(GOOD | fixed, KNOWN)

    assert finding.startswith("tests/test_a.py::test_threads: passed")


@pytest.mark.parametrize("result", ["error", "skipped"])
def test_a_known_difference_shows_by_failing_and_not_otherwise(result: str) -> None:
    (finding,) = conformance.unexpected(GOOD | {"tests/test_a.py::test_threads": Outcome(result)}, KNOWN)

    assert finding.startswith(f"tests/test_a.py::test_threads: {result}")


def test_a_known_difference_of_a_test_that_is_gone_is_unexpected() -> None:
    (finding,) = conformance.unexpected(GOOD, KNOWN)

    assert finding.endswith("there is no such test")


def test_a_suite_without_tests_is_unexpected() -> None:
    assert conformance.unexpected({}, {}) == ["no test was run"]


def test_the_suite_of_the_constrained_pykka_is_known_by_its_digest(root: Path) -> None:
    assert conformance.pinned((root / "constraints.txt").read_text()) in conformance.SUITES


@pytest.mark.parametrize("constraints", ["", "pykka==0.1\n", "# pykka==4.5.0\n"])
def test_the_suite_of_another_pykka_than_the_installed_one_is_not_run(constraints: str) -> None:
    with pytest.raises(conformance.ConformanceError, match=r"constraints\.txt"):
        conformance.pinned(constraints)


@takes_long()
@pytest.mark.parametrize(("kind", "module"), [("pooled", "pooled"), ("event loop", "loop_actor")])
def test_each_test_of_a_suite_is_run_with_our_actors_and_its_outcome_told(
    tmp_path: Path, kind: str, module: str
) -> None:
    a_suite(
        tmp_path,
        f"""
        import pytest

        class Doubler(ThreadingActor):
            def on_receive(self, message):
                return 2 * message

        def test_asks():
            ref = Doubler.start()
            future = ref.ask(21, block=False)
            assert future.get() == 42
            assert type(future) is ThreadingFuture
            assert [kind.__module__ for kind in (ThreadingActor, ThreadingFuture)] == [
                "reenact.actors.kernel.{module}", "reenact.actors.kernel.future"
            ]

        def test_leaves_an_actor_behind():
            Doubler.start()

        def test_fails():
            assert 1 == 2

        @pytest.mark.skip
        def test_is_skipped():
            pass

        @pytest.fixture
        def broken():
            yield
            raise ZeroDivisionError

        def test_passes_but(broken):
            pass
        """,
    )

    outcomes = conformance.run(tmp_path, tmp_path, kind=kind)

    assert {test.removeprefix("tests/test_it.py::"): outcome.result for test, outcome in outcomes.items()} == {
        "test_asks": "passed",
        "test_leaves_an_actor_behind": "passed",
        "test_fails": "failed",
        "test_is_skipped": "skipped",
        "test_passes_but": "error",
    }
    assert "assert 1 == 2" in outcomes["tests/test_it.py::test_fails"].said
    assert "ZeroDivisionError" in outcomes["tests/test_it.py::test_passes_but"].said


def test_a_suite_that_takes_its_actors_from_elsewhere_proves_nothing(tmp_path: Path) -> None:
    a_suite(tmp_path, "def test_nothing(): pass", conftest="from pykka._threading import ThreadingActor")

    with pytest.raises(conformance.ConformanceError, match="does not take its actors from where we have put ours"):
        conformance.run(tmp_path, tmp_path)


def test_a_suite_that_cannot_be_collected_proves_nothing(tmp_path: Path) -> None:
    a_suite(tmp_path, "import a_module_that_is_not_there")

    with pytest.raises(conformance.ConformanceError, match="a_module_that_is_not_there"):
        conformance.run(tmp_path, tmp_path)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place where pip looks for distributions."""
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    return shelf


def test_without_an_index_the_command_says_so_with_a_code_of_its_own(
    shelf: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = conformance.main()

    assert code == conformance.NOT_TO_BE_HAD
    assert "nothing was run: pykka==" in capsys.readouterr().err


def test_another_distribution_of_the_same_name_is_refused(shelf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for version in conformance.SUITES:
        (shelf / f"pykka-{version}.tar.gz").write_bytes(b"something else")

    code = conformance.main()

    assert code == conformance.UNEXPECTED
    assert "this is not the distribution that we know" in capsys.readouterr().err


def a_suite(folder: Path, tests: str, conftest: str = "from pykka import ThreadingActor") -> None:
    """Write a suite that is laid out as pykka's."""
    (folder / "tests").mkdir()
    (folder / "tests" / "__init__.py").touch()
    (folder / "tests" / "conftest.py").write_text(conftest)
    imports = "from pykka import ThreadingActor, ThreadingFuture\n"
    (folder / "tests" / "test_it.py").write_text(imports + dedent(tests))
