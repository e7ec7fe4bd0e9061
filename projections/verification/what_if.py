"""What-if analysis of a log: the recorded decisions that would differ under other policies, limits or prices.

Like the replay of decisions, it reads only the log, including the definitions of images in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from reenact.domain.errors import ConfigurationError, LogUnusableError, reading
from reenact.domain.history.decision_replay import Divergence, failed
from reenact.domain.history.what_if import RuleOverrides, WhatIf
from reenact.domain.image import (
    Definition,
    Image,
    ImageRegistered,
    as_cost_limit,
    check_limit,
    check_policy_names,
    define,
    own_policies,
)
from reenact.domain.loop.ledger import CostLimit, Price, prices_of
from reenact.domain.policy.judge import Policies
from reenact.domain.policy.reading import policies_by_image
from reenact.domain.session.agent import ImageChanged
from reenact.domain.session.state import SessionBranched, SessionCreated, SessionEvent
from reenact.projections.explain.history import event_of
from reenact.projections.log import AuditedLog, OnProgress, Row
from reenact.projections.verification.replay import Follower, Retraced, histories


class Supposed(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that replace the recorded ones.

    `instead` applies to all images, except those with `policies` or a definition of their own here. Policies that tools
    define themselves apply if the given ones do not name the tool, as always.
    """

    instead: RuleOverrides = RuleOverrides()
    policies: Mapping[str, Policies] = {}
    images: Mapping[str, Definition] = {}


def supposed(
    policies: Policies | Mapping[str, object] | None,
    images: Sequence[Image],
    prices: Mapping[str, Price] | None,
    *,
    max_steps: int | UnsetType | None,
    max_repeats: int | UnsetType | None,
    cost_limit: CostLimit | float | UnsetType | None,
) -> Supposed:
    """Return the checked rules; tools of images must not be given by their names only.

    Raises:
        ConfigurationError: a value is not valid.
    """
    for name, limit in (("max_steps", max_steps), ("max_repeats", max_repeats)):
        if limit is not UNSET:
            check_limit(limit, name)
    definitions: dict[str, Definition] = {}
    for image in images:
        if image.id is None:
            raise ConfigurationError("an image that replaces another one needs its id")
        definitions[image.id] = define(image, image.id)
        check_policy_names(definitions[image.id])
    of_all, of_some = (None, {}) if policies is None else policies_by_image(policies)
    instead = RuleOverrides(
        policies=of_all,
        max_steps=max_steps,
        max_repeats=max_repeats,
        cost_limit=UNSET if isinstance(cost_limit, UnsetType) else as_cost_limit(cost_limit),
        prices=prices_of({} if prices is None else prices),
    )
    return Supposed(instead=instead, policies=of_some, images=definitions)


def what_if(
    log: AuditedLog, supposed: Supposed, session_id: str | None = None, *, progress: OnProgress | None = None
) -> Iterator[Retraced]:
    """Yield for each session of the log, or for one, the decisions that would differ, up to the end of its history.

    Raises:
        SessionNotFoundError: there is no such session in the log.
        StorageError: the log cannot be read. An event that cannot be read counts as a divergence.
    """
    images = _Images(log, supposed)
    for retraced in histories(log, session_id, lambda kind, shared: _JudgingFollower(kind, images, shared), progress):
        if retraced.session_id is not None or retraced.divergence is not None:
            yield retraced


class _Images:
    """The replacing rules for the images of a log."""

    def __init__(self, log: AuditedLog, supposed: Supposed) -> None:
        self._log = log
        self._supposed = supposed
        self._known: dict[tuple[str, int], RuleOverrides] = {}

    def instead(self, image_id: str, revision: int) -> RuleOverrides:
        """Return the replacing rules for sessions on this revision of the image."""
        key = image_id, revision
        if key not in self._known:
            self._known[key] = self._look_up(image_id, revision)
        return self._known[key]

    def _look_up(self, image_id: str, revision: int) -> RuleOverrides:
        instead = self._supposed.instead
        policies = self._supposed.policies.get(image_id, instead.policies)
        definition = self._supposed.images.get(image_id)
        if definition is not None:
            own = definition.policies is not None or policies is None
            return instead.by(definition if own else msgspec.structs.replace(definition, policies=policies))
        if policies is None:
            return instead
        recorded = self._recorded_definition(image_id, revision)
        return msgspec.structs.replace(
            instead, policies=policies if recorded is None else policies.with_own(own_policies(recorded))
        )

    def _recorded_definition(self, image_id: str, revision: int) -> Definition | None:
        rows = self._log.find(stream=f"image/{image_id}", after_version=revision - 1, until_version=revision, limit=1)
        events = [row.event for row in rows]
        return next((event.definition for event in events if isinstance(event, ImageRegistered)), None)


class _JudgingFollower(Follower):
    """A session whose decisions are made again one by one; other histories are skipped."""

    def __init__(self, kind: str, images: _Images, shared: Sequence[Row]) -> None:
        super().__init__()
        self._is_session = kind == "session"
        self._images = images
        self._shared = shared
        self._history: WhatIf | None = None

    def follow(self, rows: Sequence[Row]) -> Divergence | None:
        """Apply and judge a step; return the error if it cannot be applied."""
        if not self._is_session:
            return None
        try:
            events = [event_of(row) for row in rows]
            with reading(f"the step of {rows[0].stream!r} that begins with event {rows[0].version}"):
                history = self._history = self._history or self._new_analysis(events[0])
                self.otherwise += history.follow(rows[0].cause, rows[0].position, events)
                for event in events:
                    if isinstance(event, ImageChanged):
                        history.hold(self._images.instead(event.image_id, event.image_revision))
        except LogUnusableError as error:
            return failed([row.event for row in rows], None, error)
        self.steps += 1
        self.decisions, self.undecided = history.decisions, history.undecided
        return None

    def _new_analysis(self, first: SessionEvent) -> WhatIf:
        """Return the analysis of the session, in the state that it shares; shared events are not judged."""
        if not isinstance(first, SessionCreated | SessionBranched):
            raise LogUnusableError("the history of a session does not begin with it; verify the log")
        history = WhatIf(self._images.instead(first.image_id, first.image_revision))
        for row in self._shared:
            history.apply(event_of(row))
        return history
