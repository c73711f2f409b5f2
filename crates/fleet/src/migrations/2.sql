-- The tasks of takeback's own agent that any machine can continue. Only the clock of this database
-- decides when a lease ends.

CREATE TABLE takeback.tasks (
    key         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id          text NOT NULL UNIQUE,
    -- The machine that has or had the lease. A write under an older epoch changes no row.
    machine     integer NOT NULL REFERENCES takeback.machines,
    epoch       bigint NOT NULL,
    -- The time at which the lease ends; NULL if the lease was given back.
    expires_at  timestamptz,
    -- The machine that wrote the last record.
    writer      integer REFERENCES takeback.machines,
    -- The number of the last record, and the number and epoch of the last journal entry in it.
    position    bigint NOT NULL DEFAULT 0,
    seq         bigint NOT NULL DEFAULT 0,
    entry_epoch bigint NOT NULL DEFAULT 0,
    -- The number and epoch of the last journal entry before `writer` took over from another
    -- machine.
    from_seq    bigint NOT NULL DEFAULT 0,
    from_epoch  bigint NOT NULL DEFAULT 0,
    state       text NOT NULL DEFAULT 'idle',
    updated_at  timestamptz NOT NULL DEFAULT now(),
    -- The session and the directory, encoded.
    record      bytea
);

CREATE TABLE takeback.journal (
    task     bigint NOT NULL REFERENCES takeback.tasks ON DELETE CASCADE,
    position bigint NOT NULL,
    -- True if the record holds the whole task.
    is_base  boolean NOT NULL,
    record   bytea NOT NULL,
    PRIMARY KEY (task, position)
);
