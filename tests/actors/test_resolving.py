"""What msgspec knows of our types before several threads use them: it must not have to look at their annotations."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOKED_AT = """
import msgspec
from reenact.{module} import {name}
from reenact.domain.history.stored import STORED
from reenact.domain.operations.table import CATALOGUE, REQUESTS

kinds = {{*CATALOGUE.values(), *REQUESTS.values(), *STORED.values()}}
for kind in kinds:
    for owner in kind.__mro__:
        if "__annotations__" in vars(owner):
            owner.__annotations__ = dict.fromkeys(owner.__annotations__, "Nobody")
for kind in kinds:
    msgspec.msgpack.Decoder(kind)
print(len(kinds) > 100)
"""


@pytest.mark.parametrize(("module", "name"), [("_runtime", "Runtime"), ("client.runtime", "RemoteRuntime")])
def test_types_that_several_threads_use_are_resolved_once_they_are_imported(module: str, name: str) -> None:
    program = LOOKED_AT.format(module=module, name=name)

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
