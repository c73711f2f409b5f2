-- The fleet's ledger. Times are milliseconds since 1970. `record` holds the whole row: a byte that
-- says how it is encoded, then JSON, compressed or encrypted. Queries use the other columns to
-- filter, sort and sum rows.

CREATE SCHEMA IF NOT EXISTS takeback;

CREATE TABLE takeback.fleet (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    id         text NOT NULL,
    schema     integer NOT NULL,
    -- A digest by which a machine recognizes the fleet's key. The key itself is not in the
    -- database.
    key_check  text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE takeback.machines (
    key       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id        text NOT NULL UNIQUE,
    name      text NOT NULL CONSTRAINT machines_name UNIQUE,
    joined_at timestamptz NOT NULL DEFAULT now(),
    seen_at   timestamptz NOT NULL DEFAULT now(),
    -- The version of takeback that last shipped rows from this machine.
    version   text,
    -- The receipt of the last batch from this machine.
    receipt   text
);

CREATE TABLE takeback.sessions (
    key                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    machine            integer NOT NULL REFERENCES takeback.machines ON DELETE CASCADE,
    id                 text NOT NULL,
    source             text NOT NULL,
    model              text,
    -- The path of the workspace; NULL if everything is encrypted.
    workspace          text,
    parent             text,
    -- For a fork: the last message that it has in common with its parent.
    inherited          bigint NOT NULL,
    archived           boolean NOT NULL,
    started_at         bigint NOT NULL,
    last_activity      bigint NOT NULL,
    message_count      bigint NOT NULL,
    tool_call_count    bigint NOT NULL,
    api_call_count     bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    reasoning_tokens   bigint NOT NULL,
    estimated_cost_usd double precision,
    actual_cost_usd    double precision,
    record             bytea NOT NULL,
    UNIQUE (machine, id)
);
CREATE INDEX sessions_recent ON takeback.sessions (last_activity);

CREATE TABLE takeback.messages (
    session bigint NOT NULL REFERENCES takeback.sessions ON DELETE CASCADE,
    seq     bigint NOT NULL,
    turn    bigint NOT NULL,
    role    text NOT NULL,
    time    bigint NOT NULL,
    undone  boolean NOT NULL,
    -- The tokens of the search index; NULL if a search has to read the message itself.
    words   tsvector,
    record  bytea NOT NULL,
    PRIMARY KEY (session, seq)
);
CREATE INDEX messages_time ON takeback.messages (time, session, seq);
CREATE INDEX messages_words ON takeback.messages USING gin (words);
CREATE INDEX messages_without_words ON takeback.messages (time, session, seq) WHERE words IS NULL;

CREATE TABLE takeback.turns (
    session    bigint NOT NULL REFERENCES takeback.sessions ON DELETE CASCADE,
    turn       bigint NOT NULL,
    first_seq  bigint NOT NULL,
    started_at bigint NOT NULL,
    ended_at   bigint,
    undone     boolean NOT NULL,
    PRIMARY KEY (session, turn)
);

CREATE TABLE takeback.calls (
    session bigint NOT NULL REFERENCES takeback.sessions ON DELETE CASCADE,
    call    text NOT NULL,
    turn    bigint NOT NULL,
    record  bytea NOT NULL,
    PRIMARY KEY (session, call)
);

CREATE TABLE takeback.effects (
    session  bigint NOT NULL REFERENCES takeback.sessions ON DELETE CASCADE,
    turn     bigint NOT NULL,
    position integer NOT NULL,
    record   bytea NOT NULL,
    PRIMARY KEY (session, turn, position)
);

CREATE TABLE takeback.usage (
    session            bigint NOT NULL REFERENCES takeback.sessions ON DELETE CASCADE,
    position           integer NOT NULL,
    model              text NOT NULL,
    api_call_count     bigint NOT NULL,
    input_tokens       bigint NOT NULL,
    output_tokens      bigint NOT NULL,
    cache_read_tokens  bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    reasoning_tokens   bigint NOT NULL,
    estimated_cost_usd double precision,
    actual_cost_usd    double precision,
    record             bytea NOT NULL,
    PRIMARY KEY (session, position)
);
