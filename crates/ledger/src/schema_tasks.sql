-- Added in version 4: the tasks of takeback's own agent.

CREATE TABLE tasks (
    key        INTEGER PRIMARY KEY,
    id         TEXT NOT NULL UNIQUE,
    -- The session that the task works in now. A compaction moves the task to the next session.
    session    INTEGER NOT NULL,
    -- The id of the task that this one works for.
    parent     TEXT,
    kind       TEXT NOT NULL,
    state      TEXT NOT NULL,
    -- Grows whenever a process takes the task's lease. A write under an older lease is refused.
    epoch      INTEGER NOT NULL DEFAULT 0,
    -- The number of the last entry in the task's journal.
    last_seq   INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    workspace  TEXT,
    detail     TEXT
);
CREATE INDEX tasks_session ON tasks (session);
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;

-- What happened in a task, in order. The state of the task follows from these entries alone.
CREATE TABLE journal (
    id      INTEGER PRIMARY KEY,
    task    INTEGER NOT NULL,
    -- The session that the task worked in. A repair needs it if the task's own row is lost.
    session INTEGER NOT NULL,
    seq     INTEGER NOT NULL,
    epoch   INTEGER NOT NULL,
    time    INTEGER NOT NULL,
    -- 1 if secrets in the entry were masked.
    masked  INTEGER NOT NULL,
    entry   TEXT NOT NULL
);
CREATE UNIQUE INDEX journal_identity ON journal (task, seq);

-- The state of a task after the journal entry `seq`, so that loading need not read the entries
-- before it.
CREATE TABLE snapshots (
    task   INTEGER PRIMARY KEY,
    seq    INTEGER NOT NULL,
    epoch  INTEGER NOT NULL,
    time   INTEGER NOT NULL,
    masked INTEGER NOT NULL,
    state  TEXT NOT NULL
);

CREATE TABLE goals (
    key         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE,
    task        INTEGER NOT NULL,
    state       TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL,
    -- The budget; NULL for no limit.
    token_limit INTEGER,
    usd_limit   REAL,
    ms_limit    INTEGER,
    turn_limit  INTEGER,
    -- Spent since the goal began.
    tokens      INTEGER NOT NULL DEFAULT 0,
    usd         REAL NOT NULL DEFAULT 0,
    ms          INTEGER NOT NULL DEFAULT 0,
    turns       INTEGER NOT NULL DEFAULT 0,
    -- Spent since the goal was last resumed.
    run_tokens  INTEGER NOT NULL DEFAULT 0,
    run_usd     REAL NOT NULL DEFAULT 0,
    run_ms      INTEGER NOT NULL DEFAULT 0,
    run_turns   INTEGER NOT NULL DEFAULT 0,
    -- The reason for the state.
    reason      TEXT,
    objective   TEXT NOT NULL
);
CREATE INDEX goals_task ON goals (task);
