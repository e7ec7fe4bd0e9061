"""Reads the signatures of users' functions, also if their annotations name what is not defined."""

from __future__ import annotations

import functools
import inspect
import sys

if sys.version_info >= (3, 14):  # annotations are evaluated when they are read
    from annotationlib import Format

    signature_of = functools.partial(inspect.signature, annotation_format=Format.FORWARDREF)
else:
    signature_of = inspect.signature
