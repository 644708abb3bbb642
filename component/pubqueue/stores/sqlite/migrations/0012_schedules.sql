-- What is published at set times. All times up to fired_through are settled, and that only rises; due is when there is
-- something to do next. Programs of eleven migrations cannot run on this schema.
CREATE TABLE schedule (
    name TEXT PRIMARY KEY,
    definition TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('file', 'command')),
    author TEXT NOT NULL,
    fired_through INTEGER NOT NULL,
    due INTEGER,
    last INTEGER,
    error TEXT NOT NULL DEFAULT '',
    tries INTEGER NOT NULL DEFAULT 0 CHECK (tries >= 0),
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    revision INTEGER NOT NULL DEFAULT 1 CHECK (revision >= 1),
    CHECK (due IS NULL OR paused = 0)
) WITHOUT ROWID;
CREATE INDEX schedule_due ON schedule (due) WHERE due IS NOT NULL;
