-- The epoch under which each process has its number, and until when it lives without another word of it. Programs of eleven migrations
-- do not know of it, and shall not serve beside those that do.
ALTER TABLE instance ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
ALTER TABLE instance ADD COLUMN until timestamptz NOT NULL DEFAULT 'epoch';
