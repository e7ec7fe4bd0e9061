"""The read model's tables and statements as SQLite's text: made ahead, so that nobody waits for SQLAlchemy.

Made from `tables`, `questions` and `writes`; `python -m tests.projections.compiled` writes it anew.
"""

from __future__ import annotations

from typing import Final

from reenact.projections.statements import Statement

VERSION: Final = 4
TABLES: Final = (
    """
        CREATE TABLE agents ( position INTEGER NOT NULL, id TEXT NOT NULL, session INTEGER NOT NULL,
        session_id TEXT NOT NULL, container_id TEXT NOT NULL, image_id TEXT NOT NULL, started_at INTEGER NOT
        NULL, stopped_at INTEGER, turn_id TEXT, activity TEXT, failed INTEGER NOT NULL, waits INTEGER NOT
        NULL, queued INTEGER NOT NULL, PRIMARY KEY (position) )
    """,
    "CREATE INDEX agents_live ON agents (session, position) WHERE stopped_at IS NULL",
    "CREATE INDEX agents_started ON agents (position) WHERE stopped_at IS NULL",
    "CREATE INDEX ix_agents_id ON agents (id)",
    """
        CREATE TABLE calls ( position INTEGER NOT NULL, number INTEGER NOT NULL, session INTEGER NOT NULL,
        id TEXT NOT NULL, name TEXT NOT NULL, arguments BLOB NOT NULL, stage TEXT NOT NULL, kind TEXT,
        digest TEXT NOT NULL, reason TEXT NOT NULL, question BLOB, asked_at INTEGER, original BLOB, decision
        TEXT, decided_by TEXT, decided_at INTEGER, attempts INTEGER NOT NULL, started_at INTEGER, ended_at
        INTEGER, result BLOB, is_error INTEGER NOT NULL, ran INTEGER NOT NULL, cost FLOAT, results INTEGER,
        PRIMARY KEY (position, number, session) ) WITHOUT ROWID
    """,
    "CREATE INDEX calls_of_session ON calls (session, position, number)",
    "CREATE INDEX calls_open ON calls (session, position, number) WHERE results IS NULL",
    "CREATE INDEX calls_waiting ON calls (position, number) WHERE stage = 'waiting'",
    "CREATE INDEX calls_waiting_by_id ON calls (id) WHERE stage = 'waiting'",
    """
        CREATE TABLE containers ( position INTEGER NOT NULL, id TEXT NOT NULL, name TEXT, created_at INTEGER
        NOT NULL, PRIMARY KEY (position), UNIQUE (id) )
    """,
    """
        CREATE TABLE images ( position INTEGER NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
        created_at INTEGER NOT NULL, PRIMARY KEY (position), UNIQUE (id) )
    """,
    """
        CREATE TABLE messages ( position INTEGER NOT NULL, session INTEGER NOT NULL, asked INTEGER NOT NULL,
        id TEXT NOT NULL, role TEXT NOT NULL, content BLOB NOT NULL, created_at INTEGER NOT NULL, turn_id
        TEXT, stop_reason TEXT, partial INTEGER NOT NULL, usage BLOB, stop_sequence TEXT, stop_details BLOB,
        PRIMARY KEY (position) )
    """,
    "CREATE INDEX messages_in_order ON messages (session, asked, position)",
    """
        CREATE TABLE progress ( name TEXT NOT NULL, position INTEGER NOT NULL, mark TEXT NOT NULL, version
        INTEGER NOT NULL, closed INTEGER NOT NULL, PRIMARY KEY (name) )
    """,
    """
        CREATE TABLE revisions ( position INTEGER NOT NULL, image_id TEXT NOT NULL, revision INTEGER NOT
        NULL, definition BLOB NOT NULL, PRIMARY KEY (position) )
    """,
    "CREATE UNIQUE INDEX revisions_of_image ON revisions (image_id, revision)",
    """
        CREATE TABLE sessions ( position INTEGER NOT NULL, stream TEXT NOT NULL, id TEXT NOT NULL,
        container_id TEXT NOT NULL, image_id TEXT NOT NULL, image_revision INTEGER NOT NULL, created_at
        INTEGER NOT NULL, deleted_at INTEGER, origin INTEGER, shared_until INTEGER, shared_version INTEGER,
        shared_asked INTEGER, PRIMARY KEY (position), UNIQUE (stream), UNIQUE (id) )
    """,
    "CREATE INDEX sessions_listed ON sessions (position) WHERE deleted_at IS NULL",
    "CREATE INDEX sessions_of_container ON sessions (container_id, position) WHERE deleted_at IS NULL",
    """
        CREATE TABLE turns ( position INTEGER NOT NULL, session INTEGER NOT NULL, id TEXT NOT NULL, asked
        INTEGER NOT NULL, accepted_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER, ended INTEGER,
        outcome TEXT, stop_reason TEXT, duration FLOAT, steps INTEGER NOT NULL, answer INTEGER, model TEXT,
        usage BLOB, cost FLOAT, failure BLOB, stop_sequence TEXT, stop_details BLOB, PRIMARY KEY (position,
        session) ) WITHOUT ROWID
    """,
    "CREATE INDEX ix_turns_id ON turns (id)",
    "CREATE INDEX turns_of_session ON turns (session, asked, position)",
    "CREATE INDEX turns_open ON turns (session, position) WHERE ended_at IS NULL",
    """
        CREATE TABLE usage ( session INTEGER NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL, calls INTEGER
        NOT NULL, usage BLOB, cost FLOAT NOT NULL, unpriced INTEGER NOT NULL, PRIMARY KEY (session, kind,
        name) ) WITHOUT ROWID
    """,
)
CONTAINER: Final = Statement(
    "SELECT containers.id, containers.name, containers.created_at FROM containers WHERE containers.id = ?",
    ("id",),
)
ALL_CONTAINERS: Final = Statement(
    """
        SELECT containers.id, containers.name, containers.created_at FROM containers WHERE
        containers.position > coalesce((SELECT containers.position FROM containers WHERE containers.id = ?
        LIMIT 1 OFFSET 0), 0) ORDER BY containers.position LIMIT ? OFFSET 0
    """,
    ("after", "limit"),
)
IMAGE: Final = Statement(
    """
        SELECT images.id, revisions.definition, images.revision, images.created_at FROM images JOIN
        revisions ON revisions.image_id = images.id AND revisions.revision = images.revision WHERE images.id
        = ?
    """,
    ("id",),
)
ALL_IMAGES: Final = Statement(
    """
        SELECT images.id, revisions.definition, images.revision, images.created_at FROM images JOIN
        revisions ON revisions.image_id = images.id AND revisions.revision = images.revision WHERE
        images.position > coalesce((SELECT images.position FROM images WHERE images.id = ? LIMIT 1 OFFSET
        0), 0) ORDER BY images.position LIMIT ? OFFSET 0
    """,
    ("after", "limit"),
)
IMAGE_REVISION: Final = Statement(
    "SELECT revisions.definition FROM revisions WHERE revisions.image_id = ? AND revisions.revision = ?",
    ("id", "which"),
)
SESSION: Final = Statement(
    """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
        LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
        NULL AND sessions.id = ?
    """,
    ("id",),
)
SESSIONS_OF_CONTAINER: Final = Statement(
    """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
        LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
        NULL AND sessions.container_id = ? AND sessions.position > coalesce((SELECT sessions.position FROM
        sessions WHERE sessions.id = ? LIMIT 1 OFFSET 0), 0) ORDER BY sessions.position LIMIT ? OFFSET 0
    """,
    ("id", "after", "limit"),
)
NEWEST_SESSIONS: Final[dict[tuple[bool, bool | None], Statement]] = {
    (False, None): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) ORDER BY sessions.position DESC LIMIT ? OFFSET 0
        """,
        ("after", "limit"),
    ),
    (False, False): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) AND (sessions.position NOT IN (SELECT calls.session FROM
            calls WHERE calls.stage = 'waiting')) ORDER BY sessions.position DESC LIMIT ? OFFSET 0
        """,
        ("after", "limit"),
    ),
    (False, True): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.position IN (SELECT calls.session FROM calls
            WHERE calls.stage = 'waiting') ORDER BY sessions.position DESC LIMIT ? OFFSET 0
        """,
        ("after", "limit"),
    ),
    (True, None): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = ? ORDER BY sessions.position
            DESC LIMIT ? OFFSET 0
        """,
        ("after", "id", "limit"),
    ),
    (True, False): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = ? AND (sessions.position NOT IN
            (SELECT calls.session FROM calls WHERE calls.stage = 'waiting')) ORDER BY sessions.position DESC
            LIMIT ? OFFSET 0
        """,
        ("after", "id", "limit"),
    ),
    (True, True): Statement(
        """
            SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
            sessions.created_at, origin.id AS id_1, sessions.shared_until, sessions.shared_version FROM sessions
            LEFT OUTER JOIN sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS
            NULL AND sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = ?
            LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = ? AND sessions.position IN
            (SELECT calls.session FROM calls WHERE calls.stage = 'waiting') ORDER BY sessions.position DESC
            LIMIT ? OFFSET 0
        """,
        ("after", "id", "limit"),
    ),
}
SESSION_EVER: Final = Statement(
    "SELECT sessions.id FROM sessions WHERE sessions.id = ?",
    ("id",),
)
AGENT: Final = Statement(
    """
        SELECT agents.id, agents.session_id, agents.container_id, agents.image_id, agents.activity,
        agents.waits, agents.failed, agents.turn_id, agents.queued, agents.started_at FROM agents WHERE
        agents.stopped_at IS NULL AND agents.id = ?
    """,
    ("id",),
)
LIVE_AGENTS: Final = Statement(
    """
        SELECT agents.id, agents.session_id, agents.container_id, agents.image_id, agents.activity,
        agents.waits, agents.failed, agents.turn_id, agents.queued, agents.started_at FROM agents WHERE
        agents.stopped_at IS NULL AND agents.position > coalesce((SELECT agents.position FROM agents WHERE
        agents.id = ? LIMIT 1 OFFSET 0), 0) ORDER BY agents.position LIMIT ? OFFSET 0
    """,
    ("after", "limit"),
)
ORIGIN_OF_SESSION: Final = Statement(
    "SELECT sessions.origin FROM sessions WHERE sessions.id = ? AND sessions.deleted_at IS NULL",
    ("id",),
)
MESSAGES_OF_SESSION: Final = Statement(
    """
        SELECT messages.id, messages.role, messages.content, messages.created_at, messages.turn_id,
        messages.stop_reason, messages.partial, messages.usage, messages.stop_sequence,
        messages.stop_details FROM sessions JOIN messages ON messages.session = sessions.position WHERE
        sessions.id = ? AND sessions.deleted_at IS NULL AND (messages.asked, messages.position) > (?, ?)
        ORDER BY messages.asked, messages.position LIMIT ? OFFSET 0
    """,
    ("id", "asked", "position", "limit"),
)
MESSAGES_OF_BRANCH: Final = Statement(
    """
        WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
        9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = ? AND
        sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
        shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
        = lineage.session WHERE sessions.origin IS NOT NULL) SELECT messages.id, messages.role,
        messages.content, messages.created_at, messages.turn_id, messages.stop_reason, messages.partial,
        messages.usage, messages.stop_sequence, messages.stop_details FROM lineage JOIN messages ON
        messages.session = lineage.session AND messages.asked <= lineage.asked AND messages.position <=
        lineage.until WHERE (messages.asked, messages.position) > (?, ?) ORDER BY messages.asked,
        messages.position LIMIT ? OFFSET 0
    """,
    ("id", "asked", "position", "limit"),
)
PLACE_OF_MESSAGE: Final = Statement(
    """
        SELECT messages.asked, messages.position FROM turns JOIN messages ON messages.session =
        turns.session AND messages.asked = turns.asked WHERE turns.id = ? AND messages.id = ? AND
        messages.turn_id = turns.id AND messages.created_at = ? ORDER BY messages.asked, messages.position
        LIMIT 1 OFFSET 0
    """,
    ("turn", "id", "at"),
)
PLACE_OF_MESSAGE_OF_NO_TURN: Final = Statement(
    """
        WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
        9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = ? AND
        sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
        shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
        = lineage.session WHERE sessions.origin IS NOT NULL) SELECT messages.asked, messages.position FROM
        lineage JOIN messages ON messages.session = lineage.session AND messages.asked <= lineage.asked AND
        messages.position <= lineage.until WHERE messages.id = ? AND messages.turn_id IS NULL AND
        messages.created_at = ? ORDER BY messages.asked, messages.position LIMIT 1 OFFSET 0
    """,
    ("id", "message", "at"),
)
TURNS_OF_SESSION: Final = Statement(
    """
        SELECT turns.id, question.id AS id_1, turns.accepted_at, turns.started_at, turns.ended_at,
        turns.outcome, turns.stop_reason, turns.duration, turns.steps, turns.model, turns.usage, turns.cost,
        turns.failure, turns.stop_sequence, turns.stop_details FROM sessions JOIN turns ON turns.session =
        sessions.position JOIN messages AS question ON question.position = turns.asked WHERE (turns.asked,
        turns.position) > (coalesce((SELECT turns.asked FROM turns WHERE turns.id = ? LIMIT 1 OFFSET 0), 0),
        coalesce((SELECT turns.position FROM turns WHERE turns.id = ? LIMIT 1 OFFSET 0), 0)) AND sessions.id
        = ? AND sessions.deleted_at IS NULL ORDER BY turns.asked, turns.position LIMIT ? OFFSET 0
    """,
    ("after", "after", "id", "limit"),
)
TURN_BEGAN: Final = Statement(
    """
        SELECT turns.session, sessions.id, turns.position = turns.asked AS anon_1 FROM turns JOIN sessions
        ON sessions.position = turns.session WHERE turns.id = ?
    """,
    ("id",),
)
TURNS_OF_BRANCH: Final = Statement(
    """
        WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
        9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = ? AND
        sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
        shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
        = lineage.session WHERE sessions.origin IS NOT NULL) SELECT turns.id, question.id AS id_1,
        turns.accepted_at, turns.started_at, turns.ended_at, turns.outcome, turns.stop_reason,
        turns.duration, turns.steps, turns.model, turns.usage, turns.cost, turns.failure,
        turns.stop_sequence, turns.stop_details FROM lineage JOIN turns ON turns.session = lineage.session
        AND turns.asked <= lineage.asked AND (lineage.until = 9223372036854775807 OR turns.ended <=
        lineage.until) JOIN messages AS question ON question.position = turns.asked WHERE (turns.asked,
        turns.position) > (coalesce((SELECT turns.asked FROM turns WHERE turns.id = ? LIMIT 1 OFFSET 0), 0),
        coalesce((SELECT turns.position FROM turns WHERE turns.id = ? LIMIT 1 OFFSET 0), 0)) ORDER BY
        turns.asked, turns.position LIMIT ? OFFSET 0
    """,
    ("id", "after", "after", "limit"),
)
USAGE_OF_SESSION: Final = Statement(
    """
        SELECT usage.kind, usage.name, usage.calls, usage.usage, usage.cost, usage.unpriced FROM sessions
        JOIN usage ON usage.session = sessions.position WHERE sessions.id = ? AND sessions.deleted_at IS
        NULL ORDER BY usage.kind, usage.name
    """,
    ("id",),
)
CALLS_OF_SESSION: Final = Statement(
    """
        SELECT calls.id, answer.turn_id, answer.id AS id_1, calls.name, calls.arguments, calls.stage,
        calls.result, calls.is_error, calls.ran, calls.cost, calls.attempts, calls.asked_at, calls.reason,
        calls.decision, calls.decided_by, calls.decided_at, calls.original, calls.started_at, calls.ended_at
        FROM sessions JOIN calls ON calls.session = sessions.position JOIN messages AS answer ON
        answer.position = calls.position WHERE sessions.id = ? AND sessions.deleted_at IS NULL ORDER BY
        calls.position, calls.number
    """,
    ("id",),
)
CALLS_OF_BRANCH: Final = Statement(
    """
        WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
        9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = ? AND
        sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
        shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
        = lineage.session WHERE sessions.origin IS NOT NULL) SELECT calls.id, answer.turn_id, answer.id AS
        id_1, calls.name, calls.arguments, calls.stage, calls.result, calls.is_error, calls.ran, calls.cost,
        calls.attempts, calls.asked_at, calls.reason, calls.decision, calls.decided_by, calls.decided_at,
        calls.original, calls.started_at, calls.ended_at FROM lineage JOIN calls ON calls.session =
        lineage.session AND (lineage.until = 9223372036854775807 OR calls.results <= lineage.until) JOIN
        messages AS answer ON answer.position = calls.position ORDER BY calls.position, calls.number
    """,
    ("id",),
)
PENDING: Final = Statement(
    """
        SELECT calls.id, sessions.id AS id_1, agents.id AS id_2, answer.turn_id, calls.kind, calls.name,
        calls.arguments, calls.digest, calls.reason, calls.question, calls.asked_at FROM sessions JOIN calls
        ON calls.session = sessions.position JOIN messages AS answer ON answer.position = calls.position
        LEFT OUTER JOIN agents ON agents.session = calls.session AND agents.stopped_at IS NULL WHERE
        calls.stage = 'waiting' AND sessions.deleted_at IS NULL ORDER BY calls.position, calls.number
    """
)
PENDING_OF_SESSION: Final = Statement(
    """
        SELECT calls.id, sessions.id AS id_1, agents.id AS id_2, answer.turn_id, calls.kind, calls.name,
        calls.arguments, calls.digest, calls.reason, calls.question, calls.asked_at FROM sessions JOIN calls
        ON calls.session = sessions.position JOIN messages AS answer ON answer.position = calls.position
        LEFT OUTER JOIN agents ON agents.session = calls.session AND agents.stopped_at IS NULL WHERE
        calls.stage = 'waiting' AND sessions.deleted_at IS NULL AND sessions.id = ? AND calls.results IS
        NULL ORDER BY calls.position, calls.number
    """,
    ("id",),
)
PENDING_OF_ID: Final = Statement(
    """
        SELECT calls.id, sessions.id AS id_1, agents.id AS id_2, answer.turn_id, calls.kind, calls.name,
        calls.arguments, calls.digest, calls.reason, calls.question, calls.asked_at FROM sessions JOIN calls
        ON calls.session = sessions.position JOIN messages AS answer ON answer.position = calls.position
        LEFT OUTER JOIN agents ON agents.session = calls.session AND agents.stopped_at IS NULL WHERE
        calls.stage = 'waiting' AND sessions.deleted_at IS NULL AND calls.id = ? ORDER BY calls.position,
        calls.number
    """,
    ("id",),
)
UNFINISHED: Final = Statement(
    """
        SELECT sessions.id FROM sessions WHERE sessions.position IN (SELECT at_work.session FROM (SELECT
        agents.session AS session FROM agents WHERE agents.stopped_at IS NULL UNION SELECT turns.session AS
        session FROM turns WHERE turns.started_at IS NOT NULL AND turns.ended_at IS NULL) AS at_work) ORDER
        BY sessions.position
    """
)
PROGRESS_OF: Final = """
    SELECT progress.position, progress.mark, progress.version, progress.closed FROM progress WHERE
    progress.name = ?
"""
ADD_PROGRESS: Final = "INSERT INTO progress (name, position, mark, version, closed) VALUES (?, ?, ?, ?, ?)"
SAY_CLOSED: Final = "UPDATE progress SET closed=? WHERE progress.name = ?"
MOVE: Final = "UPDATE progress SET position=?, mark=?, closed=0 WHERE progress.name = ? AND progress.position = ?"
ADD_CONTAINERS: Final = "INSERT INTO containers (position, id, name, created_at) VALUES (?, ?, ?, ?)"
ADD_REVISIONS: Final = "INSERT INTO revisions (position, image_id, revision, definition) VALUES (?, ?, ?, ?)"
ADD_SESSIONS: Final = """
    INSERT INTO sessions (position, stream, id, container_id, image_id, image_revision, created_at,
    deleted_at, origin, shared_until, shared_version, shared_asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?)
"""
ADD_MESSAGES: Final = """
    INSERT INTO messages (position, session, asked, id, role, content, created_at, turn_id, stop_reason,
    partial, usage, stop_sequence, stop_details) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_TURNS: Final = """
    INSERT INTO turns (position, session, id, asked, accepted_at, started_at, ended_at, ended, outcome,
    stop_reason, duration, steps, answer, model, usage, cost, failure, stop_sequence, stop_details)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_AGENTS: Final = """
    INSERT INTO agents (position, id, session, session_id, container_id, image_id, started_at,
    stopped_at, turn_id, activity, failed, waits, queued) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_CALLS: Final = """
    INSERT INTO calls (position, number, session, id, name, arguments, stage, kind, digest, reason,
    question, asked_at, original, decision, decided_by, decided_at, attempts, started_at, ended_at,
    result, is_error, ran, cost, results) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?)
"""
PUT_IMAGES: Final = """
    INSERT INTO images (position, id, revision, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO
    UPDATE SET revision = excluded.revision
"""
PUT_USAGE: Final = """
    INSERT INTO usage (session, kind, name, calls, usage, cost, unpriced) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (session, kind, name) DO UPDATE SET calls = excluded.calls, usage = excluded.usage, cost
    = excluded.cost, unpriced = excluded.unpriced
"""
DELETE_SESSIONS: Final = "UPDATE sessions SET deleted_at=? WHERE sessions.position = ?"
MOVE_TURNS: Final = """
    UPDATE turns SET started_at=?, ended_at=?, ended=?, outcome=?, stop_reason=?, duration=?, steps=?,
    answer=?, model=?, usage=?, cost=?, failure=?, stop_sequence=?, stop_details=? WHERE turns.position
    = ? AND turns.session = ?
"""
MOVE_AGENTS: Final = """
    UPDATE agents SET stopped_at=?, turn_id=?, activity=?, failed=?, waits=?, queued=? WHERE
    agents.position = ?
"""
MOVE_CALLS: Final = """
    UPDATE calls SET arguments=?, stage=?, kind=?, digest=?, reason=?, question=?, asked_at=?,
    original=?, decision=?, decided_by=?, decided_at=?, attempts=?, started_at=?, ended_at=?, result=?,
    is_error=?, ran=?, cost=?, results=? WHERE calls.position = ? AND calls.number = ? AND calls.session
    = ?
"""
SESSIONS_OF_STREAMS: Final = """
    SELECT sessions.stream, sessions.position, sessions.id, sessions.container_id, sessions.image_id,
    coalesce((SELECT max(turns.asked) AS max_1 FROM turns WHERE turns.session = sessions.position AND
    turns.started_at IS NOT NULL), sessions.shared_asked, 0) AS coalesce_1 FROM sessions WHERE
    sessions.stream IN (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
LIVE_AGENTS_OF: Final = """
    SELECT agents.session, agents.position, agents.id, agents.started_at, agents.turn_id,
    agents.activity, agents.failed FROM agents WHERE agents.stopped_at IS NULL AND agents.session IN
    (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
OPEN_TURNS_OF: Final = """
    SELECT turns.position, turns.id, turns.session, turns.asked, turns.accepted_at, turns.started_at,
    turns.steps, turns.answer, turns.model, turns.usage, turns.cost, messages.content FROM turns LEFT
    OUTER JOIN messages ON messages.position = turns.answer WHERE turns.ended_at IS NULL AND
    turns.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1) ORDER BY turns.session,
    turns.position
"""
OPEN_CALLS_OF: Final = """
    SELECT calls.position, calls.number, calls.session, calls.id, calls.name, calls.arguments,
    calls.stage, calls.kind, calls.digest, calls.reason, calls.question, calls.asked_at, calls.original,
    calls.decision, calls.decided_by, calls.decided_at, calls.attempts, calls.started_at,
    calls.ended_at, calls.result, calls.is_error, calls.ran, calls.cost, calls.results, messages.asked
    FROM calls JOIN messages ON messages.position = calls.position WHERE calls.results IS NULL AND
    calls.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1) ORDER BY calls.session,
    calls.position, calls.number
"""
USAGE_OF: Final = """
    SELECT usage.session, usage.kind, usage.name, usage.calls, usage.usage, usage.cost, usage.unpriced
    FROM usage WHERE usage.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
