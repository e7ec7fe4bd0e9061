"""What a user runs to have hosts: `python ray_program.py RAY LOG NODES DIRECTORY`; with no nodes, it stops them.

Each host leaves a file in the directory, of which the name is the id of its process.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path

from reenact import Image, Runtime
from reenact.ray import start, stop
from reenact.testing import MockEnvironmentFactory

if __name__ == "__main__":
    ray, log, nodes, directory = sys.argv[1:]

    def open_runtime() -> Runtime:
        Path(directory, str(os.getpid())).touch()
        return Runtime.open(log, environment=MockEnvironmentFactory(), default_image=Image(id="chat"))

    importlib.import_module("ray").init(ray, log_to_driver=False)
    if int(nodes):
        start(open_runtime, int(nodes), options={"num_cpus": 0.1})
    else:
        stop()
