-- Commits, aborts and sweeps. A commit works with two temporary tables, filled for it alone: the winners, and
-- the conflicts of their ids. Their contents are valid only within the transaction.

-- make_winner: the attempt that counts for each part
CREATE TEMP TABLE IF NOT EXISTS winner (part INTEGER PRIMARY KEY, attempt_id INTEGER NOT NULL UNIQUE);

-- make_conflicts: winners with a conflict; state NULL marks one that a later winner supersedes
CREATE TEMP TABLE IF NOT EXISTS met (
    attempt_id INTEGER NOT NULL, row INTEGER NOT NULL, node TEXT NOT NULL, id TEXT NOT NULL,
    item_seq INTEGER, state TEXT, same INTEGER, PRIMARY KEY (attempt_id, row)
) WITHOUT ROWID;

-- add_winner: the attempt that counts for each part
INSERT INTO winner (part, attempt_id) VALUES (?, ?);

-- node_winners: for each node the winners' rows and ids
SELECT node, sum(rows), count(*) FROM (
    SELECT s.node AS node, s.id, count(*) AS rows FROM staged s CROSS JOIN winner w ON w.attempt_id = s.attempt_id
    WHERE s.txn_id = ? GROUP BY s.node, s.id
) GROUP BY node ORDER BY node LIMIT ?;

-- add_conflicts_with_each_other: winners with the same id, except the last
INSERT INTO met (attempt_id, row, node, id)
SELECT s.attempt_id, s.row, s.node, s.id FROM (
    SELECT s.node AS node, s.id AS id, max(w.part) AS last FROM staged s CROSS JOIN winner w ON w.attempt_id = s.attempt_id
    WHERE s.txn_id = ?1 GROUP BY s.node, s.id HAVING count(*) > 1
) twice
JOIN staged s ON s.txn_id = ?1 AND s.node = twice.node AND s.id = twice.id
JOIN winner w ON w.attempt_id = s.attempt_id WHERE w.part < twice.last;

-- add_conflicts_with_items: winners whose id exists; equal bytes mean the same payload
INSERT OR IGNORE INTO met (attempt_id, row, node, id, item_seq, state, same)
SELECT s.attempt_id, s.row, s.node, s.id, i.seq, i.state, CASE WHEN %(payload)s = s.payload THEN 1 END
FROM staged s CROSS JOIN winner w ON w.attempt_id = s.attempt_id
CROSS JOIN node n ON n.name = s.node CROSS JOIN contents c ON c.node_id = n.id
CROSS JOIN item i ON i.node_id = c.id AND i.id = s.id
WHERE s.txn_id = ?;

-- add_conflicts_with_finished: winners whose id is that of finished work that still counts
INSERT OR IGNORE INTO met (attempt_id, row, node, id, state)
SELECT s.attempt_id, s.row, s.node, s.id, 'finished'
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
CROSS JOIN finished f ON f.node_id = ?1 AND f.id = s.id AND f.until > ?2 AND f.until <= ?3
WHERE s.node = ?4;

-- conflicts_to_compare: winners of a node whose payloads still have to be compared with those of the existing items
SELECT m.attempt_id, m.row, m.item_seq IS NULL,
    coalesce((SELECT %(payload)s FROM item i WHERE i.seq = m.item_seq),
             (SELECT digest FROM finished f JOIN node n ON n.id = f.node_id WHERE n.name = m.node AND f.id = m.id)),
    s.payload
FROM met m JOIN staged s ON s.attempt_id = m.attempt_id AND s.row = m.row
WHERE m.node = ? AND m.state IS NOT NULL AND m.same IS NULL LIMIT ?;

-- note_compared: the result of these comparisons
UPDATE met SET same = ? WHERE attempt_id = ? AND row = ?;

-- drop_conflicts: winners that do not conflict after all
DELETE FROM met WHERE attempt_id = ? AND row = ?;

-- conflicts_in_the_way: winners of a node whose ids belong to locked or dead items with other payloads
SELECT id, state FROM met WHERE node = ? AND same = 0 AND state IN ('locked', 'held', 'dead') ORDER BY id LIMIT ?;

-- drop_winners: drop these winners, as if later ones superseded them
UPDATE met SET state = NULL, item_seq = NULL, same = NULL WHERE same = 0 AND state IN ('locked', 'held', 'dead');

-- move_winners_elsewhere: move these winners to another node, under unused ids (rules/moving.py)
UPDATE staged SET node = ?1, sum = NULL, id = CASE WHEN length(CAST(%(joined)s || '.' || ?2 AS BLOB)) <= 1023
    THEN %(joined)s || '.' || ?2 ELSE substr(%(joined)s, 1, 100) || '.' || ?2 || '.' || attempt_id || '.' || row END
WHERE (attempt_id, row) IN (
    SELECT attempt_id, row FROM met WHERE same = 0 AND state IN ('locked', 'held', 'dead')
);

-- drop_conflicts_of_node: remove their conflicts, because they have none in that node
DELETE FROM met WHERE same = 0 AND state IN ('locked', 'held', 'dead');

-- winning_drafts: the winners of a node, without superseded ones
SELECT s.id, s.payload, s.priority, coalesce(s.pause, 0), s.life, s.headers, s.sum
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.row = s.row
WHERE s.node = ? AND (m.attempt_id IS NULL OR m.state IS NOT NULL) ORDER BY w.part, s.row LIMIT ?;

-- winning_bytes: how many bytes the winners add to each node: as a queue, and as a plain node; and the
-- bytes of those whose ids are taken
SELECT s.node,
    sum(CASE WHEN m.attempt_id IS NULL THEN s.size WHEN m.same = 0 AND i.state IN ('queued', 'delayed') THEN s.size - i.size ELSE 0 END),
    sum(s.size - coalesce(i.size, 0)),
    sum(CASE WHEN m.same = 0 AND i.state IN ('locked', 'held', 'dead') THEN s.size ELSE 0 END)
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.row = s.row LEFT JOIN item i ON i.seq = m.item_seq
WHERE m.attempt_id IS NULL OR i.seq IS NOT NULL GROUP BY s.node;

-- replace_payload: replace the payloads of unlocked items of a queue
UPDATE item SET payload = CASE WHEN length(s.payload) > %(most)s THEN x'' ELSE s.payload END,
    size = s.size, headers = s.headers, sum = CASE WHEN item.group_name IS NULL THEN s.sum END, wait = NULL, publisher = ?2, txn_app = ?3, txn_version = ?4 FROM met m
JOIN staged s ON s.attempt_id = m.attempt_id AND s.row = m.row
WHERE item.seq = m.item_seq AND m.node = ?1 AND m.same = 0 AND item.state IN ('queued', 'delayed');

-- add_items_of_winners: the winners take their places, by part and then in their order; each node's id is looked up once, and
-- the numbers continue from the first that is reserved for them
INSERT INTO item (seq, node_id, id, state, publisher, published, priority, due, expires, txn_app, txn_version, headers, size,
    sum, payload)
SELECT ?5 - 1 + row_number() OVER (ORDER BY w.part, s.row), (SELECT c.id FROM node n JOIN contents c ON c.node_id = n.id WHERE n.name = s.node), s.id, s.state,
    ?1, ?2, s.priority, ?2 + s.pause, ?2 + s.life, ?3, ?4, s.headers, s.size, s.sum,
    CASE WHEN length(s.payload) > %(most)s THEN x'' ELSE s.payload END
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
WHERE NOT EXISTS (SELECT 1 FROM met m WHERE m.attempt_id = s.attempt_id AND m.row = s.row)
ORDER BY w.part, s.row;

-- add_large_of_winners: large payloads of the winners, when the items are in their places
INSERT INTO large_payload (seq, payload)
SELECT i.seq, s.payload FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id AND length(s.payload) > %(most)s
CROSS JOIN node n ON n.name = s.node CROSS JOIN contents c ON c.node_id = n.id CROSS JOIN item i ON i.node_id = c.id AND i.id = s.id
WHERE NOT EXISTS (SELECT 1 FROM met m WHERE m.attempt_id = s.attempt_id AND m.row = s.row AND m.state IS NULL)
    AND length(i.payload) = 0 AND NOT EXISTS (SELECT 1 FROM large_payload l WHERE l.seq = i.seq);

-- keep_winners: the winning attempts at an open version, from a list of parts with attempt numbers
UPDATE attempt SET committed = 1
WHERE txn_id = (SELECT id FROM txn WHERE app_id = ?1 AND version = ?2 AND committed IS NULL)
    AND (part, number) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?3))
RETURNING txn_id;

-- drop_moved: delete rows that have been moved
DELETE FROM staged WHERE row <= ?4 AND attempt_id = (
    SELECT a.id FROM txn_app p CROSS JOIN txn t ON t.app_id = p.id AND t.version = ?2
    CROSS JOIN attempt a ON a.txn_id = t.id AND a.part = ?3 AND a.committed WHERE p.name = ?1
);

-- count_aside: how many of the winners were left out, and how many dead-lettered
UPDATE txn SET items = items - ?3, skipped = iif(?3, coalesce(skipped, 0) + ?3, skipped),
    dead_lettered = iif(?4, coalesce(dead_lettered, 0) + ?4, dead_lettered)
WHERE app_id = (SELECT id FROM txn_app WHERE name = ?1) AND version = ?2 AND committed IS NOT NULL;

-- note_use: set the time of an app's last use
UPDATE txn_app SET used = max(used, ?) WHERE id = ?;

-- staged_by: the rows that some attempts at a version have staged: a list of parts with numbers
SELECT coalesce(sum(a.items), 0), coalesce(sum(a.bytes), 0) FROM json_each(?2) k CROSS JOIN attempt a
ON a.txn_id = ?1 AND a.part = json_extract(k.value, '$[0]') AND a.number = json_extract(k.value, '$[1]');

-- drop_named: drop attempts at a version
UPDATE attempt SET txn_id = NULL WHERE txn_id = ?1
AND (part, number) IN (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?2));

-- drop_orphans: items whose contents belong to no node, by their numbers
DELETE FROM item WHERE seq IN (SELECT value FROM json_each(?));

-- sweep_staged: a slice of the rows that belong to no attempt, and of their bytes
DELETE FROM staged WHERE (attempt_id, row) IN (
    SELECT attempt_id, row FROM (
        SELECT attempt_id, row, sum(size) OVER (ORDER BY attempt_id, row) - size AS before FROM (
            SELECT s.attempt_id, s.row, s.size FROM attempt a JOIN staged s ON s.attempt_id = a.id WHERE a.txn_id IS NULL LIMIT ?
        )
    ) WHERE before < ?
);

-- payloads_gone: large payloads of items that are gone, and their bytes
SELECT g.seq, coalesce(length(l.payload), 0) FROM large_payload_gone g LEFT JOIN large_payload l ON l.seq = g.seq ORDER BY g.seq LIMIT ?;

-- drop_large: the large payload of an item that is gone
DELETE FROM large_payload WHERE seq = ?1 AND NOT EXISTS (SELECT 1 FROM item WHERE seq = ?1 AND length(payload) = 0)
    AND NOT EXISTS (SELECT 1 FROM done_item WHERE seq = ?1 AND length(payload) = 0);

-- forget_gone: it is deleted
DELETE FROM large_payload_gone WHERE seq = ?;

-- sweep_subscriptions: a slice of the subscriptions to deleted nodes whose subscribers need no further notice
DELETE FROM subscription WHERE id IN (
    SELECT s.id FROM former_node f CROSS JOIN subscription s ON s.node_id = f.id WHERE f.telling = 0 LIMIT ?
);

-- sweep_affiliations: a slice of the affiliations with deleted nodes
DELETE FROM affiliation WHERE (node_id, jid) IN (
    SELECT a.node_id, a.jid FROM former_node f CROSS JOIN affiliation a ON a.node_id = f.id WHERE f.telling = 0 LIMIT ?
);

-- sweep_nodes: deleted nodes without any rows left
DELETE FROM former_node WHERE id IN (
    SELECT f.id FROM former_node f WHERE f.telling = 0 AND NOT EXISTS (SELECT 1 FROM subscription WHERE node_id = f.id)
        AND NOT EXISTS (SELECT 1 FROM affiliation WHERE node_id = f.id) LIMIT ?
);
