"""The read model's tables and statements as SQLite's text: made ahead, so that nobody waits for SQLAlchemy.

Made from `tables`; `python -m tests.projections.compiled` writes it anew.
"""

from __future__ import annotations

VERSION = 12
TABLES = (
    """
        CREATE TABLE activity ( session INTEGER NOT NULL, position INTEGER NOT NULL, events INTEGER NOT
        NULL, last_at INTEGER NOT NULL, state TEXT NOT NULL, asked INTEGER, turn INTEGER, outcome TEXT,
        turns INTEGER NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, cost FLOAT NOT
        NULL, unpriced INTEGER NOT NULL, PRIMARY KEY (session) )
    """,
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
        CREATE TABLE answers ( position INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL, day
        INTEGER NOT NULL, model TEXT NOT NULL, tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL,
        tokens_cached INTEGER NOT NULL, cost FLOAT, first_delta FLOAT, PRIMARY KEY (position) )
    """,
    """
        CREATE INDEX answers_of_day ON answers (day, model, session, at, tokens_in, tokens_out,
        tokens_cached, cost)
    """,
    """
        CREATE TABLE call_ends ( position INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL,
        day INTEGER NOT NULL, answer INTEGER NOT NULL, name TEXT NOT NULL, failed INTEGER NOT NULL, denied
        INTEGER NOT NULL, duration FLOAT, cost FLOAT, PRIMARY KEY (position) )
    """,
    """
        CREATE TABLE calls ( position INTEGER NOT NULL, number INTEGER NOT NULL, session INTEGER NOT NULL,
        id TEXT NOT NULL, name TEXT NOT NULL, arguments BLOB NOT NULL, stage TEXT NOT NULL, kind TEXT,
        digest BLOB NOT NULL, reason BLOB NOT NULL, question BLOB, asked_at INTEGER, original BLOB, decision
        TEXT, decided_by TEXT, decided_at INTEGER, attempts INTEGER NOT NULL, started_at INTEGER, ended_at
        INTEGER, result BLOB, is_error INTEGER NOT NULL, ran INTEGER NOT NULL, cost FLOAT, results INTEGER,
        started INTEGER, decided INTEGER, PRIMARY KEY (position, number, session) ) WITHOUT ROWID
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
        CREATE TABLE decisions ( position INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL,
        day INTEGER NOT NULL, answer INTEGER NOT NULL, name TEXT NOT NULL, decision TEXT NOT NULL, waited
        FLOAT NOT NULL, PRIMARY KEY (position) )
    """,
    """
        CREATE TABLE images ( position INTEGER NOT NULL, id TEXT NOT NULL, revision INTEGER NOT NULL,
        created_at INTEGER NOT NULL, PRIMARY KEY (position), UNIQUE (id) )
    """,
    """
        CREATE TABLE messages ( position INTEGER NOT NULL, session INTEGER NOT NULL, asked INTEGER NOT NULL,
        id TEXT NOT NULL, role TEXT NOT NULL, content BLOB NOT NULL, created_at INTEGER NOT NULL, turn_id
        TEXT, stop_reason TEXT, partial INTEGER NOT NULL, usage BLOB, stop_sequence BLOB, stop_details BLOB,
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
        CREATE TABLE schedules ( position INTEGER NOT NULL, session INTEGER NOT NULL, id TEXT NOT NULL,
        content BLOB NOT NULL, due INTEGER, every INTEGER, until INTEGER, created_at INTEGER NOT NULL,
        PRIMARY KEY (position) )
    """,
    "CREATE INDEX schedules_due ON schedules (due, position) WHERE due IS NOT NULL",
    "CREATE INDEX schedules_of_session ON schedules (session, id) WHERE due IS NOT NULL",
    """
        CREATE TABLE sessions ( position INTEGER NOT NULL, stream TEXT NOT NULL, id TEXT NOT NULL,
        container_id TEXT NOT NULL, image_id TEXT NOT NULL, image_revision INTEGER NOT NULL, created_at
        INTEGER NOT NULL, deleted_at INTEGER, origin INTEGER, shared_until INTEGER, shared_version INTEGER,
        shared_asked INTEGER, parent TEXT, parent_version INTEGER, parent_call TEXT, root TEXT, depth
        INTEGER NOT NULL, forgotten_at INTEGER, forgotten_by TEXT, forgotten_why TEXT, PRIMARY KEY
        (position), UNIQUE (stream), UNIQUE (id) )
    """,
    "CREATE INDEX sessions_branched ON sessions (origin, position) WHERE origin IS NOT NULL",
    "CREATE INDEX sessions_called ON sessions (parent, position) WHERE parent IS NOT NULL",
    "CREATE INDEX sessions_listed ON sessions (position) WHERE deleted_at IS NULL",
    """
        CREATE INDEX sessions_of_container ON sessions (container_id, position) WHERE deleted_at IS NULL
    """,
    """
        CREATE TABLE turn_ends ( position INTEGER NOT NULL, session INTEGER NOT NULL, at INTEGER NOT NULL,
        day INTEGER NOT NULL, model TEXT NOT NULL, outcome TEXT NOT NULL, error TEXT, duration FLOAT,
        PRIMARY KEY (position) )
    """,
    """
        CREATE TABLE turns ( position INTEGER NOT NULL, session INTEGER NOT NULL, id TEXT NOT NULL, asked
        INTEGER NOT NULL, accepted_at INTEGER NOT NULL, started_at INTEGER, ended_at INTEGER, ended INTEGER,
        outcome TEXT, stop_reason TEXT, duration FLOAT, steps INTEGER NOT NULL, answer INTEGER, model TEXT,
        usage BLOB, cost FLOAT, failure BLOB, stop_sequence BLOB, stop_details BLOB, PRIMARY KEY (position,
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
CONTAINER = """
    SELECT containers.id, containers.name, containers.created_at FROM containers WHERE containers.id =
    :id
"""
ALL_CONTAINERS = """
    SELECT containers.id, containers.name, containers.created_at FROM containers WHERE
    containers.position > coalesce((SELECT containers.position FROM containers WHERE containers.id =
    :after LIMIT 1 OFFSET 0), 0) ORDER BY containers.position LIMIT coalesce(max(:limit, 0), -1) OFFSET
    0
"""
IMAGE = """
    SELECT images.id AS image_id, images.revision, images.created_at, revisions.definition FROM images
    JOIN revisions ON revisions.image_id = images.id AND revisions.revision = images.revision WHERE
    images.id = :id
"""
ALL_IMAGES = """
    SELECT images.id AS image_id, images.revision, images.created_at, revisions.definition FROM images
    JOIN revisions ON revisions.image_id = images.id AND revisions.revision = images.revision WHERE
    images.position > coalesce((SELECT images.position FROM images WHERE images.id = :after LIMIT 1
    OFFSET 0), 0) ORDER BY images.position LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
"""
IMAGE_REVISION = """
    SELECT revisions.definition FROM revisions WHERE revisions.image_id = :id AND revisions.revision =
    :which
"""
SESSION = """
    SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
    sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
    sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
    sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
    sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
    sessions.id = :id
"""
SESSIONS_OF_CONTAINER = """
    SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
    sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
    sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
    sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
    sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
    sessions.container_id = :id AND sessions.position > coalesce((SELECT sessions.position FROM sessions
    WHERE sessions.id = :after LIMIT 1 OFFSET 0), 0) ORDER BY sessions.position LIMIT
    coalesce(max(:limit, 0), -1) OFFSET 0
"""
SCHEDULES_DUE = """
    SELECT schedules.id, schedules.content, schedules.due, schedules.every, schedules.until,
    schedules.created_at, sessions.id AS session_id FROM schedules JOIN sessions ON sessions.position =
    schedules.session WHERE sessions.deleted_at IS NULL AND schedules.due IS NOT NULL ORDER BY
    schedules.due, schedules.position
"""
SCHEDULES_OF_SESSION = """
    SELECT schedules.id, schedules.content, schedules.due, schedules.every, schedules.until,
    schedules.created_at, sessions.id AS session_id FROM schedules JOIN sessions ON sessions.position =
    schedules.session WHERE sessions.deleted_at IS NULL AND schedules.due IS NOT NULL AND sessions.id =
    :id ORDER BY schedules.due, schedules.position
"""
KNOWN_SESSION = """
    SELECT sessions.container_id, sessions.image_id, sessions.image_revision, sessions.created_at,
    sessions.deleted_at, sessions.forgotten_at FROM sessions WHERE sessions.id = :id
"""
KIN = """
    SELECT kin.id FROM sessions JOIN sessions AS kin ON kin.origin = sessions.position OR kin.parent =
    sessions.id OR kin.id = sessions.parent WHERE sessions.id = :id AND kin.forgotten_at IS NULL
"""
NEWEST_SESSIONS: dict[tuple[str, bool | None], str] = {
    ("all", None): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) ORDER BY sessions.position DESC LIMIT coalesce(max(:limit,
        0), -1) OFFSET 0
    """,
    ("all", False): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND (sessions.position NOT IN (SELECT calls.session FROM
        calls WHERE calls.stage = 'waiting')) ORDER BY sessions.position DESC LIMIT coalesce(max(:limit, 0),
        -1) OFFSET 0
    """,
    ("all", True): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.position IN (SELECT calls.session FROM calls
        WHERE calls.stage = 'waiting') ORDER BY sessions.position DESC LIMIT coalesce(max(:limit, 0), -1)
        OFFSET 0
    """,
    ("container", None): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = :id ORDER BY sessions.position
        DESC LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
    """,
    ("container", False): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = :id AND (sessions.position NOT
        IN (SELECT calls.session FROM calls WHERE calls.stage = 'waiting')) ORDER BY sessions.position DESC
        LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
    """,
    ("container", True): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.container_id = :id AND sessions.position IN
        (SELECT calls.session FROM calls WHERE calls.stage = 'waiting') ORDER BY sessions.position DESC
        LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
    """,
    ("parent", None): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.parent = :id ORDER BY sessions.position DESC
        LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
    """,
    ("parent", False): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.parent = :id AND (sessions.position NOT IN
        (SELECT calls.session FROM calls WHERE calls.stage = 'waiting')) ORDER BY sessions.position DESC
        LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
    """,
    ("parent", True): """
        SELECT sessions.id, sessions.container_id, sessions.image_id, sessions.image_revision,
        sessions.created_at, sessions.shared_until, sessions.shared_version, sessions.parent,
        sessions.parent_version, sessions.parent_call, sessions.root, sessions.depth, sessions.forgotten_at,
        sessions.forgotten_by, sessions.forgotten_why, origin.id AS origin FROM sessions LEFT OUTER JOIN
        sessions AS origin ON origin.position = sessions.origin WHERE sessions.deleted_at IS NULL AND
        sessions.position < coalesce((SELECT sessions.position FROM sessions WHERE sessions.id = :after
        LIMIT 1 OFFSET 0), 9223372036854775807) AND sessions.parent = :id AND sessions.position IN (SELECT
        calls.session FROM calls WHERE calls.stage = 'waiting') ORDER BY sessions.position DESC LIMIT
        coalesce(max(:limit, 0), -1) OFFSET 0
    """,
}
SESSION_EVER = "SELECT sessions.id FROM sessions WHERE sessions.id = :id"
AGENT = """
    SELECT agents.id, agents.session_id, agents.container_id, agents.image_id, agents.started_at,
    agents.turn_id, agents.activity, agents.failed, agents.waits, agents.queued FROM agents WHERE
    agents.stopped_at IS NULL AND agents.id = :id
"""
LIVE_AGENTS = """
    SELECT agents.id, agents.session_id, agents.container_id, agents.image_id, agents.started_at,
    agents.turn_id, agents.activity, agents.failed, agents.waits, agents.queued FROM agents WHERE
    agents.stopped_at IS NULL AND agents.position > coalesce((SELECT agents.position FROM agents WHERE
    agents.id = :after LIMIT 1 OFFSET 0), 0) ORDER BY agents.position LIMIT coalesce(max(:limit, 0), -1)
    OFFSET 0
"""
ORIGIN_OF_SESSION = """
    SELECT sessions.origin FROM sessions WHERE sessions.id = :id AND sessions.deleted_at IS NULL
"""
MESSAGES_OF_SESSION = """
    SELECT messages.id, messages.role, messages.content, messages.created_at, messages.turn_id,
    messages.stop_reason, messages.partial, messages.usage, messages.stop_sequence,
    messages.stop_details FROM sessions JOIN messages ON messages.session = sessions.position WHERE
    sessions.id = :id AND sessions.deleted_at IS NULL AND (messages.asked, messages.position) > (:asked,
    :position) ORDER BY messages.asked, messages.position LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
"""
MESSAGES_OF_BRANCH = """
    WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
    9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = :id AND
    sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
    shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
    = lineage.session WHERE sessions.origin IS NOT NULL) SELECT messages.id, messages.role,
    messages.content, messages.created_at, messages.turn_id, messages.stop_reason, messages.partial,
    messages.usage, messages.stop_sequence, messages.stop_details FROM lineage CROSS JOIN messages ON
    messages.session = lineage.session AND messages.asked <= lineage.asked AND messages.position <=
    lineage.until WHERE (messages.asked, messages.position) > (:asked, :position) ORDER BY
    messages.asked, messages.position LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
"""
PLACE_OF_MESSAGE = """
    SELECT messages.asked, messages.position FROM turns JOIN messages ON messages.session =
    turns.session AND messages.asked = turns.asked WHERE turns.id = :turn AND messages.id = :id AND
    messages.turn_id = turns.id AND messages.created_at = :at ORDER BY messages.asked, messages.position
    LIMIT 1 OFFSET 0
"""
PLACE_OF_MESSAGE_OF_NO_TURN = """
    WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
    9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = :id AND
    sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
    shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
    = lineage.session WHERE sessions.origin IS NOT NULL) SELECT messages.asked, messages.position FROM
    lineage CROSS JOIN messages ON messages.session = lineage.session AND messages.asked <=
    lineage.asked AND messages.position <= lineage.until WHERE messages.id = :message AND
    messages.turn_id IS NULL AND messages.created_at = :at ORDER BY messages.asked, messages.position
    LIMIT 1 OFFSET 0
"""
TURNS_OF_SESSION = """
    SELECT turns.id, turns.accepted_at, turns.started_at, turns.ended_at, turns.outcome,
    turns.stop_reason, turns.duration, turns.steps, turns.model, turns.usage, turns.cost, turns.failure,
    turns.stop_sequence, turns.stop_details, question.id AS message_id FROM sessions JOIN turns ON
    turns.session = sessions.position JOIN messages AS question ON question.position = turns.asked WHERE
    (turns.asked, turns.position) > (coalesce((SELECT turns.asked FROM turns WHERE turns.id = :after
    LIMIT 1 OFFSET 0), 0), coalesce((SELECT turns.position FROM turns WHERE turns.id = :after LIMIT 1
    OFFSET 0), 0)) AND sessions.id = :id AND sessions.deleted_at IS NULL ORDER BY turns.asked,
    turns.position LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
"""
TURN_BEGAN = """
    SELECT sessions.id, turns.position = turns.asked AS with_message FROM turns JOIN sessions ON
    sessions.position = turns.session WHERE turns.id = :id ORDER BY turns.position, turns.session LIMIT
    1 OFFSET 0
"""
TURNS_OF_BRANCH = """
    WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
    9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = :id AND
    sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
    shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
    = lineage.session WHERE sessions.origin IS NOT NULL) SELECT turns.id, turns.accepted_at,
    turns.started_at, turns.ended_at, turns.outcome, turns.stop_reason, turns.duration, turns.steps,
    turns.model, turns.usage, turns.cost, turns.failure, turns.stop_sequence, turns.stop_details,
    question.id AS message_id FROM lineage CROSS JOIN turns ON turns.session = lineage.session AND
    turns.asked <= lineage.asked AND (lineage.until = 9223372036854775807 OR turns.ended <=
    lineage.until) JOIN messages AS question ON question.position = turns.asked WHERE (turns.asked,
    turns.position) > (coalesce((SELECT turns.asked FROM turns WHERE turns.id = :after LIMIT 1 OFFSET
    0), 0), coalesce((SELECT turns.position FROM turns WHERE turns.id = :after LIMIT 1 OFFSET 0), 0))
    ORDER BY turns.asked, turns.position LIMIT coalesce(max(:limit, 0), -1) OFFSET 0
"""
USAGE_OF_SESSION = """
    SELECT usage.kind, usage.name, usage.calls, usage.usage, usage.cost, usage.unpriced FROM sessions
    JOIN usage ON usage.session = sessions.position WHERE sessions.id = :id AND sessions.deleted_at IS
    NULL ORDER BY usage.kind, usage.name
"""
CALLS_OF_SESSION = """
    SELECT calls.id, calls.name, calls.arguments, calls.stage, calls.reason, calls.asked_at,
    calls.original, calls.decision, calls.decided_by, calls.decided_at, calls.attempts,
    calls.started_at, calls.ended_at, calls.result, calls.is_error, calls.ran, calls.cost,
    answer.turn_id, answer.id AS message_id FROM sessions JOIN calls ON calls.session =
    sessions.position JOIN messages AS answer ON answer.position = calls.position WHERE sessions.id =
    :id AND sessions.deleted_at IS NULL ORDER BY calls.position, calls.number
"""
CALLS_OF_BRANCH = """
    WITH RECURSIVE lineage(session, asked, until) AS (SELECT sessions.position AS session,
    9223372036854775807 AS asked, 9223372036854775807 AS until FROM sessions WHERE sessions.id = :id AND
    sessions.deleted_at IS NULL UNION ALL SELECT sessions.origin AS origin, sessions.shared_asked AS
    shared_asked, sessions.shared_until AS shared_until FROM sessions JOIN lineage ON sessions.position
    = lineage.session WHERE sessions.origin IS NOT NULL) SELECT calls.id, calls.name, calls.arguments,
    calls.stage, calls.reason, calls.asked_at, calls.original, calls.decision, calls.decided_by,
    calls.decided_at, calls.attempts, calls.started_at, calls.ended_at, calls.result, calls.is_error,
    calls.ran, calls.cost, answer.turn_id, answer.id AS message_id FROM lineage CROSS JOIN calls ON
    calls.session = lineage.session AND (lineage.until = 9223372036854775807 OR calls.results <=
    lineage.until) JOIN messages AS answer ON answer.position = calls.position ORDER BY calls.position,
    calls.number
"""
PENDING = """
    SELECT calls.id, calls.kind, calls.name, calls.arguments, calls.digest, calls.reason,
    calls.question, calls.asked_at AS since, sessions.id AS session_id, agents.id AS agent_id,
    answer.turn_id FROM sessions JOIN calls ON calls.session = sessions.position JOIN messages AS answer
    ON answer.position = calls.position LEFT OUTER JOIN agents ON agents.session = calls.session AND
    agents.stopped_at IS NULL WHERE calls.stage = 'waiting' AND calls.kind != 'child' AND
    sessions.deleted_at IS NULL ORDER BY calls.position, calls.number
"""
PENDING_OF_SESSION = """
    WITH RECURSIVE below(id) AS (SELECT sessions.id AS id FROM sessions WHERE sessions.id = :id UNION
    ALL SELECT child.id AS id FROM sessions AS child JOIN below ON child.parent = below.id) SELECT
    calls.id, calls.kind, calls.name, calls.arguments, calls.digest, calls.reason, calls.question,
    calls.asked_at AS since, sessions.id AS session_id, agents.id AS agent_id, answer.turn_id FROM
    sessions JOIN calls ON calls.session = sessions.position JOIN messages AS answer ON answer.position
    = calls.position LEFT OUTER JOIN agents ON agents.session = calls.session AND agents.stopped_at IS
    NULL WHERE calls.stage = 'waiting' AND calls.kind != 'child' AND sessions.deleted_at IS NULL AND
    sessions.id IN (SELECT below.id FROM below) AND calls.results IS NULL ORDER BY calls.position,
    calls.number
"""
PENDING_OF_ID = """
    SELECT calls.id, calls.kind, calls.name, calls.arguments, calls.digest, calls.reason,
    calls.question, calls.asked_at AS since, sessions.id AS session_id, agents.id AS agent_id,
    answer.turn_id FROM sessions JOIN calls ON calls.session = sessions.position JOIN messages AS answer
    ON answer.position = calls.position LEFT OUTER JOIN agents ON agents.session = calls.session AND
    agents.stopped_at IS NULL WHERE calls.stage = 'waiting' AND calls.kind != 'child' AND
    sessions.deleted_at IS NULL AND calls.id = :id ORDER BY calls.position, calls.number
"""
CALLER = """
    SELECT sessions.parent, caller.image_id, sessions.parent_call FROM sessions LEFT OUTER JOIN sessions
    AS caller ON caller.id = sessions.parent WHERE sessions.id = :id AND sessions.parent IS NOT NULL
"""
UNFINISHED = """
    SELECT sessions.id FROM sessions WHERE sessions.position IN (SELECT at_work.session FROM (SELECT
    agents.session AS session FROM agents WHERE agents.stopped_at IS NULL UNION SELECT turns.session AS
    session FROM turns WHERE turns.started_at IS NOT NULL AND turns.ended_at IS NULL UNION SELECT
    calls.session AS session FROM calls WHERE calls.results IS NULL AND calls.stage = 'running' AND
    calls.kind = 'child') AS at_work) ORDER BY sessions.position
"""
PROGRESS_OF = "SELECT progress.position FROM progress WHERE progress.name = ?"
ADD_PROGRESS = "INSERT INTO progress (name, position, mark, version, closed) VALUES (?, ?, ?, ?, ?)"
RECORD_CLOSED = "UPDATE progress SET closed=? WHERE progress.name = ?"
MOVE = """
    UPDATE progress SET position=?, mark=?, closed=0 WHERE progress.name = ? AND progress.position = ?
"""
ADD_CONTAINERS = "INSERT INTO containers (position, id, name, created_at) VALUES (?, ?, ?, ?)"
ADD_REVISIONS = "INSERT INTO revisions (position, image_id, revision, definition) VALUES (?, ?, ?, ?)"
ADD_SESSIONS = """
    INSERT INTO sessions (position, stream, id, container_id, image_id, image_revision, created_at,
    deleted_at, origin, shared_until, shared_version, shared_asked, parent, parent_version, parent_call,
    root, depth, forgotten_at, forgotten_by, forgotten_why) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_SCHEDULES = """
    INSERT INTO schedules (position, session, id, content, due, every, until, created_at) VALUES (?, ?,
    ?, ?, ?, ?, ?, ?)
"""
ADD_MESSAGES = """
    INSERT INTO messages (position, session, asked, id, role, content, created_at, turn_id, stop_reason,
    partial, usage, stop_sequence, stop_details) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_ANSWERS = """
    INSERT INTO answers (position, session, at, day, model, tokens_in, tokens_out, tokens_cached, cost,
    first_delta) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_TURN_ENDS = """
    INSERT INTO turn_ends (position, session, at, day, model, outcome, error, duration) VALUES (?, ?, ?,
    ?, ?, ?, ?, ?)
"""
ADD_CALL_ENDS = """
    INSERT INTO call_ends (position, session, at, day, answer, name, failed, denied, duration, cost)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
ADD_DECISIONS = """
    INSERT INTO decisions (position, session, at, day, answer, name, decision, waited) VALUES (?, ?, ?,
    ?, ?, ?, ?, ?)
"""
DELETE_SESSIONS = "UPDATE sessions SET deleted_at=? WHERE sessions.position = ?"
FORGET = (
    """
        DELETE FROM activity WHERE activity.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM schedules WHERE schedules.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM agents WHERE agents.session = (SELECT sessions.position FROM sessions WHERE sessions.id
        = ?)
    """,
    """
        DELETE FROM messages WHERE messages.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM answers WHERE answers.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM turn_ends WHERE turn_ends.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM call_ends WHERE call_ends.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM decisions WHERE decisions.session = (SELECT sessions.position FROM sessions WHERE
        sessions.id = ?)
    """,
    """
        DELETE FROM turns WHERE turns.session = (SELECT sessions.position FROM sessions WHERE sessions.id =
        ?)
    """,
    """
        DELETE FROM calls WHERE calls.session = (SELECT sessions.position FROM sessions WHERE sessions.id =
        ?)
    """,
    """
        DELETE FROM usage WHERE usage.session = (SELECT sessions.position FROM sessions WHERE sessions.id =
        ?)
    """,
    "DELETE FROM sessions WHERE sessions.id = ?",
)
RESCHEDULE = """
    UPDATE schedules SET due=? WHERE schedules.session = ? AND schedules.id = ? AND schedules.due IS NOT
    NULL
"""
SWITCH_SESSIONS = "UPDATE sessions SET image_id=?, image_revision=? WHERE sessions.position = ?"
PUT_IMAGES = """
    INSERT INTO images (position, id, revision, created_at) VALUES (?, ?, ?, ?) ON CONFLICT (id) DO
    UPDATE SET revision = excluded.revision
"""
PUT_ACTIVITY = """
    INSERT INTO activity (session, position, events, last_at, state, asked, turn, outcome, turns,
    tokens_in, tokens_out, cost, unpriced) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT
    (session) DO UPDATE SET position = excluded.position, events = excluded.events, last_at =
    excluded.last_at, state = excluded.state, asked = excluded.asked, turn = excluded.turn, outcome =
    excluded.outcome, turns = excluded.turns, tokens_in = excluded.tokens_in, tokens_out =
    excluded.tokens_out, cost = excluded.cost, unpriced = excluded.unpriced
"""
PUT_USAGE = """
    INSERT INTO usage (session, kind, name, calls, usage, cost, unpriced) VALUES (?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (session, kind, name) DO UPDATE SET calls = excluded.calls, usage = excluded.usage, cost
    = excluded.cost, unpriced = excluded.unpriced
"""
PUT_AGENTS = """
    INSERT INTO agents (position, id, session, session_id, container_id, image_id, started_at,
    stopped_at, turn_id, activity, failed, waits, queued) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (position) DO UPDATE SET image_id = excluded.image_id, stopped_at = excluded.stopped_at,
    turn_id = excluded.turn_id, activity = excluded.activity, failed = excluded.failed, waits =
    excluded.waits, queued = excluded.queued
"""
PUT_TURNS = """
    INSERT INTO turns (position, session, id, asked, accepted_at, started_at, ended_at, ended, outcome,
    stop_reason, duration, steps, answer, model, usage, cost, failure, stop_sequence, stop_details)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (position, session) DO
    UPDATE SET started_at = excluded.started_at, ended_at = excluded.ended_at, ended = excluded.ended,
    outcome = excluded.outcome, stop_reason = excluded.stop_reason, duration = excluded.duration, steps
    = excluded.steps, answer = excluded.answer, model = excluded.model, usage = excluded.usage, cost =
    excluded.cost, failure = excluded.failure, stop_sequence = excluded.stop_sequence, stop_details =
    excluded.stop_details
"""
PUT_CALLS = """
    INSERT INTO calls (position, number, session, id, name, arguments, stage, kind, digest, reason,
    question, asked_at, original, decision, decided_by, decided_at, attempts, started_at, ended_at,
    result, is_error, ran, cost, results, started, decided) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?,
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (position, number, session) DO UPDATE SET
    arguments = excluded.arguments, stage = excluded.stage, kind = excluded.kind, digest =
    excluded.digest, reason = excluded.reason, question = excluded.question, asked_at =
    excluded.asked_at, original = excluded.original, decision = excluded.decision, decided_by =
    excluded.decided_by, decided_at = excluded.decided_at, attempts = excluded.attempts, started_at =
    excluded.started_at, ended_at = excluded.ended_at, result = excluded.result, is_error =
    excluded.is_error, ran = excluded.ran, cost = excluded.cost, results = excluded.results, started =
    excluded.started, decided = excluded.decided
"""
SESSIONS_OF_STREAMS = """
    SELECT sessions.stream, sessions.position, sessions.id, sessions.container_id, sessions.image_id,
    coalesce((SELECT max(turns.asked) AS max_1 FROM turns WHERE turns.session = sessions.position AND
    turns.started_at IS NOT NULL), sessions.shared_asked, 0) AS coalesce_1, activity.session,
    activity.position AS position_1, activity.events, activity.last_at, activity.state, activity.asked,
    activity.turn, activity.outcome, activity.turns, activity.tokens_in, activity.tokens_out,
    activity.cost, activity.unpriced FROM sessions, activity WHERE activity.session = sessions.position
    AND sessions.stream IN (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
LIVE_AGENTS_OF = """
    SELECT agents.position, agents.id, agents.session, agents.session_id, agents.container_id,
    agents.image_id, agents.started_at, agents.stopped_at, agents.turn_id, agents.activity,
    agents.failed, agents.waits, agents.queued FROM agents WHERE agents.stopped_at IS NULL AND
    agents.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
OPEN_TURNS_OF = """
    SELECT turns.position, turns.session, turns.id, turns.asked, turns.accepted_at, turns.started_at,
    turns.ended_at, turns.ended, turns.outcome, turns.stop_reason, turns.duration, turns.steps,
    turns.answer, turns.model, turns.usage, turns.cost, turns.failure, turns.stop_sequence,
    turns.stop_details, messages.content FROM turns LEFT OUTER JOIN messages ON messages.position =
    turns.answer WHERE turns.ended_at IS NULL AND turns.session IN (SELECT anon_1.value FROM
    json_each(?) AS anon_1) ORDER BY turns.session, turns.position
"""
OPEN_CALLS_OF = """
    SELECT calls.position, calls.number, calls.session, calls.id, calls.name, calls.arguments,
    calls.stage, calls.kind, calls.digest, calls.reason, calls.question, calls.asked_at, calls.original,
    calls.decision, calls.decided_by, calls.decided_at, calls.attempts, calls.started_at,
    calls.ended_at, calls.result, calls.is_error, calls.ran, calls.cost, calls.results, calls.started,
    calls.decided, messages.asked FROM calls JOIN messages ON messages.position = calls.position WHERE
    calls.results IS NULL AND calls.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1) ORDER
    BY calls.session, calls.position, calls.number
"""
USAGE_OF = """
    SELECT usage.session, usage.kind, usage.name, usage.calls, usage.usage, usage.cost, usage.unpriced
    FROM usage WHERE usage.session IN (SELECT anon_1.value FROM json_each(?) AS anon_1)
"""
