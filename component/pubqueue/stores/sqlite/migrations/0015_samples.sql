-- Samples of the last hours: what was in a queue and what happened there, by node and minute. Programs of fourteen migrations cannot run on
-- this schema.
CREATE TABLE sample (
    node_id INTEGER NOT NULL,
    at INTEGER NOT NULL,
    queued INTEGER NOT NULL CHECK (queued >= 0),
    locked INTEGER NOT NULL CHECK (locked >= 0),
    delayed INTEGER NOT NULL CHECK (delayed >= 0),
    dead INTEGER NOT NULL CHECK (dead >= 0),
    published INTEGER NOT NULL CHECK (published >= 0),
    delivered INTEGER NOT NULL CHECK (delivered >= 0),
    completed INTEGER NOT NULL CHECK (completed >= 0),
    failed INTEGER NOT NULL CHECK (failed >= 0),
    waited INTEGER NOT NULL CHECK (waited >= 0),
    longest INTEGER NOT NULL CHECK (longest >= 0),
    PRIMARY KEY (node_id, at)
) WITHOUT ROWID;
-- The oldest of them, which go.
CREATE INDEX sample_at ON sample (at);
