"""Hermes's documented schema (version 11) in SQLite, without Hermes.

Triggers keep two full-text indexes up to date, one of words and one of trigrams. An append is one
transaction: the message, and the counters of its session.
"""

import json
import sqlite3
import time

SCHEMA = """
CREATE TABLE IF NOT EXISTS sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, model TEXT, model_config TEXT,
    system_prompt TEXT, parent_session_id TEXT REFERENCES sessions (id),
    started_at REAL NOT NULL, ended_at REAL, end_reason TEXT,
    message_count INTEGER DEFAULT 0, tool_call_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0,
    cache_read_tokens INTEGER DEFAULT 0, cache_write_tokens INTEGER DEFAULT 0,
    reasoning_tokens INTEGER DEFAULT 0, billing_provider TEXT, billing_base_url TEXT,
    billing_mode TEXT, estimated_cost_usd REAL, actual_cost_usd REAL, cost_status TEXT,
    cost_source TEXT, pricing_version TEXT, title TEXT, api_call_count INTEGER DEFAULT 0
);
CREATE TABLE IF NOT EXISTS messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL REFERENCES sessions (id),
    role TEXT NOT NULL, content TEXT, tool_call_id TEXT, tool_calls TEXT, tool_name TEXT,
    timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT,
    reasoning_content TEXT, reasoning_details TEXT, codex_reasoning_items TEXT,
    codex_message_items TEXT
);
CREATE INDEX IF NOT EXISTS idx_sessions_source ON sessions (source);
CREATE INDEX IF NOT EXISTS idx_sessions_parent ON sessions (parent_session_id);
CREATE INDEX IF NOT EXISTS idx_sessions_started ON sessions (started_at DESC);
CREATE UNIQUE INDEX IF NOT EXISTS idx_sessions_title ON sessions (title) WHERE title IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_messages_session ON messages (session_id, timestamp);
CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5 (content);
CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts_trigram USING fts5 (content, tokenize = 'trigram');
"""

TRIGGERS = """
CREATE TRIGGER IF NOT EXISTS {fts}_insert AFTER INSERT ON messages BEGIN
    INSERT INTO {fts} (rowid, content) VALUES (new.id, {text});
END;
CREATE TRIGGER IF NOT EXISTS {fts}_delete AFTER DELETE ON messages BEGIN
    DELETE FROM {fts} WHERE rowid = old.id;
END;
CREATE TRIGGER IF NOT EXISTS {fts}_update AFTER UPDATE ON messages BEGIN
    DELETE FROM {fts} WHERE rowid = old.id;
    INSERT INTO {fts} (rowid, content) VALUES (new.id, {text});
END;
"""

TEXT = " || ' ' || ".join(
    f"coalesce(new.{column}, '')" for column in ("content", "tool_name", "tool_calls")
)


class Plain:
    def __init__(self, database):
        self.connection = sqlite3.connect(database, timeout=60, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = NORMAL")
        self.connection.execute("PRAGMA foreign_keys = ON")
        self.connection.executescript(SCHEMA)
        for fts in ("messages_fts", "messages_fts_trigram"):
            self.connection.executescript(TRIGGERS.format(fts=fts, text=TEXT))

    def create_session(self, session):
        self.connection.execute(
            "INSERT OR IGNORE INTO sessions (id, source, started_at) VALUES (?, 'bench', ?)",
            (session, time.time()),
        )

    def fill(self, messages):
        for start in range(0, len(messages), 1000):
            self.connection.execute("BEGIN IMMEDIATE")
            for message in messages[start : start + 1000]:
                self.insert(message["session"], message)
            self.connection.execute("COMMIT")

    def append(self, session, message):
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            self.insert(session, message)
            self.connection.execute("COMMIT")
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise

    def insert(self, session, message):
        calls = message["tool_calls"]
        self.connection.execute(
            "INSERT INTO messages (session_id, role, content, tool_call_id, tool_calls, tool_name,"
            " timestamp) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                session,
                message["role"],
                message["content"],
                message["tool_call_id"],
                json.dumps(calls) if calls else None,
                message["tool_name"],
                time.time(),
            ),
        )
        self.connection.execute(
            "UPDATE sessions SET message_count = message_count + 1,"
            " tool_call_count = tool_call_count + ? WHERE id = ?",
            (len(calls or ()), session),
        )

    def count(self, session):
        sql = "SELECT count(*) FROM messages WHERE session_id = ?"
        return self.connection.execute(sql, (session,)).fetchone()[0]

    def close(self):
        self.connection.close()
