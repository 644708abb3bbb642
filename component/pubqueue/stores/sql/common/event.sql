-- The event log: the statements that are the same in both dialects. See `sql/statements.py`.

-- forget_events: the oldest events; never the newest
DELETE FROM event WHERE seq <= $1 AND seq < (SELECT max(seq) FROM event);
