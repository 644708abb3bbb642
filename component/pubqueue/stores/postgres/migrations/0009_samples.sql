-- Samples of the last hours: what was in a queue and what happened there, by node and minute. Programs of eight migrations cannot run on
-- this schema.
CREATE TABLE sample (
    node_id bigint NOT NULL,
    at bigint NOT NULL,
    queued bigint NOT NULL CHECK (queued >= 0),
    locked bigint NOT NULL CHECK (locked >= 0),
    delayed bigint NOT NULL CHECK (delayed >= 0),
    dead bigint NOT NULL CHECK (dead >= 0),
    published bigint NOT NULL CHECK (published >= 0),
    delivered bigint NOT NULL CHECK (delivered >= 0),
    completed bigint NOT NULL CHECK (completed >= 0),
    failed bigint NOT NULL CHECK (failed >= 0),
    waited bigint NOT NULL CHECK (waited >= 0),
    longest bigint NOT NULL CHECK (longest >= 0)
);
-- The oldest of them, which go.
CREATE INDEX sample_at ON sample (at);
ALTER TABLE sample ADD CONSTRAINT sample_pkey PRIMARY KEY (node_id, at);
