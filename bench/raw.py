"""Hand-written sqlite3, for this workload only."""

from __future__ import annotations

import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.workload import deltas, question

_SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions(id TEXT PRIMARY KEY, title TEXT);
CREATE TABLE IF NOT EXISTS messages(
    id INTEGER PRIMARY KEY, session_id TEXT, turn INTEGER, role TEXT, content TEXT, UNIQUE(session_id, turn, role)
);
"""


class Raw:
    """Two commits a turn: the question before the model is asked, the answer after it. Deltas are not stored."""

    name = "sqlite3"

    def __init__(self, path: Path, synchronous: str) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(f"PRAGMA synchronous={synchronous}")
        self._connection.executescript(_SCHEMA)
        self._lock = threading.Lock()
        self.heard = 0

    def create(self, number: int) -> str:
        """Create one session, durably."""
        session = f"s{number:06d}"
        with self._lock:
            self._connection.execute("INSERT INTO sessions VALUES (?, ?)", (session, "title"))
        return session

    def run(self, session: str) -> str:
        """Do nothing: there is no agent."""
        return session

    def turn(self, session: str, number: int) -> str:
        """Ask and answer once; return the answer, which is durable."""
        self._insert(session, number, "user", question(number))
        parts: list[str] = []
        for delta in deltas(number):
            self.heard += 1
            parts.append(delta)
        answer = "".join(parts)
        self._insert(session, number, "assistant", answer)
        return answer

    def turns_at_once(self, sessions: list[str], turns: int) -> None:
        """Run the turns in each session, all sessions at once."""

        def converse(session: str) -> None:
            for number in range(turns):
                self.turn(session, number)

        with ThreadPoolExecutor(len(sessions)) as threads:
            list(threads.map(converse, sessions))

    def history(self, session: str) -> int:
        """Return the number of the session's messages, having read them all."""
        return len(
            self._connection.execute(
                "SELECT role, content FROM messages WHERE session_id = ? ORDER BY turn, role DESC", (session,)
            ).fetchall()
        )

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def _insert(self, session: str, number: int, role: str, content: str) -> None:
        with self._lock:
            self._connection.execute(
                "INSERT INTO messages(session_id, turn, role, content) VALUES (?, ?, ?, ?)",
                (session, number, role, content),
            )
