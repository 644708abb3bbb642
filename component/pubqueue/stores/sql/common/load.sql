-- Rows by their keys, as far as both dialects say the same. See `relational/statements.py`.

-- due_locks: locks whose deadline has come
SELECT %(item)s FROM item i WHERE i.state = 'locked' AND i.deadline <= $1 ORDER BY i.deadline LIMIT $2;

-- due_lives: items that nobody holds and whose time to live has ended
SELECT %(item)s FROM item i
WHERE i.expires IS NOT NULL AND i.state IN ('queued', 'delayed') AND i.expires <= $1 ORDER BY i.expires LIMIT $2;

-- due_delayed: delayed items whose time has come
SELECT %(item)s FROM item i WHERE i.state = 'delayed' AND i.due <= $1 ORDER BY i.due LIMIT $2;

-- due_leases: subscriptions whose lease has ended, or is to be said to end
SELECT s.id, s.node_id, s.jid, s.subid, s.queue_requests, s.in_flight, s.last_served, s.available, s.unanswered,
    s.state, s.deliver, s.expire, s.remind, s.temporary, s.several
FROM subscription s %(join)s node n ON n.id = s.node_id
WHERE s.expire IS NOT NULL AND coalesce(s.remind, s.expire) <= $1 ORDER BY coalesce(s.remind, s.expire) LIMIT $2;

-- due_versions: open versions that have waited too long
SELECT p.name, t.version FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NULL AND t.until <= $1 ORDER BY t.until LIMIT $2;
