"""What msgspec knows of our types before several threads use them: it must not have to look at their annotations."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.examples import takes_long

LOOKED_AT = """
import msgspec
from {module} import {name}
from reenact._lazy import struct_types

def is_readable(kind):
    try:
        msgspec.msgpack.Decoder(kind)
    except (NameError, TypeError):
        return False
    return True

def is_known(kind):
    annotated = [owner for owner in kind.__mro__ if "__annotations__" in vars(owner)]
    kept = [owner.__annotations__ for owner in annotated]
    for owner in annotated:
        owner.__annotations__ = dict.fromkeys(owner.__annotations__, "Nobody")
    known = is_readable(kind)
    for owner, annotations in zip(annotated, kept):
        owner.__annotations__ = annotations
    return known

kinds = [kind for kind in struct_types(msgspec.Struct) if kind.__struct_fields__]
unknown = [kind for kind in kinds if not is_known(kind) and is_readable(kind)]
print(len(kinds) > {least}, unknown)
"""


@takes_long()
@pytest.mark.parametrize(
    ("module", "name", "least"),
    [
        ("reenact", "Runtime", 300),
        ("reenact", "RemoteRuntime", 300),
        ("reenact", "AgentRuntime", 30),
        ("reenact", "Audit", 200),
        ("reenact.terminal", "FixtureOptions", 10),
        ("reenact._runtime", "Runtime", 300),
        ("reenact.client.runtime", "RemoteRuntime", 300),
    ],
)
def test_types_that_several_threads_use_are_resolved_once_they_are_imported(module: str, name: str, least: int) -> None:
    program = LOOKED_AT.format(module=module, name=name, least=least)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "True []\n"), done.stderr
