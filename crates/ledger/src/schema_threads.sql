-- Added in version 6: the threads of apps that keep the state of their graph here, such as
-- LangGraph programs.

-- A state of a thread. LangGraph calls it a checkpoint.
CREATE TABLE thread_states (
    key       INTEGER PRIMARY KEY,
    app       TEXT NOT NULL,
    thread    TEXT NOT NULL,
    -- The subgraph that the state belongs to; empty for the graph itself.
    namespace TEXT NOT NULL,
    -- The id that the app gave the state. Later states have greater ids.
    id        TEXT NOT NULL,
    -- The id of the state that this one follows.
    parent    TEXT,
    -- The run that created the state.
    run       TEXT,
    time      INTEGER NOT NULL,
    -- The id of the takeback checkpoint with the files as they were when the state was stored.
    files     TEXT,
    metadata  TEXT NOT NULL,
    -- The channels whose values follow from earlier states and their writes, as a JSON list.
    deltas    TEXT NOT NULL,
    -- The state without the values of its channels, in the app's own format.
    type      TEXT NOT NULL,
    content   BLOB NOT NULL
);
CREATE UNIQUE INDEX thread_states_identity ON thread_states (app, thread, namespace, id);
CREATE INDEX thread_states_run ON thread_states (app, run) WHERE run IS NOT NULL;

-- The value of a channel in a state. States that have the same value share it.
CREATE TABLE thread_channels (
    key     INTEGER PRIMARY KEY,
    state   INTEGER NOT NULL,
    channel TEXT NOT NULL,
    version TEXT NOT NULL,
    value   INTEGER NOT NULL
);
CREATE UNIQUE INDEX thread_channels_identity ON thread_channels (state, channel);
CREATE INDEX thread_channels_value ON thread_channels (value);

CREATE TABLE thread_values (
    key  INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    data BLOB NOT NULL
);

-- The results of the tasks in the step that follows a state.
CREATE TABLE thread_writes (
    key       INTEGER PRIMARY KEY,
    app       TEXT NOT NULL,
    thread    TEXT NOT NULL,
    namespace TEXT NOT NULL,
    state_id  TEXT NOT NULL,
    task      TEXT NOT NULL,
    -- The position among the task's writes; negative for errors, interrupts and the like.
    position  INTEGER NOT NULL,
    path      TEXT NOT NULL,
    channel   TEXT NOT NULL,
    type      TEXT NOT NULL,
    data      BLOB NOT NULL
);
CREATE UNIQUE INDEX thread_writes_identity
    ON thread_writes (app, thread, namespace, state_id, task, position);
