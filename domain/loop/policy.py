"""Placeholder surface: the real module replaces this file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

Mode: TypeAlias = Literal["never", "required", "first", "always"]


class Policy(msgspec.Struct, frozen=True):
    mode: Mode = "required"
    rules: tuple[Any, ...] = ()


class Policies(msgspec.Struct, frozen=True):
    tools: dict[str, Policy] = {}
    allow: tuple[Any, ...] = ()
    deny: tuple[Any, ...] = ()

    @property
    def revision(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()


class Verdict(msgspec.Struct, frozen=True):
    decision: Literal["run", "ask", "deny"]
    reason: str = ""


def judge(policies: Policies, name: str, arguments: Mapping[str, Any], asked: Collection[str] = ()) -> Verdict:
    if name in policies.deny:
        return Verdict("deny", "it is denied")
    policy = policies.tools.get(name)
    if policy is None or policy.mode == "never":
        return Verdict("run")
    if policy.mode == "first" and call_digest(name, arguments) in asked:
        return Verdict("run")
    return Verdict("ask", "its policy")


def call_digest(name: str, arguments: Mapping[str, Any], revision: str = "") -> str:
    told = json.dumps([name, arguments, revision], sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def policies_of(value: object) -> Policies:
    return value if isinstance(value, Policies) else msgspec.convert(value, Policies)
