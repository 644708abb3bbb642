-- The event log, as far as both dialects say the same. See `relational/statements.py`.

-- forget_events: the oldest events; never the newest
DELETE FROM event WHERE seq <= $1 AND seq < (SELECT max(seq) FROM event);
