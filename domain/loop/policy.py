"""The intervention policy: whether a call of a tool runs, waits for a person, or is answered with an error.

Decided before the call runs, from its name and its arguments alone. Deny beats everything; a tool without a policy
runs; `required` asks unless the call is on the allow list; `first` asks unless it is there, or a person approved the
same call before; `always` asks; `never` does not. What cannot be read or cannot be told lets no call run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from reenact.domain.loop.denylist import BUILT_IN_DENY_LIST
from reenact.domain.loop.digests import call_digest
from reenact.domain.loop.matchers.findings import Sight
from reenact.domain.loop.policies import Policies
from reenact.domain.loop.policy_reading import policies_of
from reenact.domain.loop.policy_rules import Entry, Mode, Policy, Rule, RuleMode, Verdict

__all__ = [
    "BUILT_IN_DENY_LIST",
    "Entry",
    "Mode",
    "Policies",
    "Policy",
    "Rule",
    "RuleMode",
    "Verdict",
    "call_digest",
    "judge",
    "policies_of",
]


def judge(
    policies: Policies,
    name: str,
    arguments: Mapping[str, object],
    asked: Collection[str] = (),
    *,
    cwd: str | None = None,
    home: str | None = None,
    resolve: Callable[[str], str] | None = None,
) -> Verdict:
    """Return what becomes of a call. Never raises.

    `asked` holds the `call_digest(name, arguments)` of the calls that a person has approved in this session. `cwd` and
    `home` are the absolute paths from which the tool reads relative paths and `~`. `resolve` follows symbolic links, as
    `os.path.realpath` does; without it a path is only what is written.
    """
    try:
        return policies.judge.verdict(name, arguments, asked, Sight(cwd, home, resolve))
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not let a call run
        return Verdict("deny", f"the policies cannot be read: {type(error).__name__}: {error!s:.200}")
