-- What is published at set times. All times up to fired_through are settled, and that only rises; due is when there is
-- something to do next. Programs of five migrations cannot run on this schema.
CREATE TABLE schedule (
    name text COLLATE "C" NOT NULL,
    definition text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL CHECK (source IN ('file', 'command')),
    author text COLLATE "C" NOT NULL,
    fired_through bigint NOT NULL,
    due bigint,
    last bigint,
    error text COLLATE "C" NOT NULL DEFAULT '',
    tries bigint NOT NULL DEFAULT 0 CHECK (tries >= 0),
    paused boolean NOT NULL DEFAULT false,
    revision bigint NOT NULL DEFAULT 1 CHECK (revision >= 1),
    CHECK (due IS NULL OR NOT paused)
);
CREATE INDEX schedule_due ON schedule (due) WHERE due IS NOT NULL;
ALTER TABLE schedule ADD CONSTRAINT schedule_pkey PRIMARY KEY (name);
