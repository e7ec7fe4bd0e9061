"""Judges conversations by the log alone: nothing acknowledged is lost, nothing told twice, no turn answered twice."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

from reenact._runtime import codec
from reenact.actors.journal.postgres.address import address_of
from reenact.actors.journal.postgres.journal import PostgresJournal
from reenact.audit import verify_log
from reenact.domain.shards import shard_of
from reenact.domain.stream.events import Outcome
from tests.domain.stream.grammar import Grammar, Heard
from tests.nodes.crowd import Conversation, chunks_of
from tests.reliability.truth import taken
from tests.runtime.witness import check_decisions, heard_of


def judge(log: str, conversations: Sequence[Conversation], *cut_short: Outcome, resumed: bool = False) -> None:
    """Hold what the clients were told against a log that nobody writes any more.

    All turns are completed, but for those that were cut short in one of these ways. If they are `resumed`, some have
    begun twice.
    """
    with PostgresJournal.open(log, codec(), read_only=True) as journal:
        for conversation in conversations:
            feed = heard_of(journal, conversation.session_id)
            _judge_one(conversation, feed, cut_short, resumed=resumed)
        check_decisions(journal)
    _check_epochs(log)
    verdict = verify_log(log)
    assert verdict.findings == ()
    assert verdict.read_model == "agrees"


def _judge_one(conversation: Conversation, feed: list[Heard], cut_short: Collection[Outcome], *, resumed: bool) -> None:
    heard = taken(conversation.heard)
    # The log has the cursors from 1 on without holes, so these are exact, and no event came twice or not at all.
    assert [event.cursor for event in heard] == list(range(1, len(heard) + 1))
    assert heard == feed[: len(heard)]
    # Reads of each turn that it is asked and ends once, and is answered once at most.
    grammar = Grammar(resumed=tuple(conversation.acknowledged) if resumed else ()).read(feed)
    assert grammar.current is None
    assert grammar.waiting == []
    asked = {_turn_of(event): _text_of(event) for event in feed if event.type == "user_message"}
    assert asked == conversation.acknowledged
    answers = {_turn_of(event): _text_of(event) for event in feed if event.type == "assistant_message"}
    for turn_id, question in asked.items():
        outcome, answer = grammar.turns[turn_id].outcome, "".join(chunks_of(question))
        if outcome == "completed":
            assert answers[turn_id] == answer
        else:
            assert outcome in cut_short, turn_id
            assert answer.startswith(answers.get(turn_id, ""))
    # An agent lives on wherever it goes; only a turn that is cut short may be its last.
    if not cut_short:
        assert sum(event.type == "agent_started" for event in feed) == 1


def _turn_of(event: Heard) -> str:
    assert event.turn_id is not None
    return event.turn_id


def _text_of(event: Heard) -> str:
    content: list[dict[str, Any]] = event.data["message"]["content"]
    return "".join(block["text"] for block in content)


def _check_epochs(log: str) -> None:
    """Check that no row stands behind one of a later epoch of its shard."""
    address = address_of(log)
    epochs: dict[int, int] = {}
    with psycopg.connect(address.conninfo) as connection:
        rows = SQL("SELECT stream, epoch FROM {} ORDER BY number").format(Identifier(address.schema, "steps"))
        for stream, epoch in connection.execute(rows):
            shard = shard_of(stream)
            assert epochs.get(shard, 0) <= epoch, (shard, epochs[shard], epoch)
            epochs[shard] = epoch
