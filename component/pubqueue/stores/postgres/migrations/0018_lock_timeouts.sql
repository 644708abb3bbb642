-- A subscription may have a lock timeout of its own, in seconds. Programs without it take the queue's.
ALTER TABLE subscription ADD COLUMN lock_timeout bigint CHECK (lock_timeout >= 1);
