-- Rows by their keys: the statements that are the same in both dialects. See `sql/statements.py`.

-- due_locks: locks that have expired
SELECT %(item)s FROM item i WHERE i.state = 'locked' AND i.deadline <= $1 ORDER BY i.deadline LIMIT $2;

-- due_lives: unlocked items that have expired
SELECT %(item)s FROM item i
WHERE i.expires IS NOT NULL AND i.state IN ('queued', 'delayed', 'held') AND i.expires <= $1 ORDER BY i.expires LIMIT $2;

-- due_delayed: delayed items that are due
SELECT %(item)s FROM item i WHERE i.state = 'delayed' AND i.due <= $1 ORDER BY i.due LIMIT $2;

-- due_held: held items whose time is over
SELECT %(item)s FROM item i WHERE i.state = 'held' AND i.due IS NOT NULL AND i.due <= $1 ORDER BY i.due LIMIT $2;

-- due_leases: subscriptions whose lease has ended, or is due for its reminder
SELECT %(subscription)s
FROM subscription s %(join)s node n ON n.id = s.node_id
WHERE s.expire IS NOT NULL AND coalesce(s.remind, s.expire) <= $1 ORDER BY coalesce(s.remind, s.expire) LIMIT $2;

-- due_versions: open versions that have expired
SELECT p.name, t.app_id, t.version, t.owner, t.immediate, t.began, t.until, t.committed, t.on_taken, t.dead_letter_node, t.sum
FROM txn t JOIN txn_app p ON p.id = t.app_id
WHERE t.committed IS NULL AND t.until <= $1 ORDER BY t.until LIMIT $2;

-- registrations: registrations of pushes, by name
SELECT name, account, node, queueing, words, disabled, failures, error, position, following, runner, until, revision, sum
FROM registration WHERE name IN %(list 1)s;

-- forwarded_bundles: notices for other instances, by their marks
SELECT mark, notices FROM forwarded WHERE mark IN %(list 1)s;

-- feedings: publishes that are copied to queues in slices, by their marks
SELECT mark, place, what FROM feeding WHERE mark IN %(list 1)s;

-- fed_messages: messages of such publishes, by their names
SELECT name, draft FROM fed_message WHERE name IN %(list 1)s;

-- alerts: alerts by their names
SELECT name, since, detail, over_at, reported FROM alert WHERE name IN %(list 1)s;

-- alert_watches: which instance watches for alerts
SELECT name, runner, until FROM alert_watch WHERE name IN %(list 1)s;

-- secrets: secrets of the service, by their names
SELECT name, value FROM secret WHERE name IN %(list 1)s;
