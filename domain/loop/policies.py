"""Policies: for each tool, when a person is asked, and for all of them, what is denied and what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import msgspec

from reenact.domain.errors import InvalidInputError
from reenact.domain.loop.denylist import BUILT_IN_DENY_LIST
from reenact.domain.loop.digests import digest
from reenact.domain.loop.judging import Judge
from reenact.domain.loop.policy_rules import Entry, Policy


class Policies(msgspec.Struct, frozen=True, dict=True, omit_defaults=True):
    """What is decided before a call runs.

    `tools` has policies by the names of tools, with or without wildcards: an exact name goes before wildcards, and of
    several wildcards that match the strictest decision holds. `allow` has the calls that need not be asked about,
    `deny` those that never run; a text is the name of a tool, with or without wildcards. The built-in deny list is
    advisory. Change no mapping: what they say is worked out once.
    """

    tools: dict[str, Policy] = {}
    allow: tuple[Entry | str, ...] = ()
    deny: tuple[Entry | str, ...] = BUILT_IN_DENY_LIST

    @cached_property
    def revision(self) -> str:
        """The digest of all that the policies say, the same in every process.

        Raises:
            InvalidInputError: they hold what is no JSON value; `policies_of` refuses that.
        """
        try:
            told: object = msgspec.to_builtins([self.tools, self.allow, self.deny])
        except (TypeError, RecursionError) as error:
            raise InvalidInputError(f"the policies have no revision, for they hold no JSON: {error}") from None
        return digest(told)

    def with_own(self, own: Mapping[str, Policy]) -> Policies:
        """Return the policies with those that tools have of their own, where `tools` does not name the tool."""
        more = {name: policy for name, policy in own.items() if not self.judge.has_policy(name)}
        return msgspec.structs.replace(self, tools={**more, **self.tools})

    @cached_property
    def judge(self) -> Judge:
        """The policies, made ready to judge."""
        return Judge(self.tools, self.allow, self.deny)
