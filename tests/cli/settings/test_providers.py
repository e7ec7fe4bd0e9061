"""The names that a provider may have, and what is said of a user's own that cannot be had."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from reenact.actors.environment.api import LLMProvider
from reenact.cli.settings.configuration import own_provider
from reenact.cli.settings.values import provider_of
from reenact.domain.errors import ConfigurationError

OWN = """
class Own:
    name = "own"
    def provide(self): ...

class Needy(Own):
    def __init__(self, address): ...

class Failing(Own):
    def __init__(self):
        raise OSError("nobody is at home")

class Nameless:
    def provide(self): ...

def make():
    return Own()

def leave():
    raise SystemExit(3)

ready = Own()
number = 5
"""


@pytest.fixture(autouse=True)
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    for name in ("homemade", "homemade.deep", "broken", "lacking"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "homemade").mkdir()
    (tmp_path / "homemade/__init__.py").write_text(OWN)
    (tmp_path / "homemade/deep.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("\n1 / 0\n")
    (tmp_path / "lacking.py").write_text("import surely_not_installed\n")
    return tmp_path


@pytest.mark.parametrize("name", ["Own", "make", "ready"])
@pytest.mark.parametrize("module", ["homemade", "homemade.deep"])
def test_a_class_a_function_or_an_object_is_a_provider(module: str, name: str) -> None:
    provider = own_provider(f"{module}:{name}")

    assert isinstance(provider, LLMProvider)
    assert provider.name == "own"


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("nowhere:Own", "there is no module 'nowhere': it must be installed, or in a folder of PYTHONPATH"),
        ("homemade.nowhere:Own", "there is no module 'homemade.nowhere'"),
        ("homemade:Nobody", "homemade has no 'Nobody'"),
        ("broken:Own", "broken.py, line 2: ZeroDivisionError: division by zero"),
        ("lacking:Own", "lacking.py, line 1: ModuleNotFoundError: No module named 'surely_not_installed'"),
        ("homemade:Needy", "homemade:Needy: TypeError: Needy.__init__() missing 1 required positional argument"),
        ("homemade:Failing", "__init__.py, line 11: OSError: nobody is at home"),
        ("homemade:leave", "SystemExit: 3"),
        ("homemade:Nameless", "it is not a provider"),
        ("homemade:number", "it is not a provider"),
    ],
)
def test_what_is_no_provider_is_refused_with_its_place(place: str, why: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        own_provider(place)

    assert str(refusal.value).startswith(f"--provider {place}: ")
    assert why in str(refusal.value)


@pytest.mark.parametrize(
    ("named", "environ", "provider"),
    [
        (None, {}, "mock"),
        (None, {"ANTHROPIC_API_KEY": "k"}, "claude"),
        (None, {"ANTHROPIC_API_KEY": "k", "MOCK_LLM": "true"}, "mock"),
        (None, {"ANTHROPIC_API_KEY": "k", "REENACT_PROVIDER": "a.b:c"}, "a.b:c"),
        (None, {"REENACT_PROVIDER": "claude", "MOCK_LLM": "1"}, "mock"),
        ("claude", {"REENACT_PROVIDER": "a.b:c", "MOCK_LLM": "1"}, "claude"),
    ],
)
def test_who_is_named_first_answers(named: str | None, environ: dict[str, str], provider: str) -> None:
    assert provider_of(named, environ) == provider


@pytest.mark.parametrize("name", ["", "ollama", "a:b:c", "../a:b", ":b", "a:", "a b:c", "Claude", "a:b.c()"])
def test_no_other_name_is_taken(name: str) -> None:
    with pytest.raises(ConfigurationError, match="say openai, claude, mock, or MODULE:NAME"):
        provider_of(name, {})
