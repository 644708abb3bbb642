-- Writes of the event log.

-- add_event: an event; its number is the newest plus one
INSERT INTO event (at, kind, node_id, item, attempt, worker, publisher, age, held, origin, went_to, detail)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- add_superseded: items that the winners of a commit replace in a node; ?4 is true for a queue
INSERT INTO event (at, kind, node_id, item, attempt, publisher, age, detail)
SELECT ?1, ?2, (SELECT id FROM node WHERE name = ?3), i.id, i.acquired, i.publisher, max(0, ?1 - i.published), ?5
FROM met m JOIN item i ON i.seq = m.item_seq WHERE m.node = ?3 AND (m.same = 0 OR NOT ?4);

-- add_winners: items that the winners of a commit add to a node, or replace there
INSERT INTO event (at, kind, node_id, item, attempt, publisher, age, detail)
SELECT ?1, ?2, (SELECT id FROM node WHERE name = ?3), s.id, 0, ?6, 0, CASE WHEN m.item_seq IS NULL THEN '' ELSE ?5 END
FROM winner w CROSS JOIN staged s ON s.attempt_id = w.attempt_id
LEFT JOIN met m ON m.attempt_id = s.attempt_id AND m.row = s.row
WHERE s.node = ?3 AND (m.attempt_id IS NULL OR (m.item_seq IS NOT NULL AND (m.same = 0 OR NOT ?4)))
ORDER BY w.part, s.row;
