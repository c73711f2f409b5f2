-- The tables that have existed since version 2. schema_tasks.sql and schema_threads.sql have the
-- tables that later versions added. Times are milliseconds since 1970. Columns that are often read
-- by themselves come first, so that reading them does not touch long text on overflow pages.

CREATE TABLE sessions (
    key                INTEGER PRIMARY KEY,
    id                 TEXT NOT NULL UNIQUE,
    source             TEXT NOT NULL,
    -- Each append changes these columns. The rest of the row is small, so rewriting it is cheap.
    last_seq           INTEGER NOT NULL DEFAULT 0,
    last_turn          INTEGER NOT NULL DEFAULT 0,
    last_activity      INTEGER NOT NULL,
    message_count      INTEGER NOT NULL DEFAULT 0,
    tool_call_count    INTEGER NOT NULL DEFAULT 0,
    api_call_count     INTEGER NOT NULL DEFAULT 0,
    input_tokens       INTEGER NOT NULL DEFAULT 0,
    output_tokens      INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens  INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens   INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL,
    actual_cost_usd    REAL,
    started_at         INTEGER NOT NULL,
    ended_at           INTEGER,
    end_reason         TEXT,
    archived           INTEGER NOT NULL DEFAULT 0,
    title              TEXT,
    user_id            TEXT,
    model              TEXT,
    parent_session_id  TEXT,
    parent_kind        TEXT,
    billing_provider   TEXT,
    billing_base_url   TEXT,
    billing_mode       TEXT,
    cost_status        TEXT,
    cost_source        TEXT,
    pricing_version    TEXT,
    workspace          TEXT,
    git_branch         TEXT,
    -- For a fork: the last message that it has in common with its parent, or 0. Such messages have
    -- the same `seq` in both.
    inherited          INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX sessions_title ON sessions (title) WHERE title IS NOT NULL;
CREATE INDEX sessions_parent ON sessions (parent_session_id) WHERE parent_session_id IS NOT NULL;
CREATE INDEX sessions_recent ON sessions (last_activity);

-- The long text fields of a session.
CREATE TABLE session_texts (
    session       INTEGER PRIMARY KEY,
    system_prompt TEXT,
    model_config  TEXT,
    extra         TEXT
);

CREATE TABLE messages (
    -- Ascends in the order of insertion across all sessions; the search index has the same order.
    id                    INTEGER PRIMARY KEY,
    session               INTEGER NOT NULL,
    seq                   INTEGER NOT NULL,
    turn                  INTEGER NOT NULL,
    role                  TEXT NOT NULL,
    timestamp             INTEGER NOT NULL,
    -- The rewind that took the message back (`undos.number`), or 0.
    undone                INTEGER NOT NULL DEFAULT 0,
    -- The `seq` of the summary that replaces the message; -1 if that is not known; 0 if there is
    -- none.
    compacted             INTEGER NOT NULL DEFAULT 0,
    summarizes            INTEGER,
    call_count            INTEGER NOT NULL DEFAULT 0,
    token_count           INTEGER,
    finish_reason         TEXT,
    tool_call_id          TEXT,
    tool_name             TEXT,
    -- 1 if `content` is JSON, not text.
    structured            INTEGER NOT NULL DEFAULT 0,
    content               TEXT,
    tool_calls            TEXT,
    reasoning             TEXT,
    reasoning_content     TEXT,
    reasoning_details     TEXT,
    codex_reasoning_items TEXT,
    codex_message_items   TEXT,
    extra                 TEXT
);
CREATE UNIQUE INDEX messages_identity ON messages (session, seq);

CREATE TABLE usage (
    id                 INTEGER PRIMARY KEY,
    session            INTEGER NOT NULL,
    model              TEXT NOT NULL,
    billing_provider   TEXT,
    billing_base_url   TEXT,
    billing_mode       TEXT,
    api_call_count     INTEGER NOT NULL DEFAULT 0,
    input_tokens       INTEGER NOT NULL DEFAULT 0,
    output_tokens      INTEGER NOT NULL DEFAULT 0,
    cache_read_tokens  INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens   INTEGER NOT NULL DEFAULT 0,
    estimated_cost_usd REAL,
    actual_cost_usd    REAL,
    cost_status        TEXT,
    cost_source        TEXT,
    pricing_version    TEXT,
    first_seen         INTEGER,
    last_seen          INTEGER,
    extra              TEXT
);
CREATE INDEX usage_session ON usage (session);

CREATE TABLE turns (
    id         INTEGER PRIMARY KEY,
    session    INTEGER NOT NULL,
    turn       INTEGER NOT NULL,
    -- The user's message that begins the turn.
    first_seq  INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    ended_at   INTEGER,
    undone     INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX turns_identity ON turns (session, turn);

CREATE TABLE calls (
    id          INTEGER PRIMARY KEY,
    session     INTEGER NOT NULL,
    turn        INTEGER NOT NULL,
    call        TEXT NOT NULL,
    tool        TEXT NOT NULL,
    outcome     TEXT,
    started_at  INTEGER,
    ended_at    INTEGER,
    workspace   TEXT,
    checkpoint  TEXT,
    tree_before TEXT,
    tree_after  TEXT,
    uncertain   INTEGER NOT NULL DEFAULT 0,
    input       TEXT,
    -- For a subagent's call: the turn of the session that the subagent works for.
    owner_turn  INTEGER
);
CREATE UNIQUE INDEX calls_identity ON calls (session, call);

CREATE TABLE effects (
    id        INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL,
    turn      INTEGER NOT NULL,
    call      TEXT,
    kind      TEXT NOT NULL,
    command   TEXT NOT NULL,
    workspace TEXT,
    time      INTEGER NOT NULL
);
CREATE INDEX effects_call ON effects (session, call, time);
CREATE INDEX effects_workspace ON effects (workspace, time);

CREATE TABLE notices (
    id           INTEGER PRIMARY KEY,
    session      INTEGER NOT NULL,
    created_at   INTEGER NOT NULL,
    delivered_at INTEGER,
    body         TEXT NOT NULL
);
CREATE INDEX notices_waiting ON notices (session) WHERE delivered_at IS NULL;

-- Moves of a conversation's end: rewinds, and returns to messages that a rewind took back.
CREATE TABLE undos (
    id        INTEGER PRIMARY KEY,
    session   INTEGER NOT NULL,
    number    INTEGER NOT NULL,
    from_seq  INTEGER NOT NULL,
    -- The session's last message when the move was made. If the session has later messages, the
    -- conversation has continued since.
    last_seq  INTEGER NOT NULL,
    time      INTEGER NOT NULL,
    -- Set if a later move cancelled this one.
    redone_at INTEGER,
    -- The last message of the conversation before and after the move; NULL in rows of version 2.
    was_seq   INTEGER,
    to_seq    INTEGER
);
CREATE UNIQUE INDEX undos_identity ON undos (session, number);

-- The ids of spool files whose events are in the ledger. An id is kept until the deletion of its
-- file is durable.
CREATE TABLE spooled (
    id TEXT PRIMARY KEY NOT NULL
);

-- The agents' own ids of log entries that were imported, so that no entry is imported twice.
CREATE TABLE origins (
    id      INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    -- The message that the entry became; NULL if there is none.
    seq     INTEGER,
    origin  TEXT NOT NULL
);
CREATE UNIQUE INDEX origins_identity ON origins (session, origin);
CREATE INDEX origins_message ON origins (session, seq) WHERE seq IS NOT NULL;

-- The positions up to which agents' own logs have been read.
CREATE TABLE bookmarks (
    id       INTEGER PRIMARY KEY,
    log      TEXT NOT NULL,
    agent    TEXT NOT NULL,
    offset   INTEGER NOT NULL,
    read_at  INTEGER NOT NULL,
    identity TEXT NOT NULL,
    state    TEXT NOT NULL
);
CREATE UNIQUE INDEX bookmarks_identity ON bookmarks (log);
CREATE INDEX bookmarks_recent ON bookmarks (read_at);

-- The search index: the tokens of messages, without the text. Its results are checked against the
-- messages.
CREATE VIRTUAL TABLE words USING fts5 (
    tokens, content = '', columnsize = 0, detail = none, tokenize = 'ascii'
);
INSERT INTO words (words, rank) VALUES ('crisismerge', 64);

-- Messages up to `indexed` are in `words`, as tokens of version `version`.
CREATE TABLE search_state (
    id      INTEGER PRIMARY KEY CHECK (id = 1),
    version INTEGER NOT NULL,
    indexed INTEGER NOT NULL
);
