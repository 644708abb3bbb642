-- Statements of the event log, and of those who look at the queue from outside; see queries.sql.

-- add: an event; its number is the newest plus one
INSERT INTO event (at, kind, node_id, item, attempt, worker, publisher, age, held, origin, went_to, detail)
VALUES (?, ?, (SELECT id FROM node WHERE name = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_superseded: items that the winners of a commit replace in a node; ?4 says that it is a queue
INSERT INTO event (at, kind, node_id, item, attempt, publisher, age, detail)
SELECT ?1, ?2, i.node_id, i.id, i.acquired, i.publisher, max(0, ?1 - i.published), ?5
FROM met m JOIN item i ON i.seq = m.item_seq WHERE m.node = ?3 AND (m.same = 0 OR NOT ?4);

-- add_winners: items that the winners of a commit add to a node, or replace there
INSERT INTO event (at, kind, node_id, item, attempt, publisher, age, detail)
SELECT ?1, ?2, (SELECT id FROM node WHERE name = ?3), s.id, 0, ?6, 0, CASE WHEN m.item_seq IS NULL THEN '' ELSE ?5 END
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.row = s.row
WHERE s.node = ?3 AND (m.attempt_id IS NULL OR (m.item_seq IS NOT NULL AND (m.same = 0 OR NOT ?4)))
ORDER BY w.part, s.row;

-- oldest: the oldest event
SELECT coalesce(min(seq), 0) FROM event;

-- newest: the newest event
SELECT coalesce(max(seq), 0) FROM event;

-- aged: the last of the oldest events that is from before a moment
SELECT max(seq) FROM (SELECT seq, at FROM event ORDER BY seq LIMIT ?2) WHERE at < ?1;

-- forget: the oldest events; never the newest
DELETE FROM event WHERE seq <= ? AND seq < (SELECT max(seq) FROM event);

-- events: a page of the log
SELECT e.seq, e.at, e.kind, n.name, e.item, e.attempt, e.worker, e.publisher, e.age, e.held, e.origin, e.went_to, e.detail
FROM event e CROSS JOIN node n ON n.id = e.node_id
WHERE e.seq > ?1 AND e.seq <= ?2 AND (?3 IS NULL OR n.name IN (SELECT value FROM json_each(?3)))
ORDER BY e.seq LIMIT ?4;

-- newest_item: the highest number of an item in a node
SELECT coalesce(max(seq), 0) FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?);

-- newest_death: the highest number of a death in a node
SELECT coalesce(max(death), 0) FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND death IS NOT NULL;

-- items: a page of a node's items
SELECT %(item)s, length(payload), death, dead_at, dead_reason, last_holder, dead_from, txn_app, txn_version, CASE WHEN ?5 THEN payload END
FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND seq > ?2 AND seq <= ?3
    AND (?4 IS NULL OR state = ?4) ORDER BY seq LIMIT ?6;

-- deaths: a page of a node's dead, by their deaths
SELECT %(item)s, length(payload), death, dead_at, dead_reason, last_holder, dead_from, txn_app, txn_version, CASE WHEN ?5 THEN payload END
FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?1) AND death > ?2 AND death <= ?3
    AND ?4 = 'dead' ORDER BY death LIMIT ?6;

-- tally_queued: how many items wait, and the first of them; the walk is over an index
SELECT count(*), min(seq) FROM item WHERE node_id = (SELECT id FROM node WHERE name = ?) AND state = 'queued';

-- tally_locked: how many items are locked
SELECT count(*) FROM item WHERE state = 'locked' AND +node_id = (SELECT id FROM node WHERE name = ?);

-- tally_dead: how many items are dead and stay
SELECT count(*) FROM item
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND death IS NOT NULL AND state = 'dead';

-- window_free: how many items could be handed out
SELECT coalesce(sum(max(0, queue_requests - in_flight)), 0) FROM subscription
WHERE node_id = (SELECT id FROM node WHERE name = ?) AND available;

-- published: when an item was published
SELECT published FROM item WHERE seq = ?;
