-- Where deleted nodes are is kept for a time, and of so many at most. Programs of twelve migrations cannot run on this schema.
ALTER TABLE moved_node ADD COLUMN at bigint NOT NULL DEFAULT 0;
UPDATE moved_node SET at = 1000 * extract(epoch FROM now())::bigint;
CREATE INDEX moved_node_at ON moved_node (at);
