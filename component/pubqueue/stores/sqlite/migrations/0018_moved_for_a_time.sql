-- Where deleted nodes are is kept for a time, and of so many at most. Programs of seventeen migrations cannot run on this schema.
ALTER TABLE moved_node ADD COLUMN at INTEGER NOT NULL DEFAULT 0;
UPDATE moved_node SET at = 1000 * CAST(strftime('%s', 'now') AS INTEGER);
CREATE INDEX moved_node_at ON moved_node (at);
